"""EBNF as llama.cpp (GBNF) and xgrammar have it → context-free grammars."""

from guided.grammar.ebnf.parser import lower_ebnf

__all__ = ["lower_ebnf"]
