"""How many alternatives the rules of a grammar have once Lark has written them out.

An optional part doubles the alternatives of what it stands in, so forty of them in one rule would
keep Lark busy for years.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from guided.errors import LimitExceededError
from guided.grammar.lark.syntax import Alternatives, Repeated, Series, Tree

__all__ = ["MAX_ALTERNATIVES", "check_alternatives", "check_count"]

MAX_ALTERNATIVES: Final = 3_000
"""Of all rules together."""
_FACTORED: Final = 50
"""From so many rounds on Lark takes repeats apart into rules."""


def check_alternatives(bodies: Iterable[tuple[Tree, int]]) -> None:
    """Raise LimitExceededError for more than MAX_ALTERNATIVES in these bodies of rules.

    Of each it is said how often Lark writes it out, as it does with templates.
    """
    check_count(sum(_count(tree) * times for tree, times in bodies))


def check_count(count: int) -> None:
    """Raise LimitExceededError for a count that is above MAX_ALTERNATIVES."""
    if count > MAX_ALTERNATIVES:
        raise LimitExceededError(
            f"the rules have more than {MAX_ALTERNATIVES} alternatives when they are written out,"
            " too many for the contextual reading",
            limit=MAX_ALTERNATIVES,
            field="constraint",
            hint="give optional parts rules of their own, or read it as a context-free grammar",
        )


def _count(tree: Tree) -> int:
    """Alternatives, at most a few more than MAX_ALTERNATIVES."""
    found = 1
    match tree:
        case Alternatives(options):
            found = sum(map(_count, options))
        case Series(parts):
            for part in parts:
                found = min(found * _count(part), MAX_ALTERNATIVES + 1)
        case Repeated(item, low, high):
            one = _count(item)
            if high is None or high >= _FACTORED:
                # These become rules of their own.
                found = one + (2 if high is None else 200)
            else:
                found = sum(min(one**n, MAX_ALTERNATIVES + 1) for n in range(low, high + 1))
    return min(found, MAX_ALTERNATIVES + 1)
