"""Waiting requests are served by priority and arrival, and none waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.engine.submission import ServiceOrder
from guided.errors import RequestError
from guided.spec import GenerationRequest, GenerationResult
from guided.spec.request import PATIENCE_SECONDS
from tests.engine.tiny_models import answers, drain, make_engine, make_model

MODEL = make_model()
ENGINE = make_engine(MODEL, max_batch=1)


def ask(priority: int, prompt: str = "hello", max_tokens: int = 6) -> GenerationRequest:
    return GenerationRequest(prompt, max_tokens=max_tokens, priority=priority)


def test_the_smaller_priority_goes_first_and_among_equals_who_came_first() -> None:
    engine = make_engine(MODEL, max_batch=1)
    for moment, (key, priority) in enumerate(
        {"a": 0, "b": 1, "c": 0, "d": -3, "e": -3, "f": 1}.items()
    ):
        engine.submit(key, ask(priority), received=0.1 * moment)
    assert "".join(drain(engine)) == "deacbf"


def test_waiting_counts_as_priority() -> None:
    """A lead of five levels against the waiting time of five levels, and a little more."""
    engine = make_engine(MODEL, max_batch=1)
    engine.submit("patient", ask(5), received=0.0)
    engine.submit("just later", ask(0), received=5 * PATIENCE_SECONDS - 1)
    engine.submit("much later", ask(0), received=5 * PATIENCE_SECONDS + 1)
    assert list(drain(engine)) == ["just later", "patient", "much later"]


@given(
    st.lists(
        st.tuples(st.integers(-100, 100) | st.integers(-2, 2), st.integers(0, 2500)),
        min_size=2,
        max_size=5,
    )
)
@settings(max_examples=50)
def test_a_better_one_overtakes_unless_it_comes_much_later(asked: list[tuple[int, int]]) -> None:
    """Much later means more than ten seconds a level; equals are served in order of arrival."""
    for number, (priority, received) in enumerate(asked):
        ENGINE.submit(str(number), ask(priority, max_tokens=1), received=float(received))
    served = [asked[int(key)] for key in drain(ENGINE)]
    for index, (priority, received) in enumerate(served):
        for other_priority, other_received in served[index + 1 :]:
            levels, delay = priority - other_priority, other_received - received
            assert delay >= levels * PATIENCE_SECONDS


@given(priority=st.integers(-99, 100), levels=st.integers(1, 199), received=st.integers(0, 10**6))
def test_what_a_level_is_worth_decides_to_the_second(
    priority: int, levels: int, received: int
) -> None:
    better = ask(max(-100, priority - levels))
    worth = PATIENCE_SECONDS * (priority - better.priority)
    turn = ServiceOrder.of(ask(priority), received).queue_key
    assert ServiceOrder.of(better, received + worth - 1).queue_key < turn
    assert ServiceOrder.of(better, received + worth + 1).queue_key > turn


def test_an_old_request_of_low_priority_is_served_among_a_stream_of_better_ones() -> None:
    """One of priority 0 comes each second; the other, two levels below, is the 21st served."""
    engine = make_engine(MODEL, max_batch=1)
    engine.submit("low", ask(2, max_tokens=1), received=-0.5)
    served: list[str] = []
    for moment in range(40):
        engine.submit(str(moment), ask(0, max_tokens=1), received=float(moment))
        served += [finished.request_id for finished in engine.step()]
    assert served.index("low") == 20


@pytest.mark.parametrize(("first_priority", "order"), [(0, "ab"), (1, "ba")])
def test_who_is_last_in_turn_gives_way(first_priority: int, order: str) -> None:
    """Two answers of 32 tokens in a cache of 48: one starts over, and so ends later."""
    plain = answers(make_engine(MODEL), {"r": ask(0, "x" * 8, 24)})["r"].tokens
    engine = make_engine(MODEL, cache_tokens=48, reuse_prefixes=False)
    engine.submit("a", ask(first_priority, "x" * 8, 24), received=0.0)
    ended = {finished.request_id: finished for finished in engine.step()}
    engine.submit("b", ask(0, "x" * 8, 24), received=1.0)
    ended |= drain(engine)
    assert engine.stats().preempted > 0
    assert "".join(ended) == order
    for finished in ended.values():
        assert isinstance(finished.outcome, GenerationResult)
        assert finished.outcome.tokens == plain


@pytest.mark.parametrize("priority", [-101, 101])
def test_a_priority_out_of_range_is_refused(priority: int) -> None:
    with pytest.raises(RequestError, match=f"priority {priority} is not between -100 and 100"):
        ask(priority)
