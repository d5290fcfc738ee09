"""Lark's own loader, for the analysis of grammars that only Lark has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lark.exceptions import GrammarError, VisitError
from lark.load_grammar import Grammar, GrammarBuilder

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.grammar.lark.length import MAX_GRAMMAR_LENGTH

__all__ = ["as_ours", "load_grammar"]

_NAME = "<grammar>/<text>"
"""Where Lark looks for what the text imports from beside itself: nowhere on a disk."""


def load_grammar(text: str, imports: Mapping[str, str]) -> Grammar:
    """A grammar and what it imports, which were found to be right before."""

    def find(_: str | None, path: str) -> tuple[str, str]:
        name = path.removesuffix(".lark").replace("\\", "/").replace("/", ".")
        if name in imports:
            return path, imports[name]
        raise FileNotFoundError(path)  # Lark goes on to its own

    builder = GrammarBuilder(import_paths=[find])
    try:
        builder.load_grammar(text, _NAME)
    except AssertionError as error:
        raise UnsupportedFeatureError(
            "a grammar is imported with a dot before its name as well as without one,"
            " which the contextual reading takes for two",
            hint="write it one way",
        ) from error
    return builder.build()


@contextmanager
def as_ours() -> Iterator[None]:
    """Raise our errors for those of Lark about a grammar."""
    try:
        yield
    except GrammarError as error:
        raise InvalidConstraintError(str(error).strip()) from error
    except VisitError as error:
        # Patterns that Python does not take, in terminals that nothing uses.
        raise InvalidConstraintError(f"a terminal cannot be read: {error.orig_exc}") from error
    except RecursionError as error:
        raise LimitExceededError(
            "the grammar nests too deeply", limit=MAX_GRAMMAR_LENGTH, field="constraint"
        ) from error
