"""The edges of a terminal: look-around that depends on the text around it, and lazy repeats.

Look-around inside a terminal looks at the terminal's own text. At an edge it looks out of it: a
look-ahead with no text of the terminal after it is about what follows the terminal, and a
look-behind with none before it about what comes before. ``split_edges`` splits both kinds off; an
optional part at an edge is a choice of two cases::

    [+*]|[?](?![a-z])   ->   [+*]          [?] before (?![a-z])
    \\bif                ->   if after (?<!\\w)      (or, where no word begins it, (?<=\\w))
    a(?!b)c?            ->   a before (?!b)          a(?!b)c

As a set of texts the lazy ``".*?"`` is the same as ``".*"``, but its author means the first quote.
So ``without_lazy`` puts each further round of a lazy repeat under the condition that what follows
does not match where it begins, which is how a backtracking matcher treats it::

    ".*?"   ->   "((?!").)*"
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.regular.expression import EMPTY_TEXT, Alternate, Chars, Concat, Look, Regular, Repeat
from guided.runtime.fuel import spend

__all__ = ["Piece", "split_edges", "without_lazy"]

_MAX_PIECES: Final = 200
"""The most pieces that a terminal may be a choice of."""
_MAX_COPIES: Final = 50
"""The most rounds of a repeat that are written out, see ``_rounds``."""


class Piece(NamedTuple):
    """Texts, and their conditions on the text around them."""

    before: tuple[Look, ...]
    regular: Regular
    after: tuple[Look, ...]


def split_edges(regular: Regular) -> tuple[Piece, ...]:
    """Return the pieces that a terminal is a choice of, without lazy repeats.

    Raises UnsupportedFeatureError if its edges cannot be split from it, and LimitExceededError.
    """
    if not _looks_away(regular, first=True, last=True):
        return (Piece((), without_lazy(regular), ()),)
    pieces = _pieces(regular, first=True, last=True)
    for piece in pieces:
        for look in (*piece.before, *piece.after):
            if _looks_away(look.item, first=look.ahead, last=not look.ahead):
                _refuse("look-around in look-around at the edge of a terminal")
        # Where a lazy repeat ends is decided inside the text, by at most one character.
        if _has_lazy(piece.regular) and any(not isinstance(a.item, Chars) for a in piece.after):
            _refuse("a lazy repeat before a look-ahead at the edge of a terminal")
    return tuple(
        Piece(before, without_lazy(text, Concat(after)), after) for before, text, after in pieces
    )


def _pieces(node: Regular, *, first: bool, last: bool) -> list[Piece]:
    """Return the pieces of a part; ``first`` and ``last`` say if it begins and ends the terminal.

    Recursive, as deep as the expression nests. Raises what ``split_edges`` raises.
    """
    spend(10)
    if not _looks_away(node, first=first, last=last):
        return [Piece((), node, ())]
    match node:
        case Alternate(options):
            return _limited(
                [piece for each in options for piece in _pieces(each, first=first, last=last)]
            )
        case Repeat(item, low, high, lazy):
            if lazy:
                # Written out, its rounds would no longer end as soon as what follows matches.
                _refuse("look-around at the edge of a terminal in a lazy repeat")
            return _pieces(_unrolled(item, low, high), first=first, last=last)
        case Look(_, ahead):
            return [Piece((), EMPTY_TEXT, (node,)) if ahead else Piece((node,), EMPTY_TEXT, ())]
        case Concat(parts):
            return _concatenated(parts, first=first, last=last)
    # No other kind of node does: ``_looks_away`` knows the same four.
    raise AssertionError(f"{node!r} looks away")


def _concatenated(
    parts: tuple[Regular, ...], *, first: bool, last: bool, left_out: int = 0
) -> list[Piece]:
    """Return the pieces of consecutive parts; ``left_out`` optional ones are left out of them.

    An optional part at an edge that hides look-around is a choice of two cases, without it and with
    a text of it that is not empty; both are split again. Then the first and the last part with a
    text are at the edges, and everything between them is one part that looks nowhere else.
    """
    # Each part that is left out may double the cases, so this also limits the recursion.
    _check_few(left_out)
    for at, part in enumerate(parts):
        before, after = parts[:at], parts[at + 1 :]
        if _is_empty(part) or not _is_nullable(part):
            continue
        spend(len(parts))
        if (first and _all_look_away(before, after, first=True)) or (
            last and _all_look_away(after, before, first=False)
        ):
            # Where it is left out, what stands beside it is at the edge.
            without, kept = (*before, *after), (*before, _without_empty(part), *after)
            pieces = _concatenated(without, first=first, last=last, left_out=left_out + 1)
            return _limited(pieces + _concatenated(kept, first=first, last=last, left_out=left_out))
    full = [at for at, part in enumerate(parts) if not _is_empty(part)]
    begin, end = (full[0], full[-1]) if full else (len(parts), -1)
    if end > begin + 2:
        # What stands between only looks at the text.
        parts = (*parts[: begin + 1], Concat(parts[begin + 1 : end]), *parts[end:])
        end = begin + 2
    made = [Piece((), EMPTY_TEXT, ())]
    for at, part in enumerate(parts):
        right = _pieces(part, first=first and at <= begin, last=last and at >= end)
        made = _limited([_joined(one, other) for one in made for other in right])
    return made


def _all_look_away(
    outside: tuple[Regular, ...], inside: tuple[Regular, ...], *, first: bool
) -> bool:
    """Return whether ``inside`` looks away at the edge, and all of ``outside`` may be empty.

    ``outside`` are the parts between the edge and an optional part, ``inside`` those beyond it.
    ``first`` says that the edge is the beginning.
    """
    looks_away = _looks_away(Concat(inside), first=first, last=not first)
    return looks_away and all(map(_is_nullable, outside))


def _unrolled(item: Regular, low: int, high: int | None) -> Regular:
    """Return a repeat with its first and last round written out: only these are at an edge."""
    # x{2,5} -> x x{0,3} x; for a lower bound below 2, fewer rounds are separate cases
    cases: list[Regular] = [EMPTY_TEXT] if low == 0 else []
    if (low <= 1 or _is_empty(item)) and high != 0:
        cases.append(item)
    # Look-around alone is tested once, however often it is repeated.
    if (high is None or high > 1) and not _is_empty(item):
        between = Repeat(item, max(low - 2, 0), None if high is None else high - 2)
        cases.append(Concat((item, between, item)))
    return Alternate(tuple(cases))


def _joined(one: Piece, other: Piece) -> Piece:
    """Texts of ``one`` and then of ``other``.

    ``_concatenated`` ensures that no text lies between the edge and what looks over it.
    """
    texts = [each.regular for each in (one, other) if each.regular != EMPTY_TEXT]
    if len(texts) == 2:
        # Side by side, as there may be many, and nested ones are handled by recursion.
        texts = [part for text in texts for part in _parts(text)]
    text = texts[0] if len(texts) == 1 else Concat(tuple(texts))
    return Piece(one.before + other.before, text, one.after + other.after)


def _parts(node: Regular) -> tuple[Regular, ...]:
    return node.parts if isinstance(node, Concat) else (node,)


def _looks_away(node: Regular, *, first: bool, last: bool) -> bool:
    """Return whether a look-ahead may have no text after it, or a look-behind none before it.

    ``first`` and ``last`` say whether nothing of the text stands before the part, or after it.
    """
    match node:
        case Concat(parts):
            # Nothing stands before the parts up to the first that has no empty text.
            needed = [at for at, part in enumerate(parts) if not _is_nullable(part)]
            begin, end = (needed[0], needed[-1]) if needed else (len(parts), -1)
            return any(
                _looks_away(part, first=first and at <= begin, last=last and at >= end)
                for at, part in enumerate(parts)
            )
        case Alternate(options):
            return any(_looks_away(option, first=first, last=last) for option in options)
        case Repeat(item, _, high):
            return high != 0 and _looks_away(item, first=first, last=last)
        case Look(_, ahead):
            return last if ahead else first
    return False


def _is_empty(node: Regular) -> bool:
    """Return whether a part has at most the empty text; ``Chars`` count as one, even if empty."""
    match node:
        case Concat(parts) | Alternate(parts):
            return all(map(_is_empty, parts))
        case Repeat(item, _, high):
            return high == 0 or _is_empty(item)
    return isinstance(node, Look)


def _is_nullable(node: Regular) -> bool:
    """Return whether a part may have the empty text; look-around has no other text.

    For expressions that ``parse_python_regex`` makes from unanchored patterns, and literals: these
    are made only of Chars, Concat, Alternate, Repeat and Look. It would call all others not
    nullable, which is wrong for Start and End and may be for SeparatedRepeat, Graph and Intersection. None of them
    can occur: anchors are refused in terminals, and front ends build the others only from here on.
    """
    match node:
        case Concat(parts):
            return all(map(_is_nullable, parts))
        case Alternate(options):
            return any(map(_is_nullable, options))
        case Repeat(item, low):
            return low == 0 or _is_nullable(item)
    return isinstance(node, Look)


def _without_empty(node: Regular) -> Regular:
    """Return the texts of a nullable part except the empty one.

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
    _refuse("look-around beside such an optional part at the edge of a terminal")


