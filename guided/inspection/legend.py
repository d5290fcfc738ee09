"""The meaning of an answer's marks and colours, and how many tokens each stands for."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from guided.inspection.origins import Origin, TracedToken
from guided.spec import GenerationResult

__all__ = ["LegendEntry", "legend_of", "summary"]

_MARKS: Final = {
    Origin.FORCED: "f",
    Origin.COPIED: "c",
    Origin.CORRECTED: "x",
    Origin.SAMPLED: "s",
}
_DRAFTER_MARKS: Final = "123456789ABCDEFG"
"""Marks of drafters by their numbers; a request names 16 at most."""
_ORDER: Final = tuple(Origin)


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One source of tokens: an origin, and for drafted tokens the drafter."""

    source: str
    origin: Origin
    drafter: int
    """The number of its drafter, in the order in which they appear in the answer; else 0."""
    mark: str
    """The character that stands for it where there are no colours."""
    num_tokens: int
    kinds: tuple[tuple[str, int], ...]
    """The tokens of each kind that its drafter distinguishes, the most frequent first."""


def legend_of(tokens: Sequence[TracedToken]) -> dict[str, LegendEntry]:
    """Return the sources of an answer's tokens by name, in the order of ``Origin``."""
    origin_of = {token.source: token.origin for token in tokens}
    # A stable sort: drafters stay in the order in which they appear in the answer.
    sources = sorted(origin_of, key=lambda source: _ORDER.index(origin_of[source]))
    drafters = itertools.count()
    entries = {}
    for source in sources:
        drafter = next(drafters) if origin_of[source] is Origin.DRAFTED else 0
        its = [token for token in tokens if token.source == source]
        kinds = Counter(token.kind for token in its if token.kind)
        entries[source] = LegendEntry(
            source=source,
            origin=origin_of[source],
            drafter=drafter,
            mark=_MARKS.get(origin_of[source], _DRAFTER_MARKS[drafter]),
            num_tokens=len(its),
            kinds=tuple(kinds.most_common()),
        )
    return entries


def summary(result: GenerationResult) -> str:
    """Return in one line why the answer ended, and how many tokens and model calls it took."""
    usage = result.usage
    calls = usage.model_calls / max(1, usage.output_tokens)
    return (
        f"{result.finish_reason.value}: {usage.output_tokens} tokens, {usage.model_calls} model"
        f" calls ({calls:.2f} for a token), {usage.drafted_tokens} drafted,"
        f" {usage.accepted_tokens} accepted"
    )
