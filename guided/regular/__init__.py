"""Regular languages: sets of code points, expressions, and automata over code points and bytes.

``dfa.py`` shows the steps from an expression to an automaton, ``lookaround.py`` says where
look-around is handled, and ``patterns`` parses expressions that are written as text. Modules whose
names end in ``_kernel`` contain what numba compiles; ``transitions.py`` shows the arrays that they
share.

A *move* is a transition that reads a code point or a byte, an *epsilon* one that reads nothing. A
*class* is a set of code points, or of bytes, that no state distinguishes. States, classes and sets
are numbered from 0, and -1 stands for none.
"""
