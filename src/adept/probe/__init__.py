"""Probes tell whether a scheduler's choice is worth anything, or follows the noise and the trend of training.

placebo: rewards that the scheduler cannot have changed. effects: what each arm does to the reward, against its noise.
stages: states from which every arm was tried, with the true return of each (made by branches). distances: rules on
feedback that holds no signal.
"""
