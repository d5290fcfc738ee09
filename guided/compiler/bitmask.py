"""Bitmasks: the memory of a host that masks are written to.

A bitmask is int32 ``[rows, words]``: token ``t`` may come next if bit ``t % 32`` of word
``t // 32`` of a row is set. This is the format of xgrammar and llguidance. Rows may have more words
than the vocabulary needs, since models have more logits than tokens; the other words are cleared.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.errors import RequestError

__all__ = ["Bitmask", "row_error", "row_numbers", "writable_memory"]


class _HasArray(Protocol):
    """An object that shares its memory with numpy, such as a torch tensor on the CPU."""

    def __array__(self) -> NDArray[Any]: ...


Bitmask: TypeAlias = NDArray[np.int32] | _HasArray
"""int32 ``[rows, words]`` in the memory of the CPU."""

_BITMASK_HINT = "Compiler.bitmask(rows) makes one, or pass a tensor of torch.int32 on the CPU"


def writable_memory(bitmask: Bitmask) -> NDArray[np.int32]:
    """Return a bitmask's own memory as an array; raises RequestError if it cannot be written to."""
    memory = bitmask if isinstance(bitmask, np.ndarray) else _shared_memory(bitmask)
    if memory.dtype != np.int32 or memory.ndim != 2:
        raise RequestError(
            f"the bitmask is {memory.dtype} of {memory.ndim} dimensions, not int32 [rows, words]",
            field="bitmask",
            hint=_BITMASK_HINT,
        )
    if memory.strides[1] != memory.itemsize and memory.shape[1] > 1:
        raise RequestError(
            "the words of a row of the bitmask are not contiguous in memory",
            field="bitmask",
            hint="pass it as it was made, not transposed and without steps along its rows",
        )
    if not memory.flags.writeable:
        raise RequestError("the bitmask is read-only", field="bitmask", hint=_BITMASK_HINT)
    return memory


def _shared_memory(bitmask: _HasArray) -> NDArray[Any]:
    """Return the memory of an object of another library as an array; RequestError for a copy."""
    if not hasattr(bitmask, "__array__"):
        name = type(bitmask).__name__
        raise RequestError(
            f"a {name} shares no memory with numpy, so no mask can be written to it",
            field="bitmask",
            hint=_BITMASK_HINT,
        )
    try:
        memory, again = np.asarray(bitmask), np.asarray(bitmask)
    except (TypeError, RuntimeError) as error:  # torch: it is on another device, or has gradients
        raise RequestError(
            f"the bitmask shares no memory with numpy: {error}",
            field="bitmask",
            hint="fill one in the memory of the processor, then move it to the device",
        ) from error
    # Two copies never overlap, so the quick test is enough.
    if memory.size and not np.may_share_memory(memory, again):
        raise RequestError(
            f"a {type(bitmask).__name__} gives numpy a copy, which would be filled in its place",
            field="bitmask",
            hint=_BITMASK_HINT,
        )
    return memory


def row_numbers(rows: list[int] | range, memory: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return row numbers as int64 ``[rows]``; raises RequestError for a row that does not exist."""
    if not rows:
        return np.empty(0, dtype=np.int64)
    # ``min`` would walk over a range.
    for row in (rows[0], rows[-1]) if isinstance(rows, range) else (min(rows), max(rows)):
        if not 0 <= row < len(memory):
            raise row_error(memory, row, num_words=0)
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, rows.step, dtype=np.int64)
    return np.array(rows, dtype=np.int64)


def row_error(memory: NDArray[np.int32], row: int, num_words: int) -> RequestError:
    """Return the error that says why a mask of ``num_words`` cannot be written to a row."""
    rows, width = memory.shape
    if not 0 <= row < rows:
        return RequestError(
            f"row {row} of a bitmask of {rows} rows", field="rows", hint="rows count from 0"
        )
    return RequestError(
        f"the bitmask has {width} words a row, and the vocabulary takes {num_words}",
        field="bitmask",
        hint="Compiler.bitmask(rows) makes one that is wide enough",
    )
