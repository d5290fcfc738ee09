"""Lazy quantifiers: repeats that end as soon as what follows them matches.

As a set of texts ``".*?"`` is the same as ``".*"``; its author means the first quote, though.
So each further round of a lazy repeat stands under the condition that what follows does not match
where it begins, which is what a backtracking matcher makes of it::

    ".*?"   ->   "((?!").)*"
"""

from __future__ import annotations

from typing import Final

from guided.regular.expression import Alternate, Concat, Look, Regular, Repeat

__all__ = ["has_lazy", "settled"]

_MAX_COPIES: Final = 50
_NOTHING: Final = Concat(())


def settled(node: Regular, rest: Regular = _NOTHING) -> Regular:
    """The texts of an expression, followed by ``rest``, in which lazy repeats end as soon as they
    can.
    """
    if not has_lazy(node):
        return node
    match node:
        case Concat(parts):
            return Concat(
                tuple(
                    settled(part, Concat((*parts[at + 1 :], rest))) if has_lazy(part) else part
                    for at, part in enumerate(parts)
                )
            )
        case Alternate(options):
            return Alternate(tuple(settled(option, rest) for option in options))
        case Repeat(item, low, high, lazy) if lazy:
            loop = Repeat(item, 0, None if high is None else max(high - 1, 0))
            # x{2,4}? -> x x ((?!rest)x){0,2}
            again = Concat((Look(rest, negative=True), settled(item, Concat((loop, rest)))))
            more = Repeat(again, 0, None if high is None else high - low)
            first = _rounds(item, low, low, Concat((loop, rest))) if low else _NOTHING
            return Concat((first, more))
        case Repeat(item, low, high):
            return _rounds(item, low, high, rest)
    # Inside of a condition it matters only whether there is a match.
    return node


def _rounds(item: Regular, low: int, high: int | None, rest: Regular) -> Regular:
    """A repeat whose item may hold lazy ones: every round is followed by others, then the rest."""
    if not has_lazy(item):
        return Repeat(item, low, high)
    copies = low if high is None else high
    if copies > _MAX_COPIES:
        return Repeat(settled(item, Concat((Repeat(item, 0, None), rest))), low, high)
    made: Regular = _NOTHING
    if high is None:
        made = Repeat(settled(item, Concat((Repeat(item, 0, None), rest))), 0, None)
    for round_ in range(copies, 0, -1):
        others = Repeat(item, max(low - round_, 0), None if high is None else high - round_)
        made = Concat((settled(item, Concat((others, rest))), made))
        if round_ > low:
            made = Alternate((made, _NOTHING))
    return made


def has_lazy(node: Regular) -> bool:
    """Whether a lazy repeat stands in an expression, outside of its look-around."""
    match node:
        case Concat(parts) | Alternate(parts):
            return any(map(has_lazy, parts))
        case Repeat(item, _, _, lazy):
            return lazy or has_lazy(item)
    return False
