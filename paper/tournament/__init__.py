"""The study `tournament`: what of it is compared, the answers to its questions, and its part of docs/results.md."""
