"""Lark grammars as text → context-free grammars."""

from guided.grammar.lark.inline_json import extract_inline_json, inline_schema_names
from guided.grammar.lark.lower import lower_lark

__all__ = ["extract_inline_json", "inline_schema_names", "lower_lark"]
