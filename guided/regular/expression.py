"""Syntax trees of regular expressions: parsers return them, and automata are built from them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import ANY, CodePoints

__all__ = [
    "ANYTHING",
    "EMPTY_TEXT",
    "MAX_DEPTH",
    "Alternate",
    "Chars",
    "Concat",
    "End",
    "Graph",
    "Intersection",
    "Look",
    "Regular",
    "Repeat",
    "SeparatedRepeat",
    "Start",
    "Value",
    "contains_end",
    "literal",
    "one_character",
    "short_match",
    "texts_up_to",
    "texts_without",
    "word_boundary",
]


_PREFERRED_RANGES: Final = (
    (0x61, 0x7A),
    (0x30, 0x39),
    (0x41, 0x5A),
    (0x23, 0x5B),
    (0x5D, 0x7E),
    (0x20, 0x21),
)
"""Characters of short matches, the preferred ones first; JSON escapes none of them."""
_MAX_MATCH_LENGTH: Final = 1_000
"""Most characters of a short match; longer ones are not returned."""
MAX_DEPTH: Final = 1_000
"""Most expressions nested in each other. Passes over them are recursive, and compiled recursion has
no limit of its own."""


class Value:
    """A value object: equal to others of its class with equal ``fields``, which are hashed once.

    Expressions are keys of many tables. Not a dataclass, whose methods mypyc does not compile.
    """

    __slots__ = ("_fields", "_hash")

    def __init__(self, fields: tuple[object, ...]) -> None:
        self._fields: Final = fields
        self._hash: Final = hash(fields)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Value)
            and type(self) is type(other)
            and self._hash == other._hash
            and self._fields == other._fields
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._fields!r}"


class _Node(Value):
    """A node of a syntax tree; raises LimitExceededError if nodes nest deeper than MAX_DEPTH.

    ``fields`` are all that it is compared by, ``parts`` the expressions in them.
    """

    __slots__ = ("_depth",)

    def __init__(self, fields: tuple[object, ...], parts: tuple[Regular, ...] = ()) -> None:
        super().__init__(fields)
        depth = 0
        for part in parts:
            if isinstance(part, _Node) and part._depth >= depth:
                depth = part._depth + 1
        if depth > MAX_DEPTH:
            raise LimitExceededError(
                f"the expression nests deeper than {MAX_DEPTH}", limit=MAX_DEPTH, field="constraint"
            )
        self._depth: Final[int] = depth


class Chars(_Node):
    """Matches one code point of a set; the empty set matches nothing."""

    __slots__ = ("chars",)
    __match_args__: Final = ("chars",)

    def __init__(self, chars: CodePoints) -> None:
        super().__init__((chars,))
        self.chars: Final = chars


class Concat(_Node):
    """Matches the parts one after another; without parts, the empty text."""

    __slots__ = ("parts",)
    __match_args__: Final = ("parts",)

    def __init__(self, parts: tuple[Regular, ...]) -> None:
        super().__init__((parts,), parts)
        self.parts: Final = parts


class Alternate(_Node):
    """Matches any one of the options; without options, nothing."""

    __slots__ = ("options",)
    __match_args__: Final = ("options",)

    def __init__(self, options: tuple[Regular, ...]) -> None:
        super().__init__((options,), options)
        self.options: Final = options


class Repeat(_Node):
    """Matches ``item`` from ``low`` to ``high`` times; ``None`` is no upper bound.

    Callers ensure that ``low`` is not above ``high``. ``lazy`` only records how the pattern was
    written, the texts are the same: see ``guided.regular.patterns.terminal_edges``.
    """

    __slots__ = ("high", "item", "lazy", "low")
    __match_args__: Final = ("item", "low", "high", "lazy")

    def __init__(self, item: Regular, low: int, high: int | None, lazy: bool = False) -> None:
        super().__init__((item, low, high, lazy), (item,))
        self.item: Final = item
        self.low: Final = low
        self.high: Final = high
        self.lazy: Final = lazy


class SeparatedRepeat(_Node):
    """Matches ``item`` once or more, with ``separator`` between one and the next."""

    __slots__ = ("item", "separator")
    __match_args__: Final = ("item", "separator")

    def __init__(self, item: Regular, separator: Regular) -> None:
        super().__init__((item, separator), (item, separator))
        self.item: Final = item
        self.separator: Final = separator


class Start(_Node):
    """Matches the empty text at the start of the whole text."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())


