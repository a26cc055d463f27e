"""Hindsight's former rule, its rivals and a standardised bandit on 12 held-out tasks: two closed studies and a grid."""
