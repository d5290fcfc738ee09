"""A stream continues while hostile constraints of others are compiled and followed beside it.

The bounds are generous, because tests share their machine; ``benchmarks/neighbour_gap.py`` has
exact figures.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from guided.constraint import ConstraintCompiler
from guided.drafters import LookupDrafter
from guided_service.garbage import Garbage
from tests.engine.finite_language import make_vocabulary
from tests.engine.tiny_models import make_engine, make_model
from tests.kit.hostile_constraints import HOSTILE
from tests.kit.neighbour import Gaps, gaps_beside

MODEL = make_model()
_SECONDS = 0.6
"""Allowed beyond the usual gap; before there were time slices, these took one to eight."""
_TRIES = 3
"""Several tries, because one on a busy machine shows nothing."""
HARDEST = {
    "classes repeated 4,000 times": "",
    "20,000 dots": "LimitExceededError",
    "one of 40 overlapping objects": "",
    "an enum of 980 KB": "",
    "subsets that double, too many": "LimitExceededError",
    "3,000 objects to choose from": "LimitExceededError",
}
"""Constraints with their outcome, if that does not depend on the model."""


def gaps(name: str) -> tuple[Gaps, Gaps]:
    """The usual gaps of a stream, and those beside a hostile constraint that is not cached yet."""
    vocabulary = make_vocabulary()
    compiler = ConstraintCompiler(vocabulary)
    engine = make_engine(
        MODEL,
        start=compiler.start,
        drafters=(LookupDrafter(vocabulary),),
        widest_draft=4,
        context_window=4096,
    )
    usual = gaps_beside(engine, None)
    return usual, gaps_beside(engine, HOSTILE[name]())


@pytest.fixture(autouse=True)
def _collected_as_by_the_service() -> Iterator[None]:
    before = gc.get_threshold()
    Garbage()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("name", HARDEST)
def test_a_stream_goes_on_beside_a_hostile_constraint(name: str) -> None:
    for _ in range(_TRIES):
        usual, beside = gaps(name)
        assert beside.outcome == HARDEST[name] or not HARDEST[name]
        if beside.longest < usual.longest + _SECONDS:
            return
    pytest.fail(f"the stream waited {beside.longest:.2f} s, and usually {usual.longest:.2f} s")
