"""The hindsight rule of before, which moved the learning rate by slopes, and every trial of its settings."""
