"""Ranges of code points as sequences of byte ranges: UTF-8 (RFC 3629), and in JSON strings."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

__all__ = ["ByteRanges", "any_json_string_sequences", "json_string_sequences", "utf8_sequences"]

ByteRanges = tuple[tuple[int, int], ...]
"""One inclusive range of values for each byte of a spelling."""

_LAST_OF_LENGTH: Final = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)

_SHORT_ESCAPES: Final = {
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x22: b'\\"',
    0x5C: b"\\\\",
}
_ESCAPE: Final[ByteRanges] = ((0x5C, 0x5C), (0x75, 0x75))
_FIRST_PAIRED: Final = 0x10000


def utf8_sequences(low: int, high: int) -> Iterator[ByteRanges]:
    """Yield the UTF-8 spellings of the code points ``low`` to ``high``, none a surrogate.

    Where two sequences, of this range or of one that is disjoint from it, first differ, their
    ranges are disjoint. So they can be merged into a trie, which ``byte_dfa`` relies on.
    """
    for last in _LAST_OF_LENGTH:
        if low > last or low > high:
            continue
        upper = min(high, last)
        yield from _sequences_of_one_length(low, upper)
        low = upper + 1


def _sequences_of_one_length(low: int, high: int) -> Iterator[ByteRanges]:
    """Yield the UTF-8 spellings of code points with the same number of bytes, ascending."""
    # Cut at multiples of 64, 4096, ... so that all bytes after the cut range from 80 to BF.
    for shift in (6, 12, 18):
        tail = (1 << shift) - 1
        if low >> shift != high >> shift and high > 0x7F:
            if low & tail:
                yield from _sequences_of_one_length(low, low | tail)
                yield from _sequences_of_one_length((low | tail) + 1, high)
                return
            if high & tail != tail:
                yield from _sequences_of_one_length(low, (high & ~tail) - 1)
                yield from _sequences_of_one_length(high & ~tail, high)
                return
    yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))


def json_string_sequences(low: int, high: int) -> Iterator[ByteRanges]:
    """Yield the spellings inside a JSON string (RFC 8259, section 7) of ``low`` to ``high``.

    Each code point has exactly one: raw where that is allowed, else the short escape, else
    ``\\u00xx`` in lower case, which is what ``json.dumps(..., ensure_ascii=False)`` writes.
    None may be a surrogate, and ranges are disjoint, as for ``utf8_sequences``.
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


def any_json_string_sequences(low: int, high: int) -> Iterator[ByteRanges]:
    """Yield every spelling inside a JSON string of ``low`` to ``high``, none of them a surrogate.

    Raw where that is allowed, by a short escape (``\\/`` too), or by ``\\u`` and four hexadecimal
    digits in either case, of which two make a surrogate pair above U+FFFF. Never half a pair.
    Where two sequences first differ, their ranges are disjoint, as in ``utf8_sequences``.
    """
    start = low
    for code_point in (*range(0x20), 0x22, 0x5C):  # these are never raw
        if low <= code_point <= high:
            yield from utf8_sequences(start, code_point - 1)
            start = code_point + 1
    yield from utf8_sequences(start, high)
    for code_point, escape in {**_SHORT_ESCAPES, 0x2F: b"\\/"}.items():
        if low <= code_point <= high:
            yield tuple((byte, byte) for byte in escape)
    if low < _FIRST_PAIRED:
        for digits in _hexadecimal(low, min(high, _FIRST_PAIRED - 1), 4):
            yield _ESCAPE + digits
    if high >= _FIRST_PAIRED:
        yield from _surrogate_pairs(max(low, _FIRST_PAIRED), high)


def _surrogate_pairs(low: int, high: int) -> Iterator[ByteRanges]:
    """Yield the surrogate pairs, as in ``\\uD800\\uDC00``, of code points from _FIRST_PAIRED on.

    RFC 8259, section 7: each half has ten bits.
    """
    for first, last, below, above in _split_by_quotient(
        low - _FIRST_PAIRED, high - _FIRST_PAIRED, 1 << 10
    ):
        for lead in _hexadecimal(0xD800 + first, 0xD800 + last, 4):
            for trail in _hexadecimal(0xDC00 + below, 0xDC00 + above, 4):
                yield _ESCAPE + lead + _ESCAPE + trail


@functools.lru_cache(maxsize=4096)
def _hexadecimal(low: int, high: int, count: int) -> tuple[ByteRanges, ...]:
    """Return the numbers ``low`` to ``high`` in ``count`` hexadecimal digits of either case.

    Each number, in each mixture of cases, is in exactly one of the sequences.
    """
    if count == 0:
        return ((),)
    sequences: list[ByteRanges] = []
    for first, last, below, above in _split_by_quotient(low, high, 16 ** (count - 1)):
        rest = _hexadecimal(below, above, count - 1)
        sequences += (
            ((letters + a, letters + b), *tail)
            for letters, a, b in _digit_ranges(first, last)
            for tail in rest
        )
    return tuple(sequences)


def _digit_ranges(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of digits of one case: what to add to them, the first and the last digit."""
    if first <= 9:
        yield ord("0"), first, min(last, 9)
    if last > 9:
        yield ord("A") - 10, max(first, 10), last
        yield ord("a") - 10, max(first, 10), last


def _split_by_quotient(low: int, high: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Split ``low`` to ``high`` into ranges of quotients by ``size``, each with its remainders.

    0x15 to 0x42 by 16 is ``1 1 5 F``, ``2 3 0 F`` and ``4 4 0 2``.
    """
    first, below = divmod(low, size)
    last, above = divmod(high, size)
    if first == last:
        yield first, last, below, above
        return
    if below:
        yield first, first, below, size - 1
        first += 1
    whole = last if above == size - 1 else last - 1
    if first <= whole:
        yield first, whole, 0, size - 1
    if whole < last:
        yield last, last, 0, above
