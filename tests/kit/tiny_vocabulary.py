"""A vocabulary small enough to try every token: all bytes, some longer tokens, one end token."""

from __future__ import annotations

from collections.abc import Iterable

from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["JSON_PIECES", "tiny_vocabulary"]

JSON_PIECES = (
    b'{"',
    b'"}',
    b'":',
    b'":"',
    b'","',
    b',"',
    b'"a":',
    b',"a":1',
    b'a":0,"',
    b'a":0,"a":',
    b"}}",
    b"]}",
    b"],",
    b"[[",
    b"10",
    b"00",
    b"0,",
    b"-1",
    b"0.5",
    b"true",
    b"null",
    b"ab",
    b"abc",
    b"name",
    b'name":',
    b"\xc3\xa9",
    b"\xa9x",
    b"\xf0\x9f",
    b"\\n",
    b'\\"',
    b'"a"',
    b'""',
    b'"":',
    b"red",
    b'red"',
)


def tiny_vocabulary(pieces: Iterable[bytes] = JSON_PIECES) -> Vocabulary:
    """Token 0 ends a text, then come the 256 bytes, then the pieces; spelled longest first."""
    tokens: list[bytes | None] = [None, *(bytes((byte,)) for byte in range(256)), *pieces]
    numbers = {text: number for number, text in enumerate(tokens) if text is not None}
    longest = max(map(len, numbers))

    def spell(text: str) -> list[int]:
        data, position, spelled = text.encode(), 0, []
        while position < len(data):
            end = next(
                end
                for end in range(min(position + longest, len(data)), position, -1)
                if data[position:end] in numbers
            )
            spelled.append(numbers[data[position:end]])
            position = end
        return spelled

    return Vocabulary(tuple(tokens), frozenset({TokenId(0)}), spell)
