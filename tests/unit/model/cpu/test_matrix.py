"""Memory for weights is handed out piece by piece."""

from __future__ import annotations

from guided.model.cpu.matrix import LargePages


def test_pieces_of_memory_are_apart_and_start_at_a_line() -> None:
    memory = LargePages()
    pieces = [memory.take(nbytes) for nbytes in (1, 64, 65, 2**27, 3)]
    assert [len(piece) for piece in pieces] == [1, 64, 65, 2**27, 3]
    assert all(piece.ctypes.data % 64 == 0 for piece in pieces)
    for number, piece in enumerate(pieces):
        piece[:] = number + 1
    assert [(piece.min(), piece.max()) for piece in pieces] == [(n, n) for n in range(1, 6)]
