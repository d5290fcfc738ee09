"""Streamed text is the text of the answer, whatever the engine does meanwhile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from guided.drafters import LookupDrafter
from guided.engine.engine import Engine
from guided.spec import (
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
    TokenLogprobs,
)
from tests.engine.finite_language import make_vocabulary
from tests.engine.tiny_models import answers, make_engine, make_model, words

MODEL = make_model()
WORDS = ("naïve abc", "名前12", "abcabc語", '{"name":"é"}')


def free(seed: int, **options: Any) -> GenerationRequest:
    """A request for random bytes, most of which are no UTF-8."""
    return GenerationRequest(
        prompt="hello hello",
        max_tokens=40,
        sampling=Sampling(temperature=5.0, seed=seed),
        **options,
    )


REQUESTS = {
    "free": free(1),
    "stopped": GenerationRequest(prompt="hello", max_tokens=40, stop=("na", "abc", "e")),
    "stopped late": GenerationRequest(
        prompt="hello", max_tokens=40, stop=("na", "abc", "e"), stop_after=6
    ),
    "stop tokens": free(2, stop_tokens=tuple(TokenId(token) for token in range(60, 75))),
    "stop kept": free(3, stop=("a", "é", "b1"), include_stop=True),
    "greedy": GenerationRequest(prompt="abcabcabcabc", max_tokens=30),
    "short": GenerationRequest(prompt="x", constraint=words(*WORDS), max_tokens=20),
    **{
        f"constrained {forcing}": GenerationRequest(
            prompt="name",
            constraint=words(*WORDS),
            max_tokens=40,
            sampling=Sampling(temperature=3.0, seed=4),
            forcing=forcing,
        )
        for forcing in Forcing
    },
    "stopped in a word": GenerationRequest(
        prompt="x", constraint=words("naïve語x", "naïve語y"), stop=("語",), max_tokens=20
    ),
    "decided": GenerationRequest(prompt="x", constraint=words("語"), max_tokens=9),
}
"""The answer to the last one is known before any model call."""


def run(engine: Engine) -> tuple[dict[str, list[str]], dict[str, GenerationResult]]:
    """The deltas of every request, and the answers."""
    deltas: dict[str, list[str]] = {key: [] for key in REQUESTS}
    results: dict[str, GenerationResult] = {}
    for key, request in REQUESTS.items():
        engine.submit(key, request, stream=True)
    while engine.has_work:
        ended = engine.step()
        for delta in engine.take_deltas():
            assert delta.request_id not in results, "text came after the end"
            assert delta.text
            deltas[delta.request_id].append(delta.text)
        for finished in ended:
            assert isinstance(finished.outcome, GenerationResult)
            results[finished.request_id] = finished.outcome
    return deltas, results


@cache
def plain() -> dict[str, GenerationResult]:
    return answers(make_engine(MODEL), REQUESTS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"step_tokens": 12, "max_batch": 3},
        {"cache_tokens": 60, "reuse_prefixes": False},
        {"drafters": (LookupDrafter(make_vocabulary()),), "widest_draft": 12},
        {
            "drafters": (LookupDrafter(make_vocabulary()),),
            "widest_draft": 12,
            "cache_tokens": 60,
            "step_tokens": 20,
        },
    ],
)
def test_all_deltas_together_are_the_text_of_the_answer(options: dict[str, Any]) -> None:
    engine = make_engine(MODEL, **options)
    deltas, results = run(engine)
    for key, result in results.items():
        assert "".join(deltas[key]) == result.text == plain()[key].text, key
    assert len(deltas["greedy"]) > 3
    assert deltas["decided"] == ["語"]
    if "cache_tokens" in options:
        assert engine.stats().preempted > 0


@pytest.mark.parametrize("options", [{}, {"step_tokens": 12, "max_batch": 3}])
def test_deltas_have_the_logprobs_of_the_tokens_so_far(options: dict[str, Any]) -> None:
    engine = make_engine(MODEL, **options)
    told: dict[str, list[TokenLogprobs]] = {key: [] for key in REQUESTS}
    texts: dict[str, bytes] = dict.fromkeys(REQUESTS, b"")
    lengths: dict[str, set[int]] = {key: set() for key in REQUESTS}
    results: dict[str, GenerationResult] = {}
    for key, request in REQUESTS.items():
        engine.submit(key, replace(request, top_logprobs=1), stream=True)
    while engine.has_work:
        ended = engine.step()
        for delta in engine.take_deltas():
            key = delta.request_id
            told[key] += delta.logprobs
            texts[key] += delta.text.encode()
            lengths[key].add(len(told[key]))
            so_far = b"".join(one.text for one in told[key])
            # Bytes that are no text are reported in another way.
            assert so_far.startswith(texts[key]) or "�".encode() in texts[key]
        for finished in ended:
            assert isinstance(finished.outcome, GenerationResult)
            results[finished.request_id] = finished.outcome
    for key, result in results.items():
        assert result.logprobs[: len(told[key])] == (*told[key],)
        assert len(told[key]) > 0
    assert results.keys() == REQUESTS.keys()
    assert len(lengths["greedy"]) > 3


def test_only_who_asks_for_deltas_gets_them() -> None:
    engine = make_engine(MODEL)
    engine.submit("streamed", REQUESTS["greedy"], stream=True)
    engine.submit("whole", REQUESTS["greedy"])
    told = set()
    while engine.has_work:
        engine.step()
        told |= {delta.request_id for delta in engine.take_deltas()}
    assert told == {"streamed"}
    assert engine.take_deltas() == []


def test_a_cancelled_request_says_no_more() -> None:
    engine = make_engine(MODEL)
    engine.submit("r", REQUESTS["greedy"], stream=True)
    engine.step()
    engine.cancel("r")
    assert engine.take_deltas() == []
    assert not engine.has_work


def test_a_long_prompt_never_keeps_a_stream_waiting() -> None:
    """At forty tokens a step the long prompt takes twelve steps, and the stream grows in each."""
    engine = make_engine(MODEL, step_tokens=40)
    engine.submit("stream", GenerationRequest(prompt="abc", max_tokens=30), stream=True)
    engine.step()
    engine.submit("long", GenerationRequest(prompt="x" * 450, max_tokens=5))
    for _ in range(450 // 40):
        before = engine.stats().usage.output_tokens
        assert engine.step() == []
        assert engine.stats().usage.output_tokens == before + 1
    engine.step()
    assert engine.stats().usage.output_tokens == before + 3, "both have their next token"
