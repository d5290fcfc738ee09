"""Grammars: Lark, EBNF, patterns and compositions → context-free form → network → recogniser."""
