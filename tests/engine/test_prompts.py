"""Prompts prepared beside the engine: the same answers, and limits checked before any work."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from guided.errors import DeadlineExceededError, LimitExceededError
from guided.spec import Constraint, GenerationRequest, JsonSchema, Message, Tool, ToolUse
from guided.spec.prompt_bound import PromptBound
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import LLAMA
from tests.engine.tiny_models import answers, make_engine, make_model, render, results, start, words

MODEL = make_model()
REQUESTS = {
    "free": GenerationRequest("hello name", max_tokens=8),
    "words": GenerationRequest("hello", words("name", "nine"), max_tokens=8),
}


def test_a_prompt_prepared_in_another_thread_gives_the_same_answer() -> None:
    engine = make_engine(MODEL)
    expected = answers(engine, REQUESTS)
    with ThreadPoolExecutor(1) as other:
        prepared = {name: other.submit(engine.prepare, REQUESTS[name]) for name in REQUESTS}
    for name, future in prepared.items():
        engine.submit(name, REQUESTS[name], prompt=future.result())
    found = results(engine)
    for name, result in expected.items():
        assert found[name].tokens == result.tokens
        assert found[name].usage.prompt_tokens == result.usage.prompt_tokens


def test_the_time_of_preparing_is_the_requests_own() -> None:
    engine = make_engine(MODEL)
    prompt = engine.prepare(REQUESTS["free"])
    time.sleep(0.05)
    engine.submit("r", REQUESTS["free"], prompt=prompt)
    assert results(engine)["r"].timing.compiling_seconds >= 0.05


def test_what_is_late_or_too_long_is_refused_before_it_is_rendered() -> None:
    rendered: list[object] = []

    def noted(prompt: str, *_: object) -> object:
        rendered.append(prompt)
        return render(prompt, None)

    engine = make_engine(MODEL, render=noted, prompt_bound=PromptBound(16, bytes_per_token=3))
    late = GenerationRequest("hello", max_tokens=2, deadline=1.0)
    for refuse in (engine.prepare, lambda *asked, **more: engine.submit("r", *asked, **more)):
        with pytest.raises(DeadlineExceededError):
            refuse(late, received=time.monotonic() - 2.0)
        with pytest.raises(LimitExceededError, match="has 46 bytes, which are 16 tokens at least"):
            refuse(GenerationRequest("x" * 46, max_tokens=2))
    assert not rendered
    engine.prepare(GenerationRequest("x" * 45, max_tokens=2))
    assert len(rendered) == 1


def test_tools_are_told_in_the_prompt_and_held_by_the_grammar_of_the_models_format() -> None:
    told: list[object] = []
    held: list[Constraint] = []

    def noted(
        prompt: object, schema: str | None, _: bool | None, tools: object, *__: object
    ) -> object:
        told.append((prompt, schema, tools))
        return render("hello", None)

    def started(constraint: Constraint) -> object:
        held.append(constraint)
        return start(words("name"))

    engine = make_engine(MODEL, render=noted, start=started, tool_format=LLAMA)
    use = ToolUse((Tool("f"), Tool("g")), "f")
    schema = JsonSchema('{"type":"object"}')
    request = GenerationRequest(
        (Message("user", "hello"),), schema, max_tokens=8, show_schema=True, tools=use
    )
    engine.submit("r", request)
    results(engine)
    engine.submit("prepared", request, prompt=engine.prepare(request))
    results(engine)
    assert told == [(request.prompt, schema.text, (Tool("f"),))] * 2
    assert held == [with_calls(use, schema, LLAMA)] * 2


def test_a_request_whose_preparation_failed_counts_as_refused() -> None:
    engine = make_engine(MODEL)
    before = engine.stats().refused
    engine.count_refused()
    assert engine.stats().refused == before + 1
