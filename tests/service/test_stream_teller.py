"""Detailed streams: all pieces of an answer together are the answer that comes whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.client import CallEnded, Candidate, Request
from guided.client.stream_events import (
    AnswerEnded,
    ArgumentsGrown,
    CallBegun,
    EventReader,
    StreamEvent,
    TextGrown,
    ThoughtsGrown,
)
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    Lark,
    Message,
    Tool,
    ToolCall,
    ToolUse,
    Usage,
)
from guided.spec.delta import Delta
from guided.spec.tool_format import FORMATS, HERMES, LLAMA, QWEN_XML, ToolFormat, strip_marks
from guided.v1 import generation_pb2 as pb
from guided_service.call_reader import ReaderOf, calls_in, reader_of
from guided_service.encode import encode_result
from guided_service.stream_teller import PlainTeller, StreamTeller

F = Tool(
    "f",
    "",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {"type": "integer"},
                "c": {"type": "array"},
            },
        }
    ),
)
TYPED = Tool("typed", input=Lark("start: /[^<]*/"))
"""A custom tool."""
ASKED = GenerationRequest((Message("user", "?"),), tools=ToolUse((F, TYPED)))
CALLS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "a": st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9),
                "b": st.integers(0, 999),
                "c": st.lists(st.integers(0, 9), max_size=3),
            }
        ).map(lambda told: ("f", told)),
        st.text("ab ⏎é\n", max_size=9).map(lambda told: ("typed", {"input": told})),
    ),
    max_size=3,
)


def written(form: ToolFormat, said: str, calls: Sequence[tuple[str, Any]]) -> str:
    """An answer in a format: what is said, then calls, or only one of both."""
    if not calls:
        return form.before_content + said
    texts = [
        form.call(name, json.dumps(told, ensure_ascii=False, separators=(",", ":")))
        for name, told in calls
    ]
    return texts[0] if form.separator is None else said + form.separator.join(texts)


def deltas(text: str, cuts: Sequence[int], index: int = 0) -> list[Delta]:
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [Delta("r", text[a:b], index=index) for a, b in pairwise(at)]


def heard(
    request: GenerationRequest,
    reader: ReaderOf | None,
    told: Sequence[Delta],
    result: GenerationResult,
) -> tuple[list[pb.GenerateStreamResponse], list[StreamEvent[Any]]]:
    """The messages of a stream, and the events that the client makes of them."""
    teller = StreamTeller(request, reader)
    messages = [message for delta in told for message in teller.grown(delta)]
    messages += teller.answered(result)
    options: dict[str, Any] = {} if request.tools is None else {"tools": request.tools.tools}
    events = EventReader[Any](Request("?", **options))
    return messages, [event for message in messages for event in events.read(message)]


@given(
    st.sampled_from([*FORMATS]), st.text("ab é.", max_size=8), CALLS, st.lists(st.integers(0, 300))
)
def test_the_events_of_an_answer_are_the_answer(
    name: str, said: str, calls: list[tuple[str, Any]], cuts: list[int]
) -> None:
    form = FORMATS[name]
    text = written(form, said, calls)
    reader = reader_of(ASKED, form)
    assert reader is not None
    result = GenerationResult(text, (), FinishReason.STOP, Usage(sampled_tokens=3), 0.0)
    messages, events = heard(ASKED, reader, deltas(text, cuts), result)
    whole = messages[-1].answer
    assert "".join(message.delta for message in messages) == whole.text == strip_marks(text)
    assert "".join(e.text for e in events if isinstance(e, TextGrown)) == whole.content
    told = [ToolCall(call.name, call.arguments, call.id) for call in whole.tool_calls]
    assert [event.call for event in events if isinstance(event, CallEnded)] == told
    begun = [(event.id, event.name) for event in events if isinstance(event, CallBegun)]
    assert begun == [(call.id, call.name) for call in told]
    for call in told:
        grown = [e for e in events if isinstance(e, ArgumentsGrown) and e.id == call.id]
        assert "".join(event.text for event in grown) == call.arguments
        last = [value for event in grown for value in event.values][-1]
        assert (last.pointer, last.value) == ("", json.loads(call.arguments))
    (ended,) = [event for event in events if isinstance(event, AnswerEnded)]
    assert ended is events[-1]
    one = ended.candidate
    assert (one.text, one.content, one.tool_calls) == (whole.text, whole.content, tuple(told))
    assert (one.finish_reason, one.usage) == (FinishReason.STOP, result.usage)
    # The answer that is asked for whole differs in the ids of its calls alone.
    unary = encode_result(result, None, reader)
    assert unary.content == whole.content
    assert [(call.name, call.arguments) for call in unary.tool_calls] == [
        (call.name, call.arguments) for call in told
    ]


@pytest.mark.parametrize("form", [HERMES, LLAMA, QWEN_XML], ids=lambda form: form.name)
def test_a_call_is_told_as_soon_as_it_is_certain(form: ToolFormat) -> None:
    text = form.call("f", '{"a":"Oslo"}')
    teller = StreamTeller(ASKED, reader_of(ASKED, form))
    header = text.partition("Os")[0]
    (first,) = teller.grown(Delta("r", header))
    assert first.pieces[0].WhichOneof("kind") == "call_begin"
    assert first.pieces[0].call_begin.name == "f"
    (second,) = teller.grown(Delta("r", "Os"))
    told = "".join(piece.arguments for piece in (*first.pieces, *second.pieces))
    # A call that is a whole answer may end with any character.
    assert told == ('{"a":"O' if form is LLAMA else '{"a":"Os')
    (third,) = teller.grown(Delta("r", text[len(header) + 2 :]))
    last = teller.answered(GenerationResult(text, (), FinishReason.STOP, Usage(), 0.0))
    pieces = [*first.pieces, *second.pieces, *third.pieces, *last[0].pieces]
    assert "".join(piece.arguments for piece in pieces) == '{"a":"Oslo"}'
    assert pieces[-1].call_end.arguments == '{"a":"Oslo"}'
    # Where a call is a whole answer, only the end of the answer ends it.
    assert bool(last[0].pieces) == (form is LLAMA)


def test_a_call_that_breaks_off_has_no_end_and_is_no_call() -> None:
    text = f"See.{HERMES.call('typed', '{}')}\n{HERMES.header('f')}" + '{"a":"Os'
    result = GenerationResult(text, (), FinishReason.STOP_SEQUENCE, Usage(), 0.0)
    messages, events = heard(ASKED, reader_of(ASKED, HERMES), deltas(text, []), result)
    assert [type(event) for event in events] == [
        *(TextGrown, CallBegun, ArgumentsGrown, CallEnded),
        *(CallBegun, ArgumentsGrown, AnswerEnded),
    ]
    assert [call.name for call in messages[-1].answer.tool_calls] == ["typed"]


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_an_answer_may_be_broken_off_anywhere_in_a_call(form: ToolFormat) -> None:
    """Part of a call's end is then told as arguments, which are no JSON any more."""
    text = form.call("f", '{"b":1,"a":"x"}')
    for cut in range(1, len(text)):
        result = GenerationResult(text[:cut], (), FinishReason.STOP_SEQUENCE, Usage(), 0.0)
        grown = [Delta("r", text[:cut])]
        _, events = heard(ASKED, reader_of(ASKED, form), grown, result)
        assert isinstance(events[-1], AnswerEnded)


