"""ADEPT inside other frameworks: one module each, an adapter of the engine, which imports its framework alone."""
