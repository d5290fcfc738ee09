"""Grammars whose format is seen from their text, as requests of other servers have them."""

from __future__ import annotations

from guided.spec.constraints import Ebnf, Lark

__all__ = ["grammar_of"]


def grammar_of(text: str) -> Ebnf | Lark:
    """Return a grammar: EBNF where there is a ``::=``, unless it begins with ``%llguidance``.

    Rules of EBNF have that sign, those of Lark a colon, by which vLLM and SGLang distinguish them.
    The header says to SGLang and llama.cpp that a grammar is Lark with additions.
    """
    is_ebnf = "::=" in text and not text.lstrip().startswith("%llguidance")
    return Ebnf(text) if is_ebnf else Lark(text)
