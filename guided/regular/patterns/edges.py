"""Look-around at the edges of a terminal, parted from the texts between.

What stands inside looks at the terminal's own text. A look-ahead with no text of the terminal
behind it speaks of what follows the terminal, and a look-behind with none before it of what comes
before; an optional part is a choice of both cases::

    [+*]|[?](?![a-z])   ->   [+*]          [?] before (?![a-z])
    \\bif                ->   if behind (?<!\\w)      (or, where no word begins it, (?<=\\w))
    a(?!b)c?            ->   a before (?!b)          a(?!b)c
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.regular.expression import Alternate, Chars, Concat, Look, Regular, Repeat
from guided.regular.patterns.lazy import has_lazy, settled
from guided.runtime.fuel import spend

__all__ = ["Piece", "is_nullable", "parted"]

_MAX_PIECES: Final = 200
_NOTHING: Final = Concat(())


class Piece(NamedTuple):
    """Texts, and what they ask of the text around them."""

    before: tuple[Look, ...]
    regular: Regular
    after: tuple[Look, ...]


def parted(regular: Regular) -> tuple[Piece, ...]:
    """The pieces that a terminal is a choice of, lazy repeats settled.

    Raises UnsupportedFeatureError where its edges cannot be parted from it, and LimitExceededError.
    """
    if not _looks_away(regular, first=True, last=True):
        return (Piece((), settled(regular), ()),)
    pieces = _pieces(regular, first=True, last=True)
    for piece in pieces:
        for look in (*piece.before, *piece.after):
            if _looks_away(look.item, first=look.ahead, last=not look.ahead):
                _refuse("look-around in look-around at the edge of a terminal")
        # Where a lazy repeat ends is asked inside of the text, of one character at most.
        if has_lazy(piece.regular) and any(not isinstance(a.item, Chars) for a in piece.after):
            _refuse("a lazy repeat before a look-ahead at the edge of a terminal")
    return tuple(
        Piece(before, settled(text, Concat(after)), after) for before, text, after in pieces
    )


def _pieces(node: Regular, *, first: bool, last: bool) -> list[Piece]:
    """The pieces of a part; ``first`` and ``last`` say where nothing of the text stands beyond."""
    spend(10)
    if not _looks_away(node, first=first, last=last):
        return [Piece((), node, ())]
    match node:
        case Alternate(options):
            return _few(
                [piece for each in options for piece in _pieces(each, first=first, last=last)]
            )
        case Repeat(item, low, high, lazy):
            if lazy:
                _refuse("look-around at the edge of a terminal in a lazy repeat")
            return _pieces(_unrolled(item, low, high), first=first, last=last)
        case Look(_, ahead):
            return [Piece((), _NOTHING, (node,)) if ahead else Piece((node,), _NOTHING, ())]
        case Concat(parts):
            return _concatenated(parts, first=first, last=last)
    raise AssertionError(f"{node!r} looks away")


def _concatenated(
    parts: tuple[Regular, ...], *, first: bool, last: bool, left_out: int = 0
) -> list[Piece]:
    """The pieces of parts one after another, from which some were left out already."""
    _check_few(left_out)
    for at, part in enumerate(parts):
        before, behind = parts[:at], parts[at + 1 :]
        if _is_empty(part) or not is_nullable(part):
            continue
        spend(len(parts))
        if (first and _all_look_away(before, behind, first=True)) or (
            last and _all_look_away(behind, before, first=False)
        ):
            # Where it is left out, what stands beside it is at the edge.
            without, kept = (*before, *behind), (*before, _without_empty(part), *behind)
            pieces = _concatenated(without, first=first, last=last, left_out=left_out + 1)
            return _few(pieces + _concatenated(kept, first=first, last=last, left_out=left_out))
    full = [at for at, part in enumerate(parts) if not _is_empty(part)]
    begin, end = (full[0], full[-1]) if full else (len(parts), -1)
    if end > begin + 2:
        # What stands between looks at the text alone.
        parts = (*parts[: begin + 1], Concat(parts[begin + 1 : end]), *parts[end:])
        end = begin + 2
    made = [Piece((), _NOTHING, ())]
    for at, part in enumerate(parts):
        right = _pieces(part, first=first and at <= begin, last=last and at >= end)
        made = _few([_joined(one, other) for one in made for other in right])
    return made


def _all_look_away(
    outside: tuple[Regular, ...], inside: tuple[Regular, ...], *, first: bool
) -> bool:
    """Whether what stands inside looks away if nothing stands outside of it, which may be."""
    looks_away = _looks_away(Concat(inside), first=first, last=not first)
    return looks_away and all(map(is_nullable, outside))


def _unrolled(item: Regular, low: int, high: int | None) -> Regular:
    # x{2,5} -> x x{0,3} x, with fewer of them where it may have fewer
    cases: list[Regular] = [_NOTHING] if low == 0 else []
    if (low <= 1 or _is_empty(item)) and high != 0:
        cases.append(item)
    # Conditions alone are asked once, however often they are written.
    if (high is None or high > 1) and not _is_empty(item):
        between = Repeat(item, max(low - 2, 0), None if high is None else high - 2)
        cases.append(Concat((item, between, item)))
    return Alternate(tuple(cases))


def _joined(one: Piece, other: Piece) -> Piece:
    texts = [each.regular for each in (one, other) if each.regular != _NOTHING]
    if len(texts) == 2:
        # Side by side, as they are many at times, and what nests is gone through by recursion.
        texts = [part for text in texts for part in _parts(text)]
    text = texts[0] if len(texts) == 1 else Concat(tuple(texts))
    return Piece(one.before + other.before, text, one.after + other.after)


def _parts(node: Regular) -> tuple[Regular, ...]:
    return node.parts if isinstance(node, Concat) else (node,)


def _looks_away(node: Regular, *, first: bool, last: bool) -> bool:
    """Whether a look-ahead may have no text behind it, or a look-behind none before it.

    ``first`` and ``last`` say whether nothing of the text stands before the part, or behind it.
    """
    match node:
        case Concat(parts):
            # Nothing stands before the parts up to the first that has no empty text.
            needed = [at for at, part in enumerate(parts) if not is_nullable(part)]
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
    """Whether a part has the empty text at most."""
    match node:
        case Concat(parts) | Alternate(parts):
            return all(map(_is_empty, parts))
        case Repeat(item, _, high):
            return high == 0 or _is_empty(item)
    return isinstance(node, Look)


def is_nullable(node: Regular) -> bool:
    """Whether a part may have the empty text."""
    match node:
        case Concat(parts):
            return all(map(is_nullable, parts))
        case Alternate(options):
            return any(map(is_nullable, options))
        case Repeat(item, low):
            return low == 0 or is_nullable(item)
    return isinstance(node, Look)


def _without_empty(node: Regular) -> Regular:
    """The texts of a part but for the empty one."""
    match node:
        case Repeat(item, low, high, lazy) if not is_nullable(item):
            return Repeat(item, max(low, 1), high, lazy)
        case Alternate(options):
            kept = [each for each in options if not _is_empty(each)]
            return Alternate(
                tuple(_without_empty(each) if is_nullable(each) else each for each in kept)
            )
        case Concat(parts) if sum(not _is_empty(part) for part in parts) == 1:
            return Concat(
                tuple(part if _is_empty(part) else _without_empty(part) for part in parts)
            )
    _refuse("look-around beside such an optional part at the edge of a terminal")


def _few(pieces: list[Piece]) -> list[Piece]:
    _check_few(len(pieces))
    return pieces


def _check_few(count: int) -> None:
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
