"""Does hindsight tell the truth? Gains and slopes against the true returns of the same parameters."""
