"""EBNF as in llama.cpp (GBNF) and xgrammar → context-free grammars."""

from guided.grammar.ebnf.parser import lower_ebnf

__all__ = ["lower_ebnf"]
