"""Check that a vocabulary has the special tokens that a constraint names."""

from __future__ import annotations

from collections.abc import Collection

from guided.errors import InvalidConstraintError, UnsatisfiableError
from guided.masks.vocabulary import Vocabulary
from guided.spec.closest import close_names

__all__ = ["check_special_tokens"]

_MAX_SUGGESTED = 3


def check_special_tokens(names: Collection[str], vocabulary: Vocabulary) -> None:
    """Check that all names are special tokens that may be in an answer.

    Raises InvalidConstraintError for a name that is no special token of the vocabulary, and
    UnsatisfiableError for a token that ends an answer, as nothing can follow it. The names are
    checked in alphabetical order, so that a constraint always has the same error.
    """
    for name in sorted(names):
        token = vocabulary.named.get(name)
        if token is None:
            raise InvalidConstraintError(
                f"the model's tokenizer has no special token {name!r}",
                hint=_hint(name, vocabulary),
            )
        if token in vocabulary.end_ids:
            raise UnsatisfiableError(
                f"the special token {name!r} ends answers of this model, so none can contain it",
                hint="leave it out: an answer ends where its constraint does",
            )


def _hint(name: str, vocabulary: Vocabulary) -> str:
    known = sorted(set(vocabulary.named).difference(_end_names(vocabulary)))
    if not known:
        return "it has none at all; write a text"
    close = close_names(name, known, _MAX_SUGGESTED) or known[:_MAX_SUGGESTED]
    return f"name one that it has, such as {', '.join(map(repr, close))}, or write a text"


def _end_names(vocabulary: Vocabulary) -> list[str]:
    return [name for name, token in vocabulary.named.items() if token in vocabulary.end_ids]