class End(_Node):
    """Matches the empty text at the end of the whole text."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())


class Look(_Node):
    """Matches the empty text where ``item`` matches from here on (``ahead``) or up to here.

    With ``negative``, where it does not.
    """

    __slots__ = ("ahead", "item", "negative")
    __match_args__: Final = ("item", "ahead", "negative")

    def __init__(self, item: Regular, ahead: bool = True, negative: bool = False) -> None:
        super().__init__((item, ahead, negative), (item,))
        self.item: Final = item
        self.ahead: Final = ahead
        self.negative: Final = negative


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Matches the texts along moves from ``start`` to ``final``: an automaton of ``count`` states.

    ``moves`` is int32 ``[3, moves]``: the source, the target, and which of the ``sets`` of code
    points may be read between them. Equal only to itself, whatever its moves. Moves may lead back
    to ``start`` and on from ``final``.
    """

    count: int
    sets: tuple[CodePoints, ...]
    moves: NDArray[np.int32]
    start: int
    final: int

    @classmethod
    def from_moves(
        cls, count: int, moves: Iterable[tuple[int, CodePoints, int]], start: int, final: int
    ) -> Graph:
        """Return the graph of these moves: each a source, what may be read, and a target."""
        numbers: dict[CodePoints, int] = {}
        listed = [
            (source, target, numbers.setdefault(chars, len(numbers)))
            for source, chars, target in moves
        ]
        columns = np.array(listed, dtype=np.int32).reshape(-1, 3).T
        return Graph(count, tuple(numbers), columns, start, final)


class Intersection(_Node):
    """Matches whole texts that both sides match, or with ``negative`` only ``left`` (a difference).

    It may stand only at the top of an expression or in another ``Intersection``. Each side is
    matched or searched for as the whole would be.
    """

    __slots__ = ("left", "negative", "right")
    __match_args__: Final = ("left", "right", "negative")

    def __init__(self, left: Regular, right: Regular, negative: bool = False) -> None:
        super().__init__((left, right, negative), (left, right))
        self.left: Final = left
        self.right: Final = right
        self.negative: Final = negative


Regular: TypeAlias = (
    Chars
    | Concat
    | Alternate
    | Repeat
    | SeparatedRepeat
    | Start
    | End
    | Graph
    | Look
    | Intersection
)

ANYTHING: Final = Repeat(Chars(ANY), 0, None)
"""Matches all texts."""
EMPTY_TEXT: Final = Concat(())
"""Matches only the empty text."""


def literal(text: str) -> Regular:
    """Return the expression of exactly ``text``."""
    return Concat(tuple([one_character(ord(character)) for character in text]))


@functools.lru_cache(maxsize=1024)
def one_character(code_point: int) -> Chars:
    """Return the expression of exactly one code point."""
    return Chars(CodePoints.from_ranges([(code_point, code_point)]))


