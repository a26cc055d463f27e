"""Does hindsight make PPO's starting learning rate and epochs unimportant? The study start-anywhere."""
