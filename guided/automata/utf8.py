"""Ranges of code points as sequences of byte ranges (RFC 3629), raw or inside a JSON string."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["ByteRanges", "json_string_sequences", "utf8_sequences"]

ByteRanges = tuple[tuple[int, int], ...]
"""One inclusive range of values for each byte of a spelling."""

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)

_SHORT_ESCAPES = {
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x22: b'\\"',
    0x5C: b"\\\\",
}


def utf8_sequences(low: int, high: int) -> Iterator[ByteRanges]:
    """The UTF-8 spellings of the code points ``low`` to ``high``, neither of them a surrogate.

    Two sequences agree in their first differing range on no byte, so they merge into a trie.
    """
    for last in _LAST_OF_LENGTH:
        if low > last or low > high:
            continue
        upper = min(high, last)
        yield from _same_length(low, upper)
        low = upper + 1


def _same_length(low: int, high: int) -> Iterator[ByteRanges]:
    # Cut at the borders of 64, 4096, ... so that all bytes behind the cut run from 80 to BF.
    for shift in (6, 12, 18):
        tail = (1 << shift) - 1
        if low >> shift != high >> shift and high > 0x7F:
            if low & tail:
                yield from _same_length(low, low | tail)
                yield from _same_length((low | tail) + 1, high)
                return
            if high & tail != tail:
                yield from _same_length(low, (high & ~tail) - 1)
                yield from _same_length(high & ~tail, high)
                return
    yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))


def json_string_sequences(low: int, high: int) -> Iterator[ByteRanges]:
    """The spellings inside a JSON string (RFC 8259, section 7) of ``low`` to ``high``.

    Each code point has exactly one: raw where that is allowed, else the short escape, else
    ``\\u00xx`` in lower case, which is what ``json.dumps(..., ensure_ascii=False)`` writes.
    """
    start = low
    for code_point in (*range(0x20), 0x22, 0x5C):
        if not low <= code_point <= high:
            continue
        if start < code_point:
            yield from utf8_sequences(start, code_point - 1)
        escape = _SHORT_ESCAPES.get(code_point, b"\\u%04x" % code_point)
        yield tuple((byte, byte) for byte in escape)
        start = code_point + 1
    if start <= high:
        yield from utf8_sequences(start, high)
