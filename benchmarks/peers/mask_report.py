"""The tables of the mask benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias

from benchmarks.peers.judging import STATUSES, Judged
from benchmarks.peers.tables import SPREAD, heading, percent, row, spread

__all__ = ["TIMES", "Runs", "report", "times_to_first_mask"]

Runs: TypeAlias = Mapping[str, Mapping[str, Judged]]
"""What became of each schema, by engine and name."""

TIMES: Final[Mapping[str, Callable[[Judged], list[list[int]]]]] = {
    "TBM (mask)": lambda judged: judged.mask_ns,
    "accept": lambda judged: judged.accept_ns,
    "token (mask + accept)": lambda judged: judged.token_ns,
}
"""Nanoseconds of each token, by document."""


def report(runs: Runs, limit: float) -> Iterator[str]:
    """Yield the tables of some engines; ``limit`` is in seconds for each schema."""
    yield from _statuses(runs)
    yield "\nTTFM, us (compile + first mask; a timeout while compiling counts as the limit)\n"
    yield heading("engine", SPREAD)
    for engine, run in runs.items():
        yield row(engine, spread(times_to_first_mask(run.values(), limit)))
    for title, times in TIMES.items():
        yield f"\n{title}, us\n\n{heading('engine', SPREAD)}"
        for engine, run in runs.items():
            each = chain.from_iterable(chain.from_iterable(map(times, run.values())))
            yield row(engine, spread([nanoseconds / 1e3 for nanoseconds in each]))
    yield from _forced(runs)


def times_to_first_mask(run: Iterable[Judged], limit: float) -> list[float]:
    """Return the microseconds to compile and make the first mask, where it came to one.

    A timeout while compiling counts as the limit, a refusal not at all.
    """
    return [
        limit * 1e6 if each.ttfm_us is None else each.ttfm_us
        for each in run
        if each.ttfm_us is not None or each.status == "timeout"
    ]


def _statuses(runs: Runs) -> Iterator[str]:
    columns = ("pass %", "an invalid one accepted", "mask/accept disagree", "EOS disagree")
    yield "\n" + heading("engine", ["schemas", *STATUSES, *columns])
    for engine, run in runs.items():
        counts = Counter(each.status for each in run.values())
        cells = [
            len(run),
            *(counts[status] for status in STATUSES),
            percent(counts["pass"], len(run)),
            sum(each.invalid_accepted > 0 for each in run.values()),
            sum(each.mask_lies for each in run.values()),
            sum(each.eos_disagrees for each in run.values()),
        ]
        yield row(engine, cells)


def _forced(runs: Runs) -> Iterator[str]:
    columns = ("tokens", "forced", "forced %", "runs that went wrong", "masks", "one choice %")
    yield "\nTokens that the engine forced in valid documents that it passed\n"
    yield heading("engine", columns)
    for engine, run in runs.items():
        tokens = sum(each.forced_tokens for each in run.values())
        forced = sum(each.forced for each in run.values())
        wrong = sum(each.forced_wrong for each in run.values())
        masks = sum(len(steps) for each in run.values() for steps in each.accept_ns)
        single = sum(each.single for each in run.values())
        cells = [tokens, forced, percent(forced, tokens), wrong, masks, percent(single, masks)]
        yield row(engine, cells)
