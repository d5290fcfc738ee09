"""How many alternatives the rules of a grammar have once Lark has written them out.

An optional part doubles the alternatives of what it stands in, so forty of them in one rule would
keep Lark busy for years.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from guided.errors import LimitExceededError
from guided.frontends.lark.repeats import repeat_bounds

__all__ = ["MAX_ALTERNATIVES", "check_alternatives", "check_count"]

MAX_ALTERNATIVES: Final = 3_000
"""Of all rules together."""
_FACTORED: Final = 50
"""From so many rounds on Lark takes repeats apart into rules."""


def check_alternatives(text: str, rules: Iterable[tuple[Any, int]]) -> None:
    """Raise LimitExceededError for more than MAX_ALTERNATIVES in these bodies of rules.

    Of each it is said how often Lark writes it out, as it does with templates.
    """
    check_count(sum(_count(text, tree) * times for tree, times in rules))


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


def _count(text: str, tree: Any) -> int:
    """Alternatives, at most a few more than MAX_ALTERNATIVES."""
    if not hasattr(tree, "data"):
        return 1
    counts = (_count(text, child) for child in tree.children)
    found = 1
    match tree.data:
        case "expansions":
            found = sum(counts)
        case "expansion":
            for count in counts:
                found = min(found * count, MAX_ALTERNATIVES + 1)
        case "expr":
            low, high = repeat_bounds(text, tree.children[1:])
            item = _count(text, tree.children[0])
            if high is None or high >= _FACTORED:
                # These become rules of their own.
                found = item + (2 if high is None else 200)
            else:
                found = sum(min(item**n, MAX_ALTERNATIVES + 1) for n in range(low, high + 1))
        case "alias":
            found = _count(text, tree.children[0])
        case "maybe":
            found = _count(text, tree.children[0]) + 1
    return min(found, MAX_ALTERNATIVES + 1)
