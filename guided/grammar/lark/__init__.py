"""Lark grammars as text → context-free grammars."""

from guided.grammar.lark.inline_json import inline_names, without_inline_json
from guided.grammar.lark.lower import lower_lark

__all__ = ["inline_names", "lower_lark", "without_inline_json"]
