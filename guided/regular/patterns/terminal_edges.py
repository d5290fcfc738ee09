"""The edges of a terminal: look-around that depends on the text outside, and lazy repeats.

Look-around inside a terminal depends on the terminal's own text. At an edge it *looks outside*: a
look-ahead with no text of the terminal after it is about what follows the terminal, and a
look-behind with none before it about what precedes it. ``split_edges`` separates both kinds from
the text; an optional part at an edge becomes two cases::

    [+*]|[?](?![a-z])   ->   [+*]          [?] before (?![a-z])
    \\bif                ->   if after (?<!\\w)      (before a text that begins with no word
                                                  character it would be (?<=\\w))
    a(?!b)c?            ->   a before (?!b)          a(?!b)c

As a set of texts the lazy ``".*?"`` is the same as ``".*"``, but its author means the first quote.
So ``without_lazy`` puts each further round of a lazy repeat under the condition that what follows
does not match where it begins, which is how a backtracking matcher treats it::

    ".*?"   ->   "((?!").)*"
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, NoReturn

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.regular.expression import (
    EMPTY_TEXT,
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Look,
    Regular,
    Repeat,
    Start,
)
from guided.runtime.work_budget import spend

__all__ = ["Piece", "split_edges", "without_lazy"]

_MAX_PIECES: Final = 200
"""Most pieces of a terminal."""
_MAX_UNROLLED: Final = 50
"""Most rounds of a repeat that are unrolled, see ``_unroll_lazy``."""


class Piece(NamedTuple):
    """One case of a terminal: texts, and the look-around that must hold before and after them."""

    before: tuple[Look, ...]
    regular: Regular
    after: tuple[Look, ...]


def split_edges(regular: Regular) -> tuple[Piece, ...]:
    """Return the pieces whose union a terminal is, without lazy repeats.

    Raises UnsupportedFeatureError for look-around at an edge that cannot be separated, and for a
    lazy repeat before a part of which only some cases look outside: where it ends would depend on
    all of them. Raises LimitExceededError for too many pieces.
    """
    if not _looks_outside(regular, at_start=True, at_end=True):
        return (Piece((), without_lazy(regular), ()),)
    pieces = _split(regular, at_start=True, at_end=True)
    for piece in pieces:
        # A look-ahead is evaluated on the text after the terminal alone, a look-behind on that
        # before it, so neither may look back into the terminal. To look further outwards is fine.
        for look in (*piece.before, *piece.after):
            if _sees_beyond(look.item, 0, ahead=look.ahead):
                _raise_unsupported("look-around in look-around at the edge of a terminal")
        # ``without_lazy`` tests these look-aheads before each further round, on the text of the
        # terminal alone. What the round reads is there, but that may be a single character.
        if _has_lazy(piece.regular) and any(not isinstance(a.item, Chars) for a in piece.after):
            _raise_unsupported("a lazy repeat before a look-ahead at the edge of a terminal")
    return tuple(
        Piece(before, without_lazy(text, Concat(after)), after) for before, text, after in pieces
    )


def _split(node: Regular, *, at_start: bool, at_end: bool) -> list[Piece]:
    """Return the pieces of a part, which is ``at_start`` or ``at_end`` of the terminal, or both.

    Recursive, as deep as the expression nests. Raises what ``split_edges`` raises.
    """
    spend(10)
    if not _looks_outside(node, at_start=at_start, at_end=at_end):
        return [Piece((), node, ())]
    match node:
        case Alternate(options):
            return _limit_pieces(
                [
                    piece
                    for each in options
                    for piece in _split(each, at_start=at_start, at_end=at_end)
                ]
            )
        case Repeat(item, low, high, lazy):
            if lazy:
                # Unrolled, its rounds would no longer end as soon as what follows matches.
                _raise_unsupported("look-around at the edge of a terminal in a lazy repeat")
            return _split(_unroll(item, low, high), at_start=at_start, at_end=at_end)
        case Look(_, ahead):
            return [Piece((), EMPTY_TEXT, (node,)) if ahead else Piece((node,), EMPTY_TEXT, ())]
        case Concat(parts):
            return _split_concat(parts, at_start=at_start, at_end=at_end)
    # ``_looks_outside`` handles the same four kinds.
    raise AssertionError(f"{node!r} looks outside")


def _split_concat(
    parts: tuple[Regular, ...], *, at_start: bool, at_end: bool, left_out: int = 0
) -> list[Piece]:
    """Return the pieces of a concatenation, of which ``left_out`` optional parts were left out.

    An optional part between look-around and its edge becomes two cases, without it and with a text
    of it that is not empty; both are split again. When none is left, the first and the last part
    with a text are at the edges, and everything between them is one part that does not look
    outside.
    """
    # Each part that is left out may double the cases, so this also limits the recursion.
    _check_num_cases(left_out)
    for at, part in enumerate(parts):
        before, after = parts[:at], parts[at + 1 :]
        if _is_empty(part) or not _is_nullable(part):
            continue
        spend(len(parts))
        if (at_start and _may_look_outside(before, after, at_start=True)) or (
            at_end and _may_look_outside(after, before, at_start=False)
        ):
            # Without it, the parts beside it are at the edge; look-around in it still has to hold.
            _check_no_lazy(before)
            without = (*before, _empty_case(part), *after)
            kept = (*before, _without_empty(part), *after)
            pieces = _split_concat(without, at_start=at_start, at_end=at_end, left_out=left_out + 1)
            return _limit_pieces(
                pieces + _split_concat(kept, at_start=at_start, at_end=at_end, left_out=left_out)
            )
    nonempty = [at for at, part in enumerate(parts) if not _is_empty(part)]
    begin, end = (nonempty[0], nonempty[-1]) if nonempty else (len(parts), -1)
    if end > begin + 2:
        # The parts between do not look outside.
        parts = (*parts[: begin + 1], Concat(parts[begin + 1 : end]), *parts[end:])
        end = begin + 2
    pieces = [Piece((), EMPTY_TEXT, ())]
    for at, part in enumerate(parts):
        right = _split(part, at_start=at_start and at <= begin, at_end=at_end and at >= end)
        if len(right) > 1:
            _check_no_lazy(parts[:at])
        pieces = _limit_pieces([_join(one, other) for one in pieces for other in right])
    return pieces


def _check_no_lazy(before: tuple[Regular, ...]) -> None:
    """Raise UnsupportedFeatureError if a lazy repeat stands before a part with several cases.

    The repeat ends where any of them matches, but each piece contains only one.
    """
    if any(map(_has_lazy, before)):
        _raise_unsupported("a lazy repeat before alternatives that look outside of a terminal")


def _may_look_outside(
    outside: tuple[Regular, ...], inside: tuple[Regular, ...], *, at_start: bool
) -> bool:
    """Return whether ``inside`` looks outside where all of ``outside`` match the empty text.

    ``outside`` are the parts between the edge and an optional part, ``inside`` those beyond it.
    ``at_start`` says that the edge is the start.
    """
    looks_outside = _looks_outside(Concat(inside), at_start=at_start, at_end=not at_start)
    return looks_outside and all(map(_is_nullable, outside))


def _unroll(item: Regular, low: int, high: int | None) -> Regular:
    """Return a repeat with its first and last round separate: only these are at an edge."""
    # x{2,5} -> x x{0,3} x; for a lower bound below 2, fewer rounds are separate cases
    cases: list[Regular] = [EMPTY_TEXT] if low == 0 else []
    if (low <= 1 or _is_empty(item)) and high != 0:
        cases.append(item)
    # Look-around alone is tested once, however often it is repeated.
    if (high is None or high > 1) and not _is_empty(item):
        between = Repeat(item, max(low - 2, 0), None if high is None else high - 2)
        cases.append(Concat((item, between, item)))
    return Alternate(tuple(cases))


def _join(one: Piece, other: Piece) -> Piece:
    """Return the concatenation of two pieces.

    ``_split_concat`` ensures that no text lies between an edge and the look-around there.
    """
    texts = [each.regular for each in (one, other) if each.regular != EMPTY_TEXT]
    if len(texts) == 2:
        # Flat, as there may be many, and passes over nested ones are recursive.
        texts = [part for text in texts for part in _parts(text)]
    text = texts[0] if len(texts) == 1 else Concat(tuple(texts))
    return Piece(one.before + other.before, text, one.after + other.after)


def _parts(node: Regular) -> tuple[Regular, ...]:
    return node.parts if isinstance(node, Concat) else (node,)


def _looks_outside(node: Regular, *, at_start: bool, at_end: bool) -> bool:
    """Return whether a look-ahead may have no text after it, or a look-behind none before it.

    ``at_start`` and ``at_end`` say whether nothing of the text stands before the part, or after it.
    """
    match node:
        case Concat(parts):
            # Nothing stands before the parts up to the first that has no empty text.
            needed = [at for at, part in enumerate(parts) if not _is_nullable(part)]
            begin, end = (needed[0], needed[-1]) if needed else (len(parts), -1)
            return any(
                _looks_outside(part, at_start=at_start and at <= begin, at_end=at_end and at >= end)
                for at, part in enumerate(parts)
            )
        case Alternate(options):
            return any(
                _looks_outside(option, at_start=at_start, at_end=at_end) for option in options
            )
        case Repeat(item, _, high):
            return high != 0 and _looks_outside(item, at_start=at_start, at_end=at_end)
        case Look(_, ahead):
            return at_end if ahead else at_start
    return False


def _sees_beyond(node: Regular, room: float, *, ahead: bool) -> bool:
    """Return whether look-around at an edge may see the text on the other side of that edge.

    ``node`` is a part of what it matches, ``room`` the fewest characters of that between the edge
    and the part, and ``ahead`` the direction of the look-around: ``(?=x(?<=ax))`` looks back at
    two characters with room for one.
    """
    match node:
        case Concat(parts):
            for part in parts if ahead else reversed(parts):
                if _sees_beyond(part, room, ahead=ahead):
                    return True
                room += _length(part, longest=False)
        case Alternate(options):
            return any(_sees_beyond(option, room, ahead=ahead) for option in options)
        case Repeat(item, _, high):
            return high != 0 and _sees_beyond(item, room, ahead=ahead)
        case Look(item, direction):
            if direction == ahead:
                return _sees_beyond(item, room, ahead=ahead)
            return _length(item, longest=True) > room
    return False


def _length(node: Regular, *, longest: bool) -> float:
    """Return a bound on the characters that a part matches: the least, or the most (``longest``).

    In the most, look-around counts as read, since it sees as far.
    """
    match node:
        case Chars():
            return 1
        case Concat(parts):
            return sum([_length(part, longest=longest) for part in parts])
        case Alternate(options):
            lengths = [_length(option, longest=longest) for option in options]
            return max(lengths, default=0) if longest else min(lengths, default=0)
        case Repeat(item, low, high):
            rounds = low if not longest else math.inf if high is None else high
            length = _length(item, longest=longest)
            return rounds * length if rounds and length else 0
        case Look(item):
            return _length(item, longest=True) if longest else 0
        case Graph():
            return math.inf if longest else 1
    return 0


def _is_empty(node: Regular) -> bool:
    """Return whether a part matches no text but the empty one; False for any ``Chars``.

    Also True for an ``Alternate`` without options, which matches none. Only for the expressions
    that ``_is_nullable`` is for.
    """
    match node:
        case Concat(parts) | Alternate(parts):
            return all(map(_is_empty, parts))
        case Repeat(item, _, high):
            return high == 0 or _is_empty(item)
    assert isinstance(node, Chars | Graph | Look | Start | End), f"{node!r} in a terminal"
    return isinstance(node, Look)


def _is_nullable(node: Regular) -> bool:
    """Return whether a part may match the empty text, as look-around does.

    Only for expressions that ``parse_python_regex`` returns, for literals, and for graphs that
    ``Dfa.to_regular`` returns, which do not match the empty text. They contain no SeparatedRepeat
    or Intersection, which are added later. Anchors count as if they read a character, since nothing
    of the text is beyond them; terminals have none.
    """
    match node:
        case Concat(parts):
            return all(map(_is_nullable, parts))
        case Alternate(options):
            return any(map(_is_nullable, options))
        case Repeat(item, low):
            return low == 0 or _is_nullable(item)
    assert isinstance(node, Chars | Graph | Look | Start | End), f"{node!r} in a terminal"
    return isinstance(node, Look)


def _without_empty(node: Regular) -> Regular:
    """Return the expression of the texts of a nullable part except the empty one.

    Raises UnsupportedFeatureError if that takes more than dropping empty options and raising
    lower bounds, as for a concatenation of several optional parts.
    """
    match node:
        case Repeat(item, low, high, lazy) if not _is_nullable(item):
            return Repeat(item, max(low, 1), high, lazy)
        case Alternate(options):
            kept = [each for each in options if not _is_empty(each)]
            return Alternate(
                tuple(_without_empty(each) if _is_nullable(each) else each for each in kept)
            )
        case Concat(parts) if sum(not _is_empty(part) for part in parts) == 1:
            return Concat(
                tuple(part if _is_empty(part) else _without_empty(part) for part in parts)
            )
    _raise_unsupported("look-around beside such an optional part at the edge of a terminal")


def _empty_case(node: Regular) -> Regular:
    """Return the expression of the empty text of a nullable part: its look-around, if any."""
    match node:
        case Concat(parts):
            return Concat(tuple(map(_empty_case, parts)))
        case Alternate(options):
            return Alternate(tuple(map(_empty_case, filter(_is_nullable, options))))
        case Repeat(item, low):
            return EMPTY_TEXT if low == 0 else _empty_case(item)
    return node


def _limit_pieces(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces; raises LimitExceededError if there are too many."""
    _check_num_cases(len(pieces))
    return pieces


