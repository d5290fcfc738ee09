"""Check that a vocabulary has the special tokens that a constraint names."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from guided.errors import InvalidConstraintError, UnsatisfiableError
from guided.masks.vocabulary import Vocabulary

__all__ = ["check_special"]

_FEW = 3


def check_special(names: Collection[str], vocabulary: Vocabulary) -> None:
    """Raise an error unless all names are special tokens that may stand in an answer.

    Raises InvalidConstraintError for a name that is no special token of the vocabulary, and
    UnsatisfiableError for a token that ends an answer, as nothing can follow it.

    The names are checked in alphabetical order, so that a constraint is always refused for the same
    name.
    """
    for name in sorted(names):
        token = vocabulary.named.get(name)
        if token is None:
            raise InvalidConstraintError(
                f"the model's tokenizer has no special token {name!r}",
                hint=_way_out(name, vocabulary),
            )
        if token in vocabulary.end_ids:
            raise UnsatisfiableError(
                f"the special token {name!r} ends answers of this model, so none can contain it",
                hint="leave it out: an answer ends where its constraint does",
            )


def _way_out(name: str, vocabulary: Vocabulary) -> str:
    known = sorted(set(vocabulary.named).difference(_ends(vocabulary)))
    if not known:
        return "it has none at all; write a text"
    close = get_close_matches(name, known, n=3) or known[:_FEW]
    return f"name one that it has, such as {', '.join(map(repr, close))}, or write a text"


def _ends(vocabulary: Vocabulary) -> list[str]:
    return [name for name, token in vocabulary.named.items() if token in vocabulary.end_ids]
