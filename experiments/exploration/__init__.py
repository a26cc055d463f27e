"""How much exploration a bandit needs once its rewards are standardised."""
