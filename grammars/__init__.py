"""Grammars in Lark's format that are useful on their own, with examples that are also tests.

Beside each ``NAME.lark`` stand ``NAME.accept`` and ``NAME.reject``: one example a line, or, where
examples have several lines, with lines of ``---`` between them. An empty example is an empty
line. The first comment of a grammar says what it is for. ``guided.spec.library`` reads them.
"""
