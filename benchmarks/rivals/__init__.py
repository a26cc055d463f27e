"""Whole training loops beside those of other libraries, on the same environments."""
