"""Programs that run in the environment of another Python."""
