"""Whether what `adept demo` shows depends on its seeds."""
