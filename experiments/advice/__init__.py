"""Is the advice right? `directions` reads it on known runs, `followed` judges it by second runs that follow it."""
