"""A run: its folder and records, how it is carried out, shown, tracked, measured and evaluated."""
