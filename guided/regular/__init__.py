"""Regular languages: sets of code points, expressions, and automata over code points and bytes.

``dfa.py`` draws the way from an expression to an automaton, ``lookaround.py`` says where
look-around is dealt with, and ``patterns`` reads expressions that are written as text. Modules
whose names end in ``_kernel`` hold what numba compiles; ``transitions.py`` draws the arrays that
they pass on.
"""
