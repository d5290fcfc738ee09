"""guided inside other engines, each in a module named after it."""
