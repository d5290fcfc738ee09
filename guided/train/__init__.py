"""Training: what makes a model draft better, or answer better."""
