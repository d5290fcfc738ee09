"""Lark grammars as text → context-free grammars."""

from guided.frontends.lark.lower import lower_lark

__all__ = ["lower_lark"]
