"""Clients of others, unchanged, in an environment of their own."""
