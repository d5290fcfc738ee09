"""Which requests start and give way, and how the tokens of a step are shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.decoding import Chooser, DraftBudget, DraftBuilder, DraftRequest, TokenDistribution
from guided.engine.answer_state import AnswerState
from guided.engine.cache_size import StepLimits
from guided.engine.request_clock import RequestClock
from guided.engine.runnable import Step
from guided.engine.sampled import SampledRunnable
from guided.engine.scheduler import Scheduler, share_tokens
from guided.engine.submission import ServiceOrder, Submission
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.spec import Forcing, GenerationRequest, Sampling, TokenId
from tests.engine.finite_language import END_IDS, AnythingMatcher

BLOCK = 4


def runnable(name: str, key: float, prompt: int = BLOCK) -> SampledRunnable:
    """A request for one answer that needs blocks for its prompt, and one more."""
    tokens = (TokenId(2),) * prompt
    request = GenerationRequest("x")
    matcher: Any = AnythingMatcher()
    compiled: Any = None
    submission = Submission(
        name, request, tokens, ServiceOrder(key), False, RequestClock(), compiled
    )
    chooser = Chooser(Sampling(), seed=0, max_tokens=8, end_ids=END_IDS)
    answer = AnswerState(tokens, matcher, chooser, Forcing.OFF, is_constrained=False)
    return SampledRunnable(submission, answer, None)


class Setup:
    """A scheduler and its cache, which has room for this number of blocks."""

    def __init__(self, blocks: int, max_batch: int = 8) -> None:
        self.cache = BlockCache([LayerGroup(blocks)], BLOCK, reuse_prefixes=False)
        limits = StepLimits(max_batch, step_tokens=64, block_size=BLOCK)
        self.scheduler = Scheduler(self.cache, limits)

    def wait(self, *waiting: SampledRunnable) -> None:
        for each in waiting:
            self.scheduler.enqueue(each)

    def start_all(self) -> list[str]:
        """Start the requests that have room; returns these, in order."""
        started = []
        while (entry := self.scheduler.take_next()) is not None:
            self.scheduler.start(*entry)
            started.append(entry[0].request_id)
        self.scheduler.check()
        return started

    def steps(self) -> list[Step]:
        return [each.begin_step(n, DraftBudget(0)) for each, n in self.scheduler.plan()]


def test_the_smaller_key_starts_first_and_of_equal_ones_the_first_that_came() -> None:
    setup = Setup(blocks=20)
    setup.wait(runnable("c", 2.0), runnable("a", 1.0), runnable("d", 2.0), runnable("b", 1.0))
    assert setup.start_all() == ["a", "b", "c", "d"]


def test_no_more_start_than_there_are_places() -> None:
    setup = Setup(blocks=20, max_batch=2)
    setup.wait(*(runnable(name, 0.0) for name in "abc"))
    assert setup.start_all() == ["a", "b"]
    setup.scheduler.stop(setup.scheduler.running[0])
    assert setup.start_all() == ["c"]


def test_nobody_overtakes_one_that_has_no_room_yet() -> None:
    setup = Setup(blocks=5)
    setup.wait(runnable("first", 0.0), runnable("large", 1.0, prompt=4 * BLOCK))
    setup.wait(runnable("small", 2.0))
    assert setup.start_all() == ["first"]
    assert setup.cache.num_open == 1
    setup.scheduler.drop("first")
    assert setup.start_all() == ["large"]


def test_whoever_is_alone_starts_even_where_it_will_need_more_than_there_is() -> None:
    setup = Setup(blocks=1)
    setup.wait(runnable("alone", 0.0))
    assert setup.start_all() == ["alone"]


def test_the_largest_key_gives_way_and_waits_again() -> None:
    setup = Setup(blocks=8)
    setup.wait(runnable("b", 2.0), runnable("a", 1.0), runnable("c", 3.0))
    assert setup.start_all() == ["a", "b", "c"]
    others = setup.cache.open()
    others.reserve(6 * BLOCK)
    kept = setup.scheduler.make_room(setup.steps())
    assert [step.runnable.request_id for step in kept] == ["a", "b"]
    assert [each.request_id for each in setup.scheduler.running] == ["a", "b"]
    others.release()
    assert setup.start_all() == ["c"]


def test_a_dropped_request_neither_waits_nor_runs() -> None:
    setup = Setup(blocks=4)
    setup.wait(runnable("runs", 0.0), runnable("waits", 1.0, prompt=3 * BLOCK))
    assert setup.start_all() == ["runs"]
    for name in ("waits", "runs", "unknown"):
        setup.scheduler.drop(name)
    assert setup.scheduler.take_next() is None
    assert setup.cache.num_open == 0


@pytest.mark.parametrize(
    ("pending", "step_tokens", "counts"),
    [
        ([], 8, []),
        ([1, 700, 3], 512, [1, 508, 3]),
        ([700, 600], 512, [1, 511]),
        ([5], 8, [5]),
        ([20], 8, [8]),
        ([4, 4, 4], 3, [1, 1, 1]),
    ],
)
def test_the_tokens_of_a_step_are_shared(
    pending: list[int], step_tokens: int, counts: list[int]
) -> None:
    assert share_tokens(pending, step_tokens) == counts


@given(st.lists(st.integers(1, 50), max_size=8), st.integers(8, 60))
def test_sharing_wastes_nothing_and_starves_nobody(pending: list[int], step_tokens: int) -> None:
    counts = share_tokens(pending, step_tokens)
    assert all(1 <= count <= wanted for count, wanted in zip(counts, pending, strict=True))
    assert sum(counts) == min(step_tokens, sum(pending))


def test_a_drawn_draft_demands_the_same_whatever_was_drawn() -> None:
    """Otherwise giving draws up would depend on their value, which changes the distribution."""
    setup = Setup(blocks=20)
    setup.wait(runnable("a", 1.0))
    setup.start_all()
    demands = []
    for drawn in (0, 1, 5):
        (step,) = setup.steps()
        tree = step.pieces[0].tree
        budget = DraftBudget(12)
        builder = DraftBuilder(
            tree, Forcing.OFF, budget=budget, tokens_left=8, end_ids=frozenset(END_IDS)
        )
        draft_state: Any = None
        step.draft = DraftRequest((), draft_state, builder)
        distribution = TokenDistribution(np.arange(40, 50, dtype=np.int64), np.ones(10))
        node = builder.root
        if not drawn:
            builder.draw(node, min(END_IDS), distribution)
        for token in range(40, 40 + drawn):
            tip = builder.draw(node, TokenId(token), distribution)
            assert tip is not None
            node = tip
        step.take_draft()
        assert len(step.pieces[0].tree) == len(tree) + drawn
        demands.append(step.demand())
        step.drop_draft()
        assert step.demand() < demands[-1]
    assert len({*demands}) == 1
