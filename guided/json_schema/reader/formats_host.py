"""Host names (RFC 1123, section 2.1) and mail addresses (RFC 5321, section 4.1.2)."""

from __future__ import annotations

from typing import Final

from guided.json_schema.reader.formats_alabel import hebrew_labels, mixed_labels, short_labels
from guided.json_schema.reader.formats_uri import IPV4, IPV6
from guided.json_schema.reader.punycode import END, GraphWriter
from guided.regular.codepoints import EMPTY, CodePoints
from guided.regular.expression import (
    Alternate,
    Both,
    Chars,
    Concat,
    End,
    Graph,
    Regular,
    Repeat,
    Start,
    literal,
)
from guided.regular.patterns import parse_regex

__all__ = ["IP_LITERAL", "ascii_label", "domain", "email", "hostname", "local_part"]


# The longest A-label has 39 characters: with four others of so many it makes 243.
_MOST_BESIDE: Final = 50
_LETTER = CodePoints.of([(0x41, 0x5A), (0x61, 0x7A)])
_LETTER_OR_DIGIT = CodePoints.of([(0x30, 0x39)]) | _LETTER
_HYPHEN = CodePoints.single("-")
_PREFIX = tuple(
    CodePoints.of((ord(c), ord(c)) for c in either) for either in ("Xx", "Nn", "-", "-")
)
_DOT = Chars(CodePoints.single("."))


def ascii_label(most: int) -> str:
    """A label of letters, digits and inner hyphens, at most so many characters."""
    return rf"[A-Za-z0-9](?:[A-Za-z0-9\-]{{0,{most - 2}}}[A-Za-z0-9])?"


def _shapes(most: int) -> tuple[tuple[int, int], ...]:
    """How many labels a name of at most ``most`` characters may have, and how long they are.

    To count both at once takes many thousand states, so a name has few long labels or more short
    ones: those of up to 63 characters, of up to 30, or of up to 14, as many as fit in any case.
    """
    return tuple(((most + 1) // (longest + 1), longest) for longest in (63, 30, 14))


def domain(most: int) -> str:
    """A name of at most ``most`` characters."""
    options = (
        rf"{label}(?:\.{label}){{0,{times - 1}}}"
        for times, longest in _shapes(most)
        if (label := ascii_label(longest))
    )
    return f"(?:{'|'.join(options)})"


def hostname() -> Regular:
    """Names with at most one A-label, and two others on either side of it."""
    prefix, from_left = literal("xn--"), Alternate((mixed_labels(), short_labels()))
    beside = _plain_label(_MOST_BESIDE)
    # Beside a label from right to left, others begin with a letter (RFC 5893, section 2).
    letter_first = _plain_label(_MOST_BESIDE, _LETTER)
    names = (
        *(_joined(_plain_label(longest), times) for times, longest in _shapes(253)),
        Concat((Repeat(Concat((beside, _DOT)), 0, 2), prefix, from_left, _more(beside, 2))),
        Concat((prefix, hebrew_labels(), _more(letter_first, 2))),
    )
    return Concat((Start(), Alternate(names), End()))


def _joined(label: Regular, times: int) -> Regular:
    return Concat((label, _more(label, times - 1)))


def _more(label: Regular, most: int) -> Regular:
    return Repeat(Concat((_DOT, label)), 0, most)


def _plain_label(most: int, first: CodePoints = _LETTER_OR_DIGIT) -> Graph:
    """A label that does not begin as A-labels do."""
    writer = GraphWriter()
    start = prefix = writer.state()
    sources: tuple[int, ...] = ()
    for count in range(1, most + 1):
        letters = first if count == 1 else _LETTER_OR_DIGIT
        hyphens = EMPTY if count in (1, most) else _HYPHEN
        here, hyphen = writer.state(), writer.state()
        moves = [(source, letters, hyphens) for source in sources]
        if count <= len(_PREFIX):
            # What goes on as the prefix does is in states of its own.
            on = _PREFIX[count - 1]
            moves.append((prefix, letters & ~on, hyphens & ~on))
            if count < len(_PREFIX):
                before, prefix = prefix, writer.state()
                writer.move(before, on, prefix)
                writer.move(before, on & letters, END)
        for source, letter, minus in moves:
            writer.move(source, letter, here)
            writer.move(source, letter, END)
            writer.move(source, minus, hyphen)
        sources = here, hyphen
    return writer.graph(start)


IP_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]"


def local_part(more: str) -> str:
    """What stands before the "@", with ``more`` characters: atoms and dots, or quoted."""
    atom = rf"[A-Za-z0-9!#$%&'*+\-/=?^_`{{|}}~{more}]+"
    return rf'(?:{atom}(?:\.{atom})*|"(?:[ !#-\[\]-~{more}]|\\[ -~])*")'


def email() -> Regular:
    """Addresses whose local part has at most 64 octets and the whole at most 254 (4.5.3.1)."""
    address = rf"^{local_part('')}@(?:{domain(189)}|{IP_LITERAL})$"
    short = r'^(?:[^"@]{1,64}@|"(?:[^"\\]|\\.){0,31}"@)'
    return Both(parse_regex(address), parse_regex(short))
