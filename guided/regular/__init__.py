"""Regular languages: sets of code points, expressions, and automata over code points and bytes.

``dfa.py`` draws the way from an expression to an automaton, ``lookaround.py`` says where
look-around is handled, and ``patterns`` reads expressions that are written as text. Modules whose
names end in ``_kernel`` contain what numba compiles; ``transitions.py`` draws the arrays that they
share.
"""
