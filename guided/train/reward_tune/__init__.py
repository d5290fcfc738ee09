"""Teaching a model to keep to a structure by itself, by imitation and by rewards, through TRL."""
