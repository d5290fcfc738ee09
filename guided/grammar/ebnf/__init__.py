"""EBNF as llama.cpp (GBNF) and xgrammar have it → context-free grammars."""

from guided.grammar.ebnf.lower import lower_ebnf

__all__ = ["lower_ebnf"]
