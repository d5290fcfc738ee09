"""What answers a workload: each is a function of options, requests and ``Answers``."""
