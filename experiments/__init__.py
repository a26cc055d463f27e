"""Our own questions, a folder each; `python -m experiments` writes what follows from their records."""
