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


def tiny_vocabulary(
    pieces: Iterable[bytes] = JSON_PIECES, special: Iterable[str] = (), named: Iterable[str] = ()
) -> Vocabulary:
    """Token 0 ends a text, then come the 256 bytes, then the pieces; spelled longest first.

    After them come ``special`` tokens, and those that have a name though they are text.
    """
    special, named = [*special], [*named]
    names = [*special, *named]
    tokens: list[bytes | None] = [None, *(bytes((byte,)) for byte in range(256)), *pieces]
    first = len(tokens)
    tokens += [None for _ in special]
    tokens += [name.encode() for name in named]
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

    ids = {name: TokenId(first + place) for place, name in enumerate(names)}
    ids["<end>"] = TokenId(0)
    return Vocabulary(tuple(tokens), frozenset({TokenId(0)}), spell, named=ids)