def candidate(index: int, text: str) -> CandidateResult:
    return CandidateResult(
        *(index, text, (), FinishReason.STOP),
        score=-1.0,
        usage=Usage(sampled_tokens=index),
        stop_string=text[:1],
    )


def seen(one: CandidateResult | Candidate[Any]) -> tuple[object, ...]:
    return one.text, one.usage, one.finish_reason, one.stop_string


@given(st.permutations([(0, "ab"), (0, "c"), (1, "d"), (1, "ef"), (2, "")]))
def test_several_answers_are_told_apart_in_any_order(order: list[tuple[int, str]]) -> None:
    texts = ["".join(text for index, text in order if index == number) for number in range(3)]
    ends = [max(at for at, one in enumerate(order) if one[0] == number) for number in range(3)]
    told = [
        Delta("r", text, index=index, ended=candidate(index, texts[index]) if at in ends else None)
        for at, (index, text) in enumerate(order)
    ]
    several = tuple(candidate(index, text) for index, text in enumerate(texts))
    result = GenerationResult(
        texts[0], (), FinishReason.STOP, Usage(sampled_tokens=3), 0.0, candidates=several
    )
    request = GenerationRequest("x", n=3, sampling=replace(ASKED.sampling, temperature=1.0))
    messages, events = heard(request, None, told, result)
    grown = [event for event in events if isinstance(event, TextGrown)]
    assert ["".join(e.text for e in grown if e.index == number) for number in range(3)] == texts
    ended = [event for event in events if isinstance(event, AnswerEnded)]
    assert {one.index: seen(one.candidate) for one in ended} == {
        one.index: seen(one) for one in several
    }
    assert [one.index for one in ended] == [order[at][0] for at in sorted(ends)]
    # To a caller from before there were such streams they come whole.
    plain = PlainTeller(request, None)
    assert [message for delta in told for message in plain.grown(delta)] == []
    assert plain.answered(result) == [messages[-1]]


def test_ranked_answers_are_told_whole_at_the_end() -> None:
    several = (replace(candidate(2, "best"), reasoning="hm"), candidate(0, "second"))
    result = GenerationResult("best", (), FinishReason.STOP, Usage(), 0.0, candidates=several)
    request = GenerationRequest(
        "x", n=2, best_of=3, sampling=replace(ASKED.sampling, temperature=1.0)
    )
    _, events = heard(request, None, [], result)
    assert [(type(event), event.index) for event in events] == [
        *((ThoughtsGrown, 2), (TextGrown, 2), (AnswerEnded, 2)),
        *((TextGrown, 0), (AnswerEnded, 0)),
    ]


def test_a_plain_stream_says_what_it_always_said() -> None:
    """Of a caller from before there were others: text with its calls, and no other field."""
    text = HERMES.call("f", "{}")
    result = GenerationResult(text, (), FinishReason.STOP, Usage(), 0.0)
    plain = PlainTeller(ASKED, reader_of(ASKED, HERMES))
    told = [
        *plain.grown(Delta("r", "hm", is_thought=True)),
        *plain.grown(Delta("r", text)),
        *plain.answered(result),
    ]
    assert told[:2] == [
        pb.GenerateStreamResponse(reasoning_delta="hm"),
        pb.GenerateStreamResponse(delta=text),
    ]
    assert [field.name for field, _ in told[2].ListFields()] == ["answer"]


def test_calls_in_a_text_get_the_ids_that_were_told() -> None:
    reader = reader_of(ASKED, HERMES)
    assert reader is not None
    text = "\n".join([HERMES.call("typed", "{}")] * 2)
    _, calls = calls_in(text, reader(), ["call_1"])
    assert calls[0].id == "call_1"
    assert calls[1].id.startswith("call_")
    assert partial(calls_in, text, reader())()[1][0].id != "call_1"
