"""Is the lead of hindsight one of short budgets? MuJoCo at 1 M steps, the budget of CleanRL's table."""
