"""Whether the look-around of an expression can reach beyond the text that the expression is of."""

from __future__ import annotations

from guided.automata.regular import Alternate, Chars, Concat, Look, Regular, Repeat

__all__ = ["looks_beyond"]


def looks_beyond(node: Regular, before: int = 0, behind: int = 0) -> bool:
    """Whether some look-around may need more code points than there are at least on its side.

    ``before`` and ``behind`` are the numbers of code points there are at least on either side.
    """
    match node:
        case Concat(parts):
            least = [_least(part) for part in parts]
            return any(
                looks_beyond(part, before + sum(least[:at]), behind + sum(least[at + 1 :]))
                for at, part in enumerate(parts)
                if _has_look(part)
            )
        case Alternate(options):
            return any(looks_beyond(option, before, behind) for option in options)
        case Repeat(item):
            return looks_beyond(item, before, behind)
        case Look(item, ahead):
            most = _most(item)
            if most is None or most > (behind if ahead else before):
                return True
            return looks_beyond(item, before, behind - most if ahead else behind)
    return False


def _has_look(node: Regular) -> bool:
    match node:
        case Concat(parts) | Alternate(parts):
            return any(map(_has_look, parts))
        case Repeat(item):
            return _has_look(item)
    return isinstance(node, Look)


def _least(node: Regular) -> int:
    """Code points of a shortest text; 0 for none."""
    match node:
        case Chars():
            return 1
        case Concat(parts):
            return sum(map(_least, parts))
        case Alternate(options):
            return min(map(_least, options), default=0)
        case Repeat(item, low):
            return low * _least(item)
    return 0


def _most(node: Regular) -> int | None:
    """Code points of a longest text, ``None`` where there is no bound."""
    match node:
        case Chars():
            return 1
        case Concat(parts):
            sizes = [_most(part) for part in parts]
            return None if None in sizes else sum(size for size in sizes if size is not None)
        case Alternate(options):
            sizes = [_most(option) for option in options]
            return None if None in sizes else max((s for s in sizes if s is not None), default=0)
        case Repeat(item, _, high):
            size = _most(item)
            if size == 0 or high == 0:
                return 0
            return None if size is None or high is None else size * high
    return 0
