"""Compiling kernels before anybody waits for them: when guided is built, and ``guided prepare``."""

from __future__ import annotations

from typing import Final

from guided.constraint.compiler import ConstraintCompiler
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["prepare_kernels"]

_PIECES: Final = (b'{"', b'"}', b'":', b'","', b'":"', b'"a":', b"aa", b"a,", b"10", b"true", b"((")
"""Tokens that begin and end what JSON and grammars are made of, in their midst or not."""
_END: Final = TokenId(256 + len(_PIECES))


def prepare_kernels() -> None:
    """Use whatever a check, a compiled constraint and its masks may use, so that it is compiled.

    What lies on the disk already is only read, which takes a second or two.
    """
    tokens = (*(bytes((byte,)) for byte in range(256)), *_PIECES, None)
    compiler = ConstraintCompiler(Vocabulary(tokens, frozenset({_END}), _spell))
    # From the other end than an engine that is loaded at the same time (``ColdKernels``).
    compiler.rehearse(grammars_first=True)


def _spell(text: str) -> list[int]:
    """Bytes alone, as if the model had never merged any."""
    return list(text.encode())
