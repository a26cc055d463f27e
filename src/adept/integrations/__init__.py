"""ADEPT inside other frameworks: one module each, which imports `adept.schedulers` and its framework alone."""
