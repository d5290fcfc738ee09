"""What is counted of masks: those that were kept, and how long each of the others took."""

from __future__ import annotations

import numpy as np
import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.masks.mask_counts import MASK_BOUNDS, MaskCounts
from guided.masks.matcher import Matcher
from guided.spec import JsonSchema, Regex
from guided.stats import ConstraintStats
from tests.kit.walks import BYTES

STRING = JsonSchema('{"type": "string"}')


def after(matcher: Matcher, text: bytes) -> Matcher:
    for byte in text:
        matcher = matcher.advance(BYTES.byte_ids[byte])
    return matcher


def counted(compiler: ConstraintCompiler, earlier: ConstraintStats) -> tuple[int, int]:
    """How many masks were kept, and how many computed."""
    added = compiler.stats().since(earlier)
    return added.mask_hits, added.masks.count


def test_a_mask_is_computed_once_and_found_from_then_on() -> None:
    compiler = ConstraintCompiler(BYTES)
    start = compiler.start(STRING)
    before = compiler.stats()
    start.mask()
    assert counted(compiler, before) == (0, 1)
    assert compiler.stats().since(before).masks.total > 0
    assert compiler.stats().mask_bytes > 0
    start.mask()
    start.allows(BYTES.byte_ids[0])
    compiler.start(STRING).mask()
    assert counted(compiler, before) == (3, 1)


def test_a_position_with_the_mask_of_another_finds_it() -> None:
    compiler = ConstraintCompiler(BYTES)
    start = compiler.start(JsonSchema('{"type": "array", "items": {"type": "string"}}'))
    after(start, b'["ab').mask()
    before = compiler.stats()
    after(start, b'["ab","abc').mask()
    assert counted(compiler, before) == (1, 0)


def test_a_mask_that_was_dropped_is_computed_again() -> None:
    compiler = ConstraintCompiler(BYTES, ConstraintLimits(max_mask_bytes=0))
    start = compiler.start(STRING)
    before = compiler.stats()
    for _ in range(3):
        start.mask()
    assert counted(compiler, before) == (0, 3)
    assert compiler.stats().mask_bytes == 0


def test_constraints_of_one_compiler_count_together_and_dropped_ones_stay_counted() -> None:
    compiler = ConstraintCompiler(BYTES, ConstraintLimits(max_compiled=1))
    before = compiler.stats()
    for pattern in "abc":
        compiler.start(Regex(f"{pattern}{pattern}*")).mask()
    stats = compiler.stats().since(before)
    assert (stats.misses, stats.kept, stats.masks.count) == (3, 1, 3)


def test_free_text_has_no_masks_to_compute() -> None:
    compiler = ConstraintCompiler(BYTES)
    compiler.start(None).mask()
    assert counted(compiler, ConstraintStats(masks=MaskCounts().computed())) == (0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_durations_are_counted_as_numpy_does(seed: int) -> None:
    taken = np.random.default_rng(seed).lognormal(11, 4, 500).astype(np.int64).tolist()
    taken[:3] = [1_000, 1_001, 2_000]
    counts = MaskCounts()
    for nanoseconds in taken:
        counts.count_computed(nanoseconds)
    found = counts.computed()
    below = [int((np.array(taken) <= round(bound * 1e9)).sum()) for bound in MASK_BOUNDS]
    assert np.cumsum(found.counts).tolist() == [*below, 500]
    assert found.total == pytest.approx(sum(taken) / 1e9)
    assert (found.bounds[0], found.bounds[-1], len(found.bounds)) == (1e-6, 1.0, 19)