def word_boundary(word: CodePoints, *, negative: bool, in_empty_text: bool = True) -> Regular:
    """Return the expression of ``\\b``, or with ``negative`` of ``\\B`` (ECMA-262, 22.2.2.4).

    ``\\b`` matches the empty text between a character in ``word`` and one that is not; either end
    of the text counts as a character that is not. Each look is at one ``Chars``, which terminals
    require after a lazy repeat (``terminal_edges``). ``in_empty_text`` says whether ``\\B`` matches
    in the text without characters, as it does not in Python before 3.14.
    """
    before, after = [Look(Chars(word), ahead=ahead) for ahead in (False, True)]
    not_before, not_after = [
        Look(Chars(word), ahead=ahead, negative=True) for ahead in (False, True)
    ]
    if not negative:
        return Alternate((Concat((before, not_after)), Concat((not_before, after))))
    if in_empty_text:
        return Alternate((Concat((before, after)), Concat((not_before, not_after))))
    other_before, other_after = [Look(Chars(~word), ahead=ahead) for ahead in (False, True)]
    return Alternate(
        (
            Concat((before, after)),
            Concat((other_before, not_after)),
            Concat((not_before, other_after)),
        )
    )


def texts_up_to(end: Regular, ends: Regular, texts: Regular = ANYTHING) -> Regular:
    """Return the texts followed by ``end`` that contain no earlier match of ``ends``.

    A match is earlier if at least one character follows it. ``end`` is one of ``ends``. The
    automaton has a state for each state of ``texts`` and each prefix of ``ends`` that may precede
    it.
    """
    earlier = Concat((ANYTHING, ends, Chars(ANY), ANYTHING))
    return Intersection(Concat((texts, end)), earlier, negative=True)


def texts_without(part: Regular, texts: Regular = ANYTHING) -> Regular:
    """Return the texts that contain no match of ``part``."""
    return Intersection(texts, Concat((ANYTHING, part, ANYTHING)), negative=True)


def contains_end(node: Regular) -> bool:
    """Return whether an ``End`` (``$``, ``\\Z``) occurs in an expression, also in look-around.

    Only for what parsers return: these make no SeparatedRepeat, Graph or Intersection, which are
    not looked into.
    """
    match node:
        case End():
            return True
        case Concat(parts) | Alternate(parts):
            return any(map(contains_end, parts))
        case Repeat(item) | Look(item):
            return contains_end(item)
        case _:
            return False


@functools.lru_cache(maxsize=32)
def short_match(regular: Regular) -> str | None:
    """Return a short text that the expression matches as a whole, found without an automaton.

    It need not be the shortest. ``None`` if none is easy to find: anchors are handled only at
    the very beginning and end, look-around not at all. Cached for formats, which are large and
    often used.
    """
    parts = list(regular.parts) if isinstance(regular, Concat) else [regular]
    if parts and isinstance(parts[0], Start):
        del parts[0]
    if parts and isinstance(parts[-1], End):
        del parts[-1]
    return _join(map(_find_match, parts))


def _find_match(node: Regular) -> str | None:
    """Return a short match of a part; ``None`` if none is easy to find, or there is none."""
    if isinstance(node, Chars):
        return _pick_member(node.chars)
    if isinstance(node, Concat):
        return _join(map(_find_match, node.parts))
    if isinstance(node, Alternate):
        found = [text for text in map(_find_match, node.options) if text is not None]
        return min(found, key=len, default=None)
    if isinstance(node, Repeat):
        if node.low == 0:
            return ""
        text = _find_match(node.item)
        if text is None or len(text) * node.low > _MAX_MATCH_LENGTH:
            return None
        return text * node.low
    return None


def _join(texts: map[str | None]) -> str | None:
    """Return the texts joined; ``None`` if one of them is, or past _MAX_MATCH_LENGTH."""
    whole = ""
    for text in texts:
        if text is None or len(whole) + len(text) > _MAX_MATCH_LENGTH:
            return None
        whole += text
    return whole


def _pick_member(chars: CodePoints) -> str | None:
    """Return a member of the set, if possible one of _PREFERRED_RANGES; ``None`` if it is empty."""
    for low, high in _PREFERRED_RANGES:
        for first, last in chars.ranges:
            if first <= high and last >= low:
                return chr(max(first, low))
    return chr(chars.ranges[0][0]) if chars.ranges else None
