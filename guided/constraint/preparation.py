"""Compiling kernels before anybody waits for them: when guided is built, and ``guided prepare``."""

from __future__ import annotations

from guided.constraint.compiler import ConstraintCompiler
from guided.spec import TokenId
from guided.tokens.vocabulary import Vocabulary

__all__ = ["prepare_kernels"]

_END = TokenId(256)


def prepare_kernels() -> None:
    """Use whatever a check, a compiled constraint and its masks may use, so that it is compiled.

    What lies on the disk already is only read, which takes a second or two.
    """
    tokens = (*(bytes((byte,)) for byte in range(256)), None)
    ConstraintCompiler(Vocabulary(tokens, frozenset({_END}), _spell)).rehearse()


def _spell(text: str) -> list[int]:
    return list(text.encode())
