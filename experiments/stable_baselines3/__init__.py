"""Our PPO beside Stable-Baselines3's, and what a scheduler does in it."""
