"""Regular languages: sets of code points, expressions, and automata over code points and bytes."""
