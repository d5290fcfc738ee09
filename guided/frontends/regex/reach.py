"""Whether look-around of an expression speaks of nothing but what is around its text."""

from __future__ import annotations

from guided.automata.regular import Alternate, Concat, Look, Regular, Repeat

__all__ = ["looks_away"]


def looks_away(node: Regular, *, first: bool = True, last: bool = True) -> bool:
    """Whether a look-ahead stands at the end of the text, or a look-behind at its beginning.

    ``first`` and ``last`` say whether nothing of the text stands before the expression, or behind.
    """
    match node:
        case Concat(parts):
            empty = [_is_empty(part) for part in parts]
            return any(
                looks_away(
                    part, first=first and all(empty[:at]), last=last and all(empty[at + 1 :])
                )
                for at, part in enumerate(parts)
            )
        case Alternate(options):
            return any(looks_away(option, first=first, last=last) for option in options)
        case Repeat(item, _, high):
            alone = high == 1
            return looks_away(item, first=first and alone, last=last and alone)
        case Look(_, ahead):
            return last if ahead else first
    return False


def _is_empty(node: Regular) -> bool:
    """Whether an expression has the empty text at most."""
    match node:
        case Concat(parts) | Alternate(parts):
            return all(map(_is_empty, parts))
        case Repeat(item, _, high):
            return high == 0 or _is_empty(item)
    return isinstance(node, Look)
