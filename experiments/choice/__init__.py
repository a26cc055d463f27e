"""Why the paper's bandits do not find the better number of epochs: placebos, effects of arms, branches."""
