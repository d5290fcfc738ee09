"""Generated stubs of the public API; ``proto/generate.py`` makes them, nobody edits them."""
