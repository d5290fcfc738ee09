"""Matrices take the memory of their weights, whatever the number of rows they multiply."""

from __future__ import annotations

import ctypes

import pytest
import torch

from guided.model.cpu.instructions import InstructionSet, has
from guided.model.cpu.int8_matrix import Int8Matrix
from guided.model.cpu.onednn_matrix import whole_tiles


class _MallInfo(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks")),
        ("keepcost", ctypes.c_size_t),
    )


def bytes_in_use() -> int:
    """The bytes that the C library has allocated and not freed."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("this C library does not tell what is in use")
    library.mallinfo2.restype = _MallInfo
    found = library.mallinfo2()
    return int(found.uordblks + found.hblkhd)


@pytest.mark.parametrize(("rows", "tiles"), [(1, 16), (16, 16), (17, 32), (160, 160), (161, 176)])
def test_the_last_tile_is_filled(rows: int, tiles: int) -> None:
    assert whole_tiles(rows) == tiles


@pytest.mark.skipif(not has(InstructionSet.AMX), reason="oneDNN multiplies no int8 here")
def test_no_number_of_rows_has_memory_of_its_own() -> None:
    """For equal numbers of tiles; the measured memory is larger than what Python keeps."""
    linear = Int8Matrix(torch.randn(1536, 576), None)
    for rows in (64, 128):
        linear.multiply(torch.randn(rows, 576).numpy())
    before = bytes_in_use()
    for rows in (*range(57, 65), *range(121, 129)):
        assert linear.multiply(torch.randn(rows, 576).numpy()).shape == (rows, 1536)
    assert bytes_in_use() - before < 2**20
