"""Compiles kernels in advance: when guided is built, or by ``guided prepare``."""

from __future__ import annotations

from typing import Final

from guided.constraint.compiler import ConstraintCompiler
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["prepare_kernels"]

_PIECES: Final = (b'{"', b'"}', b'":', b'","', b'":"', b'"a":', b"aa", b"a,", b"10", b"true", b"((")
"""Tokens that begin or end inside or between the parts of JSON and grammars."""
_END: Final = TokenId(256 + len(_PIECES))


def prepare_kernels() -> None:
    """Run everything that a check, a compiled constraint and its masks may use, so it is compiled.

    Kernels that are already on the disk are only loaded, which takes a second or two.
    """
    tokens = (*(bytes((byte,)) for byte in range(256)), *_PIECES, None)
    compiler = ConstraintCompiler(Vocabulary(tokens, frozenset({_END}), _spell))
    # In the opposite order of an engine that is loaded at the same time (``engine.load``).
    compiler.rehearse(grammars_first=True)


def _spell(text: str) -> list[int]:
    """Return the tokens of a text, one for each byte."""
    return list(text.encode())
