"""Grammars in Lark's format that are useful on their own, with examples that are also tests.

Beside each ``NAME.lark`` stand ``NAME.accept`` and ``NAME.reject``: one example a line, or, where
examples have several lines, with lines of ``---`` between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

__all__ = ["LibraryGrammar", "grammar_names", "read_grammar"]

_SEPARATOR = "---"


@dataclass(frozen=True, slots=True)
class LibraryGrammar:
    """One grammar of the library; it starts with the rule ``start``."""

    text: str
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]


def grammar_names() -> list[str]:
    """The names of all grammars, in order."""
    paths = (path.name for path in files(__name__).iterdir())
    return sorted(name.removesuffix(".lark") for name in paths if name.endswith(".lark"))


def read_grammar(name: str) -> LibraryGrammar:
    """The grammar of a name; raises KeyError where there is none."""
    if name not in grammar_names():
        raise KeyError(name)
    text, accepted, rejected = (
        files(__name__).joinpath(f"{name}.{kind}").read_text("utf-8")
        for kind in ("lark", "accept", "reject")
    )
    return LibraryGrammar(text, _examples(accepted), _examples(rejected))


def _examples(text: str) -> tuple[str, ...]:
    lines = text.splitlines()
    if _SEPARATOR not in lines:
        return tuple(lines)
    return tuple(part.strip("\n") for part in f"\n{text}".split(f"\n{_SEPARATOR}\n"))
