"""Training: makes a model draft better, or answer better."""
