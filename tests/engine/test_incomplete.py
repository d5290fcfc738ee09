"""A request that refuses truncated answers gets an error with its text; no other request does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guided.errors import GuidedError, IncompleteAnswerError
from guided.spec import (
    Beams,
    Constraint,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    OnIncomplete,
    Sampling,
)
from tests.engine.tiny_models import drain, make_engine, make_model, words
from tests.kit.counted import counted

ENGINE = make_engine(make_model(), reuse_prefixes=False)
CALL = GenerationRequest("go", words('{"name":"' + "ab" * 30 + '"}', '{"name":""}'), max_tokens=8)
KINDS: dict[str, GenerationRequest] = {
    "greedy": CALL,
    "without runs": replace(CALL, forcing=Forcing.OFF),
    "several": replace(CALL, n=3, sampling=Sampling(1.0, seed=1)),
    "the best": replace(CALL, n=2, best_of=4, sampling=Sampling(1.0, seed=1)),
    "beams": replace(CALL, n=2, beams=Beams(2)),
    "contrastive": replace(CALL, sampling=Sampling(top_k=2, penalty_alpha=0.6)),
    "free text": replace(CALL, constraint=None),
}


def run(request: GenerationRequest, engine: Any = ENGINE, **options: Any) -> tuple[Any, str]:
    """The outcome of a request, and its streamed text."""
    try:
        engine.submit("r", request, **options)
    except GuidedError as error:
        return error, ""
    text = ""
    ended: dict[str, Any] = {}
    while engine.has_work:
        ended |= {finished.request_id: finished.outcome for finished in engine.step()}
        text += "".join(delta.text for delta in engine.take_deltas())
        engine.check()
    return ended["r"], text


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_cut_short_is_an_error_with_what_there_was_of_it(kind: str) -> None:
    closed, _ = run(KINDS[kind])
    assert isinstance(closed, GenerationResult)
    reasons = [one.finish_reason for one in closed.candidates or (closed,)]
    cut = [reason.is_cut_short for reason in reasons]
    assert any(cut)
    error, _ = run(replace(KINDS[kind], on_incomplete=OnIncomplete.ERROR))
    assert isinstance(error, IncompleteAnswerError)
    first = cut.index(True)
    assert error.text == (closed.candidates or (closed,))[first].text
    assert error.finish_reason is reasons[first]
    assert counted(error.usage) == counted(closed.usage)
    which = f"answer {first + 1} of {len(cut)}" if len(cut) > 1 else "the answer"
    assert str(error).startswith(f"{which} was cut short after ")
    assert str(error).endswith(
        f"({reasons[first].value}); allow more tokens, or take the answer as it is closed"
    )


def test_a_complete_answer_is_given_as_ever() -> None:
    request = replace(CALL, constraint=words("name", "name12"))
    plain, _ = run(request)
    asked, _ = run(replace(request, on_incomplete=OnIncomplete.ERROR))
    assert plain.finish_reason in (FinishReason.COMPLETE, FinishReason.STOP)
    assert (asked.text, asked.finish_reason) == (plain.text, plain.finish_reason)


@pytest.mark.parametrize("constraint", [CALL.constraint, None], ids=["closed", "free text"])
def test_all_that_the_error_has_is_streamed_before_it(constraint: Constraint | None) -> None:
    request = replace(
        CALL, constraint=constraint, forcing=Forcing.OFF, on_incomplete=OnIncomplete.ERROR
    )
    error, streamed = run(request, stream=True)
    assert isinstance(error, IncompleteAnswerError)
    assert streamed
    assert error.text == streamed


def test_a_deadline_cuts_short_as_well() -> None:
    now = 0.0
    engine = make_engine(make_model(), clock=lambda: now)
    request = replace(CALL, max_tokens=80, forcing=Forcing.OFF, deadline=5.0)
    engine.submit("r", replace(request, on_incomplete=OnIncomplete.ERROR))
    assert not engine.step()
    now = 100.0
    error = drain(engine)["r"].outcome
    assert isinstance(error, IncompleteAnswerError)
    assert error.finish_reason is FinishReason.DEADLINE_CLOSED
    assert str(error).endswith("allow more time, or take the answer as it is closed")


def test_it_counts_as_failed_and_leaves_its_neighbour_alone() -> None:
    engine = make_engine(make_model())
    engine.submit("cut", replace(CALL, on_incomplete=OnIncomplete.ERROR))
    engine.submit("closed", CALL)
    ended = drain(engine)
    assert isinstance(ended["cut"].outcome, IncompleteAnswerError)
    assert isinstance(ended["closed"].outcome, GenerationResult)
    stats = engine.stats()
    assert (stats.failed, stats.answered) == (1, {FinishReason.LENGTH_CLOSED: 1})


def test_of_a_request_that_is_refused_at_once_nothing_is_streamed_later() -> None:
    """An answer without a choice ends while it is submitted."""
    engine = make_engine(make_model())
    request = GenerationRequest(
        "x", words("abcdna"), max_tokens=2, on_incomplete=OnIncomplete.ERROR
    )
    with pytest.raises(IncompleteAnswerError):
        engine.submit("r", request, stream=True)
    assert not engine.has_work
    assert engine.take_deltas() == []
