"""Constraints as text → intermediate forms; one package for each language."""
