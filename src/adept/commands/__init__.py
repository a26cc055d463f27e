"""The commands of the command line, one file each: options as a dataclass, and `run`."""
