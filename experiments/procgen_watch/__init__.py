"""What each update was worth on Procgen at the paper's size: the study procgen-watch."""
