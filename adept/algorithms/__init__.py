"""Algorithms: each is a loss over a minibatch, and `Learner` turns it into updates."""
