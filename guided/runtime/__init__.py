"""How our code runs: bounded work, compiled kernels, the environment of a model call."""