def _check_num_cases(count: int) -> None:
    """Raise LimitExceededError for more cases than _MAX_PIECES.

    Called before each step that adds cases, as every optional part may double them.
    """
    if count > _MAX_PIECES:
        raise LimitExceededError(
            f"a terminal whose look-around at its edges has more than {_MAX_PIECES} cases",
            limit=_MAX_PIECES,
            field="constraint",
            hint="look at fewer alternatives, or give them terminals of their own",
        )


def _raise_unsupported(what: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"{what} is not supported",
        hint="leave it out, or say it with the terminals that may stand there",
    )


def without_lazy(node: Regular, rest: Regular = EMPTY_TEXT) -> Regular:
    """Return an expression whose lazy repeats end as soon as ``rest``, which follows it, matches.

    The result has no lazy repeats. Each further round of a lazy repeat is put after a negative
    look-ahead for ``rest``, as a backtracking matcher tries what follows before another round.
    """
    if not _has_lazy(node):
        return node
    match node:
        case Concat(parts):
            return Concat(
                tuple(
                    without_lazy(part, Concat((*parts[at + 1 :], rest)))
                    if _has_lazy(part)
                    else part
                    for at, part in enumerate(parts)
                )
            )
        case Alternate(options):
            return Alternate(tuple(without_lazy(option, rest) for option in options))
        case Repeat(item, low, high, lazy) if lazy:
            loop = Repeat(item, 0, None if high is None else max(high - 1, 0))
            # x{2,4}? -> x x ((?!rest)x){0,2}; ``loop`` is what may follow one round of x.
            again = Concat((Look(rest, negative=True), without_lazy(item, Concat((loop, rest)))))
            more = Repeat(again, 0, None if high is None else high - low)
            first = _unroll_lazy(item, low, low, Concat((loop, rest))) if low else EMPTY_TEXT
            return Concat((first, more))
        case Repeat(item, low, high):
            return _unroll_lazy(item, low, high, rest)
    # Inside look-around it only matters whether there is a match.
    return node


