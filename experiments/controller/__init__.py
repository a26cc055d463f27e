"""Settings of the hindsight rule, tried on the development tasks from good and bad starts."""
