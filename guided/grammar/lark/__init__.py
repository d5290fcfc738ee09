"""Lark grammars as text → context-free grammars."""

from guided.grammar.lark.lower import has_inline_schema, lower_lark

__all__ = ["has_inline_schema", "lower_lark"]
