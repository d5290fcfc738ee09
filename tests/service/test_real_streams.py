"""Streams and deadlines as users run them: a server process, the default model, the SDK."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guided.client import Client, RawPrompt
from guided.errors import DeadlineExceededError
from guided.spec import FinishReason
from tests.service.test_real_server import PERSON, Person

STORY = "Tell me about a café in Zürich, with an emoji in every sentence."


def test_a_streamed_answer_is_the_plain_one_in_pieces(client: Client) -> None:
    # Without drafts, which may repeat the whole first answer in one step.
    plain = client.generate(PERSON, Person, max_tokens=64, drafters="none")
    with client.stream(PERSON, Person, max_tokens=64, drafters="none") as stream:
        pieces = list(stream)
    assert len(pieces) > 3
    assert "".join(pieces) == stream.answer.text == plain.text
    assert stream.answer.value == plain.value
    assert stream.answer.usage.output_tokens == plain.usage.output_tokens


def test_several_answers_come_whole_at_the_end_of_their_stream(client: Client) -> None:
    drawn: dict[str, Any] = {"max_tokens": 24, "temperature": 1.0, "seed": 5}
    plain = client.generate(STORY, n=3, **drawn)
    with client.stream(STORY, n=3, **drawn) as stream:
        assert [*stream] == []
    assert [one.text for one in stream.answer.candidates] == [one.text for one in plain.candidates]
    assert len({one.text for one in stream.answer.candidates}) == 3


@pytest.mark.parametrize("stop", [(), ("the",), (". ", "no such string")])
def test_a_streamed_free_text_never_takes_anything_back(
    client: Client, stop: tuple[str, ...]
) -> None:
    with client.stream(STORY, stop=stop, max_tokens=40, temperature=1.0, seed=5) as stream:
        text = "".join(stream)
    assert text == stream.answer.text
    assert not any(string in text for string in stop)


def test_text_comes_while_the_answer_is_being_made(client: Client) -> None:
    # Several are tried, as a machine may stand still before the first text of one.
    assert any(_comes_early(client) for _ in range(5))


def _comes_early(client: Client) -> bool:
    started = time.monotonic()
    with client.stream(RawPrompt("Once upon a time"), max_tokens=60) as stream:
        next(stream)
        first = time.monotonic() - started
        list(stream)
    return first < 0.7 * (time.monotonic() - started)


@pytest.mark.parametrize(("deadline", "timeout"), [(3.0, None), (None, 3.1)])
def test_a_deadline_closes_the_answer_in_time(
    client: Client, deadline: float | None, timeout: float | None
) -> None:
    answer = client.generate(
        "Count to a thousand, one number after the other.",
        schema={
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 400,
            "maxItems": 400,
        },
        max_tokens=2000,
        deadline=deadline,
        timeout=timeout,
    )
    assert answer.finish_reason is FinishReason.DEADLINE_CLOSED
    assert len(answer.value) == 400
    # One step may always be the longest so far; until the call's own deadline is 0.1 s left for it.
    assert answer.seconds < 3.1


def test_a_deadline_too_near_to_begin_is_an_error(client: Client) -> None:
    with pytest.raises(DeadlineExceededError, match="allow more time"):
        client.generate("Count. " * 150, max_tokens=5, deadline=0.001)
