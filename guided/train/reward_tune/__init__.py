"""Teaches a model to follow a structure unconstrained, by imitation and by rewards, through TRL."""