def _unroll_lazy(item: Regular, low: int, high: int | None, rest: Regular) -> Regular:
    """Compute ``without_lazy`` for a repeat whose item may contain lazy repeats.

    ``high`` is ``None`` for a repeat without a bound. Every round is followed by the rounds that
    are left, then by ``rest``, so a bounded repeat is unrolled. Above _MAX_UNROLLED rounds of one
    repeat, each counts as followed by any number of them: a lazy repeat in it may then have to end
    too early, which loses texts but adds none.
    """
    if not _has_lazy(item):
        return Repeat(item, low, high)
    copies = low if high is None else high
    if copies > _MAX_UNROLLED:
        return Repeat(without_lazy(item, Concat((Repeat(item, 0, None), rest))), low, high)
    unrolled: Regular = EMPTY_TEXT
    if high is None:
        unrolled = Repeat(without_lazy(item, Concat((Repeat(item, 0, None), rest))), 0, None)
    # From the last round to the first, each around those after it; rounds past ``low`` may be
    # left out together with all that follow them.
    for round_ in range(copies, 0, -1):
        others = Repeat(item, max(low - round_, 0), None if high is None else high - round_)
        unrolled = Concat((without_lazy(item, Concat((others, rest))), unrolled))
        if round_ > low:
            unrolled = Alternate((unrolled, EMPTY_TEXT))
    return unrolled


def _has_lazy(node: Regular) -> bool:
    """Return whether a lazy repeat stands in an expression, outside its look-around."""
    match node:
        case Concat(parts) | Alternate(parts):
            return any(map(_has_lazy, parts))
        case Repeat(item, _, _, lazy):
            return lazy or _has_lazy(item)
    return False
