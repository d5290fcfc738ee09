"""Reads a GGUF file's header once, for our own code and for transformers.

The package ``gguf`` makes arrays of each of a vocabulary's hundred thousand tokens and merges,
which takes seconds, and transformers makes it read the header again for the tokenizer and config.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["read_once"]

_ONE_AT_A_TIME: Final = threading.Lock()
"""Blocks of several threads wait for each other, because they replace a class process-wide."""


@contextmanager
def read_once(file: Path) -> Iterator[None]:
    """Make ``gguf`` return the same reader of this file for the whole block."""
    import gguf
    from gguf.gguf_reader import GGUFReader

    foreign: Any = GGUFReader
    readers: list[Any] = []

    class Reader(foreign):  # type: ignore[misc]
        """The same arrays over the same file, made without ``numpy.memmap``'s work for each."""

        def _get(
            self,
            offset: int,
            dtype: DTypeLike,
            count: int = 1,
            override_order: str | None = None,
        ) -> NDArray[Any]:
            kind = np.dtype(dtype).newbyteorder(override_order or self.byte_order)  # type: ignore[arg-type]
            return np.frombuffer(self.data, kind, int(count), int(offset))

    def reader_of(path: Path | str, *arguments: Any) -> Any:
        if Path(path) != file:
            return foreign(path, *arguments)
        if not readers:
            readers.append(Reader(path, *arguments))
        return readers[0]

    with _ONE_AT_A_TIME:
        gguf.GGUFReader = reader_of  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            gguf.GGUFReader = GGUFReader  # type: ignore[misc]
