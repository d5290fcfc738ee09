"""guided inside other engines, with a module named after each engine."""
