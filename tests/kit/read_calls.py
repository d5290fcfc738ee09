"""The calls that a reader finds in a text that comes in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from guided_service.call_reader import Argument, CallBegun, CallReader, Content

__all__ = ["read_calls"]


def read_calls(reader: CallReader, text: str, cuts: Iterable[int]) -> list[tuple[str, str]]:
    """Name and arguments of each call; all calls have ended, and there is no other text."""
    calls: list[tuple[str, str]] = []
    edges = [0, *sorted(cuts), len(text)]
    told = [piece for a, b in pairwise(edges) for piece in reader.read(text[a:b])]
    for piece in (*told, *reader.end()):
        match piece:
            case CallBegun(name):
                calls.append((name, ""))
            case Argument(more):
                calls[-1] = (calls[-1][0], calls[-1][1] + more)
            case Content(said):
                assert not said.strip()
    assert reader.num_calls == reader.num_ended
    return calls
