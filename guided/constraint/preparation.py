"""Compile kernels before anybody waits for them: when guided is built, or by ``guided prepare``."""

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
    """Use everything that a check, a compiled constraint and its masks may use, so it is compiled.

    What is already on the disk is only loaded, which takes a second or two.
    """
    tokens = (*(bytes((byte,)) for byte in range(256)), *_PIECES, None)
    compiler = ConstraintCompiler(Vocabulary(tokens, frozenset({_END}), _spell))
    # The order opposite to that of an engine being loaded at the same time (``ColdKernels``).
    compiler.rehearse(grammars_first=True)


def _spell(text: str) -> list[int]:
    """Spell a text in bytes, as if the model had no merges."""
    return list(text.encode())