def _limited(pieces: list[Piece]) -> list[Piece]:
    _check_few(len(pieces))
    return pieces


def _check_few(count: int) -> None:
    """Raise LimitExceededError for more cases than _MAX_PIECES.

    To be called at each step that makes more of them: every optional part may double them.
    """
    if count > _MAX_PIECES:
        raise LimitExceededError(
            f"a terminal whose look-around at its edges has more than {_MAX_PIECES} cases",
            limit=_MAX_PIECES,
            field="constraint",
            hint="look at fewer alternatives, or give them terminals of their own",
        )


def _refuse(what: str) -> NoReturn:
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
            first = _rounds(item, low, low, Concat((loop, rest))) if low else EMPTY_TEXT
            return Concat((first, more))
        case Repeat(item, low, high):
            return _rounds(item, low, high, rest)
    # Inside look-around it only matters whether there is a match.
    return node


def _rounds(item: Regular, low: int, high: int | None, rest: Regular) -> Regular:
    """``without_lazy`` for a repeat whose item may contain lazy repeats.

    Every round is followed by the rounds that are left, then by ``rest``, so a bounded repeat is
    written out round by round. Above _MAX_COPIES rounds each counts as followed by any number of
    them.
    """
    if not _has_lazy(item):
        return Repeat(item, low, high)
    copies = low if high is None else high
    if copies > _MAX_COPIES:
        return Repeat(without_lazy(item, Concat((Repeat(item, 0, None), rest))), low, high)
    made: Regular = EMPTY_TEXT
    if high is None:
        made = Repeat(without_lazy(item, Concat((Repeat(item, 0, None), rest))), 0, None)
    # From the last round to the first, each around those after it; rounds past ``low`` may be
    # left out together with all that follow them.
    for round_ in range(copies, 0, -1):
        others = Repeat(item, max(low - round_, 0), None if high is None else high - round_)
        made = Concat((without_lazy(item, Concat((others, rest))), made))
        if round_ > low:
            made = Alternate((made, EMPTY_TEXT))
    return made


def _has_lazy(node: Regular) -> bool:
    """Return whether a lazy repeat stands in an expression, outside its look-around."""
    match node:
        case Concat(parts) | Alternate(parts):
            return any(map(_has_lazy, parts))
        case Repeat(item, _, _, lazy):
            return lazy or _has_lazy(item)
    return False
