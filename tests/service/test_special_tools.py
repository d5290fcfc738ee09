"""Calls of tools in formats with special tokens: the reader reads what the grammar accepts."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.masks.mask import tokens_of
from guided.spec import (
    FinishReason,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Message,
    TokenId,
    Tool,
    ToolUse,
    Usage,
)
from guided.spec.delta import Delta
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HARMONY, HERMES, LLAMA, MISTRAL, ToolFormat, mark, strip_marks
from guided_service.call_reader import (
    Argument,
    CallBegun,
    CallReader,
    Content,
    ReaderOf,
    reader_of,
)
from guided_service.encode import encode_result
from guided_service.stream_teller import PlainTeller, StreamTeller
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary

FORMS = {"mistral": MISTRAL, "harmony": HARMONY}
SIGNS = sorted({name for form in FORMS.values() for name in form.special_tokens})
_PIECES = (*JSON_PIECES, b"[TOOL_CALLS]", b"[ARGS]", b"<|channel|>", b" to=functions.", b"\x01")
VOCABULARY = tiny_vocabulary(_PIECES, special=SIGNS)
COMPILER = ConstraintCompiler(VOCABULARY)
TOOLS = (
    Tool("f", parameters='{"type": "object", "properties": {"a": {"type": "string"}}}'),
    Tool("f.g", parameters='{"type": "object", "properties": {}}'),
)
BESIDE = JsonSchema('{"type": "object", "properties": {"b": {"type": "string", "maxLength": 9}}}')
MARKED = {VOCABULARY.named[name]: mark(name) for name in SIGNS}


def walked(constraint: Any, rng: random.Random, length: int) -> list[TokenId]:
    """Tokens of a random answer, with special ones wherever allowed, up to a shortest end."""
    matcher, tokens = COMPILER.start(constraint), list[TokenId]()
    while not matcher.is_complete and len(tokens) < length:
        allowed = [TokenId(int(token)) for token in tokens_of(matcher.mask()) if token]
        if not allowed:
            break
        special = [token for token in allowed if token in MARKED]
        token = rng.choice(special if special and rng.random() < 0.3 else allowed)
        tokens.append(token)
        matcher = matcher.advance(token)
    return [*tokens, *matcher.shortest_completion()]


def marked(tokens: list[TokenId]) -> str:
    """The text of an answer as the engine sends it."""
    pieces = [MARKED.get(t, "").encode() or VOCABULARY.token_bytes[t] or b"" for t in tokens]
    return b"".join(pieces).decode()


def by_tokens(tokens: list[TokenId], form: ToolFormat) -> tuple[str, list[tuple[str, str]]]:
    """Texts and calls, cut at the special tokens by their ids."""
    parts: list[tuple[str, str]] = [("", "")]
    for token in tokens:
        if token in MARKED:
            parts.append((strip_marks(MARKED[token]), ""))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] + chr(token))
    texts = [
        (name, VOCABULARY.decode([TokenId(ord(c)) for c in text]).decode()) for name, text in parts
    ]
    if form is MISTRAL:
        (_, said), *calls = texts
        return said, [(name, args) for (_, name), (_, args) in pairwise(calls) if _ == "[ARGS]"]
    (_, first), (_, _), (_, last) = texts
    if first:
        return "", [(first.removeprefix(" to=functions."), last)]
    return last, []


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("choice", "beside"),
    [
        ("auto", None),
        ("auto", BESIDE),
        ("required", None),
        ("f.g", None),
        ("none", BESIDE),
        ("none", None),
    ],
)
def test_what_the_grammar_lets_stand_is_read_by_its_tokens(
    name: str, choice: str, beside: JsonSchema | None
) -> None:
    form, rng = FORMS[name], random.Random(5)
    use = ToolUse(TOOLS, choice)
    request = GenerationRequest((Message("user", "x"),), beside, tools=use)
    constraint = with_calls(use, beside, form)
    num_calls = 0
    for _ in range(40):
        tokens = walked(constraint, rng, rng.choice([3, 12, 40]))
        text = marked(tokens)
        make = reader_of(request, form)
        assert make is not None
        reader, said, calls = make(), "", list[tuple[str, str]]()
        cuts = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(5))})
        pieces = [piece for a, b in pairwise(cuts) for piece in reader.read(text[a:b])]
        for piece in (*pieces, *reader.end()):
            match piece:
                case Content(more):
                    said += more
                case CallBegun(called):
                    calls.append((called, ""))
                case Argument(more):
                    calls[-1] = (calls[-1][0], calls[-1][1] + more)
        expected, called_by = by_tokens(tokens, form)
        assert calls == called_by
        assert said.strip() == expected.strip()
        assert reader.num_calls == reader.num_ended == len(calls)
        for _, arguments in calls:
            assert isinstance(json.loads(arguments), dict)
        num_calls += len(calls)
    assert (num_calls > 0) == (choice != "none")


@pytest.mark.parametrize("name", FORMS)
def test_a_text_that_spells_a_sign_calls_nothing(name: str) -> None:
    form = FORMS[name]
    spelled = strip_marks(form.call("f", "{}"))
    said = spelled if form is MISTRAL else f"{form.before_content}{spelled}"
    reader = CallReader(form)
    pieces = [*reader.read(said), *reader.end()]
    assert pieces == [Content(spelled)]


def delta_of(text: str, make: ReaderOf | None) -> str:
    """The text of a plain stream, and of a detailed one."""
    told = [
        teller(GenerationRequest("x"), make).grown(Delta("", text))
        for teller in (PlainTeller, StreamTeller)
    ]
    ((plain,), (detailed,)) = told
    assert plain.delta == detailed.delta
    return plain.delta


@pytest.mark.parametrize("name", FORMS)
def test_callers_see_names_without_marks(name: str) -> None:
    form = FORMS[name]
    text = form.call("f", '{"a":"\\u0001"}')
    result = GenerationResult(text, (), FinishReason.COMPLETE, Usage(), 0.0)

    def make() -> CallReader:
        return CallReader(form)

    told = encode_result(result, None, make)
    assert told.text == strip_marks(text)
    assert [(call.name, call.arguments) for call in told.tool_calls] == [("f", '{"a":"\\u0001"}')]
    assert delta_of(text, make) == strip_marks(text)
    assert delta_of("\x01", None) == "\x01"


def test_stops_do_not_see_what_the_format_puts_first() -> None:
    for begun in (HARMONY.before_content, HARMONY.header("f")):
        before, opening, after = begun.partition(HARMONY.opening)
        assert (bool(before), bool(opening), after) == (True, True, "")
    assert [form.opening for form in (HERMES, LLAMA, MISTRAL)] == ["", "", ""]


@pytest.mark.parametrize("form", [HERMES, LLAMA], ids=["hermes", "llama"])
def test_a_format_without_special_tokens_leaves_texts_as_they_are(form: ToolFormat) -> None:
    text = "a \x01 b"
    result = GenerationResult(text, (), FinishReason.COMPLETE, Usage(), 0.0)

    def make() -> CallReader:
        return CallReader(form)

    told = encode_result(result, None, make)
    assert (told.text, told.content) == (text, text)
    assert delta_of(text, make) == text
