"""Calls of custom tools in every format: what the masks allow is read as inputs of grammars."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageCustomToolCall
from openai.types.responses import Response, ResponseCustomToolCall

from guided.constraint import ConstraintCompiler
from guided.errors import LimitExceededError, RequestError, UnsatisfiableError
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import tokens_of
from guided.model.untemplated_tools import describe_tool
from guided.spec import GenerationRequest, Lark, Message, Regex, TokenId, Tool, ToolCall, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import FORMATS, ToolFormat, mark
from guided.wire_request import decode_request, encode_request
from guided_service.call_reader import Argument, CallBegun, CallReader
from guided_service.http.asked import Asked, Shown
from guided_service.http.errors import refusal_of
from guided_service.input_reader import InputReader
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary
from tests.service.test_http_fields import asked, refusal
from tests.service.test_http_honoured import RESULT

SIGNS = sorted({name for form in FORMATS.values() for name in form.special_tokens})
PIECES = (
    *JSON_PIECES,
    b"\n</parameter>\n",
    b"</arg_value>\n",
    b"input:",
    b"+ab\n",
    b"</tool_call>",
)
VOCABULARY = tiny_vocabulary(PIECES, special=SIGNS)
COMPILER = ConstraintCompiler(VOCABULARY)
MARKED = {VOCABULARY.named[name]: mark(name) for name in SIGNS}

PATCH = 'start: "*** Begin\\n" line+ "*** End"\nline: /[+-]/ /[^\\n]*/ "\\n"'
TERM = 'start: start "+" start | "(" start ")" | /[0-9]+/'
WORDS = r'(?:[a-z"\\<>/\n]+;)+'


def is_term(text: str) -> bool:
    """Whether Python reads a text as a sum of numbers and brackets."""
    try:
        compile(re.sub(r"[0-9]+", "1", text), "term", "eval")
    except SyntaxError:
        return False
    return re.fullmatch(r"[0-9+()]+", text) is not None and "++" not in text and "(+" not in text


INPUTS: dict[str, Callable[[str], bool]] = {
    "patch": lambda text: bool(re.fullmatch(r"\*{3} Begin\n(?:[+-][^\n]*\n)+\*{3} End", text)),
    "term": is_term,
    "words": lambda text: bool(re.fullmatch(WORDS, text)),
    "say": lambda _: True,
}
"""Whether a text is an input, for each custom tool."""


def custom(name: str, syntax: str | None = None, definition: str = "") -> dict[str, Any]:
    grammar = {"syntax": syntax, "definition": definition}
    form = {} if syntax is None else {"format": {"type": "grammar", "grammar": grammar}}
    return {"type": "custom", "custom": {"name": name, **form}}


FUNCTION = {
    "type": "function",
    "function": {"name": "f", "parameters": {"properties": {"input": {"type": "string"}}}},
}
TOOLS = [
    FUNCTION,
    custom("patch", "lark", PATCH),
    custom("term", "lark", TERM),
    custom("words", "regex", WORDS),
    custom("say"),
]


def flat(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool of a chat as responses have it."""
    inner = dict(tool[tool["type"]])
    if "format" in inner:
        inner["format"] = {"type": "grammar", **inner["format"]["grammar"]}
    return {"type": tool["type"], **inner}


FACES = {"chat": TOOLS, "responses": [*map(flat, TOOLS)]}


def walked(request: GenerationRequest, form: ToolFormat, rng: random.Random, length: int) -> str:
    """The text of a random answer as engines send it, closed by the shortest end."""
    assert request.tools is not None
    constraint = with_calls(request.tools, request.constraint, form)
    matcher, tokens = COMPILER.start(constraint), list[TokenId]()
    while not matcher.is_complete and len(tokens) < length:
        allowed = [TokenId(int(token)) for token in tokens_of(matcher.mask()) if token]
        if not allowed:
            break
        tokens.append(rng.choice(allowed))
        matcher = matcher.advance(tokens[-1])
    tokens += matcher.shortest_completion()
    pieces = [MARKED.get(t, "").encode() or VOCABULARY.token_bytes[t] or b"" for t in tokens]
    return b"".join(pieces).decode(errors="replace")


def whole(call: Asked, form: ToolFormat, text: str) -> dict[str, Any]:
    """The body of an answer with this text."""
    made: Any = call.form(Shown("id", 0, "m", form)).whole(replace(RESULT, text=text))
    return dict(made)


def chunks(call: Asked, form: ToolFormat, text: str, cuts: Iterable[int]) -> list[dict[str, Any]]:
    """The events of an answer whose text comes in pieces."""
    told = call.form(Shown("id", 0, "m", form))
    pieces = [told.grown(text[a:b]) for a, b in pairwise([0, *sorted(cuts), len(text)])]
    events = b"".join([*pieces, told.ended(replace(RESULT, text=text))]).decode()
    data = [line[6:] for line in events.splitlines() if line.startswith("data: {")]
    return [json.loads(one) for one in data]


def calls_of_chat(body: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The kind, the name, and what is said, of each call."""
    found: list[tuple[str, str, str]] = []
    for call in ChatCompletion.model_validate(body).choices[0].message.tool_calls or ():
        if isinstance(call, ChatCompletionMessageCustomToolCall):
            found.append((call.type, call.custom.name, call.custom.input))
        else:
            found.append((call.type, call.function.name, call.function.arguments))
    return found


def calls_of_chunks(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for event in events:
        for call in event["choices"][0]["delta"].get("tool_calls", ()):
            kind, said = ("custom", "input") if "custom" in call else ("function", "arguments")
            if "id" in call:
                assert call["index"] == len(found)
                found.append((call["type"], call[kind]["name"], call[kind][said]))
            else:
                begun = found[call["index"]]
                assert begun[0] == kind
                assert call[kind].keys() == {said}
                found[call["index"]] = (*begun[:2], begun[2] + call[kind][said])
    return found


def calls_of_response(body: dict[str, Any]) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for item in Response.model_validate(body).output:
        if isinstance(item, ResponseCustomToolCall):
            found.append(("custom", item.name, item.input))
        elif item.type == "function_call":
            found.append(("function", item.name, item.arguments))
    return found


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("choice", ["required", "auto", "term", "patch", "words"])
def test_what_the_masks_allow_is_read_as_inputs_of_the_grammars(name: str, choice: str) -> None:
    form, rng, names = FORMATS[name], random.Random(f"{name}{choice}"), set[str]()
    chosen = {"type": "custom", "custom": {"name": choice}} if choice in INPUTS else choice
    chat = asked("chat", tools=TOOLS, tool_choice=chosen)
    flat_choice = {"type": "custom", "name": choice} if choice in INPUTS else choice
    response = asked("responses", tools=FACES["responses"], tool_choice=flat_choice)
    assert response.request.tools == chat.request.tools
    for _ in range(20):
        text = walked(chat.request, form, rng, rng.choice([10, 40, 90]))
        calls = calls_of_chat(whole(chat, form, text))
        assert calls or choice == "auto"
        for kind, called, said in calls:
            names.add(called)
            if kind == "function":
                assert isinstance(json.loads(said), dict)
            else:
                assert INPUTS[called](said), said
        cuts = [rng.randrange(len(text) + 1) for _ in range(rng.choice([0, 5, 200]))]
        assert calls_of_chunks(chunks(chat, form, text, cuts)) == calls
        assert calls_of_response(whole(response, form, text)) == calls
        events = chunks(response, form, text, cuts)
        assert calls_of_response(events[-1]["response"]) == calls
        done = [e["input"] for e in events if e["type"] == "response.custom_tool_call_input.done"]
        assert done == [said for kind, _, said in calls if kind == "custom"]
        grown = [e for e in events if e["type"] == "response.custom_tool_call_input.delta"]
        assert "".join(e["delta"] for e in grown) == "".join(done)
    if choice in INPUTS:
        assert names == {choice}
    if choice == "required":
        assert len(names) >= 4


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_is_written_as_the_template_writes_it_back(name: str) -> None:
    """The arguments of the call are those of a function with one text."""
    form, text = FORMATS[name], '*** Begin\n+say "\\" <b>\n*** End'
    use = ToolUse((Tool("patch", input=Lark(PATCH)),), "required")
    written = form.call("patch", json.dumps({"input": text}, separators=(",", ":")))
    state = COMPILER.start(with_calls(use, None, form))
    by_mark = {sign: token for token, sign in MARKED.items()}
    for piece in re.split(f"({'|'.join(map(re.escape, by_mark))})", written):
        tokens = [by_mark[piece]] if piece in by_mark else [TokenId(1 + b) for b in piece.encode()]
        for token in tokens:
            state = state.advance(token)
    assert state.is_accepting
    reader = CallReader(form, inputs={"patch"}, texts={"patch": {"input": False}})
    told = [*reader.read(written), *reader.end()]
    assert told[0] == CallBegun("patch")
    assert "".join(piece.text for piece in told[1:] if isinstance(piece, Argument)) == text


def test_the_model_is_told_of_one_text_and_its_grammar() -> None:
    use = asked("chat", tools=TOOLS).request.tools
    assert use is not None
    told = {tool.name: describe_tool(tool)["function"]["parameters"] for tool in use.tools}
    for name, definition in (("patch", PATCH), ("term", TERM), ("words", WORDS)):
        assert definition in told[name]["properties"]["input"]["description"]
        assert told[name]["required"] == ["input"]
    assert told["say"]["properties"] == {"input": {"type": "string"}}


# Input


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (['{"input":"', "a", 'b"}'], ["", "a", "b"]),
        (['{"in', 'put":"a', '"', "}"], ["", "a", "", ""]),
        (['{"input":"a\\', "n\\u00", '1fb"}'], ["a", "\n", "\x1fb"]),
        (['{"input":"\\ud83d', "\\ude", '00"}'], ["", "", "😀"]),
        (['{"input":"\\\\', '\\"', '"}'], ["\\", '"', ""]),
        (['{"input":""}'], [""]),
        (['{"input":"a\\'], ["a"]),
    ],
)
def test_an_input_grows_by_whole_characters(pieces: list[str], told: list[str]) -> None:
    reader = InputReader()
    assert [reader.read(piece) for piece in pieces] == told


# Requests


@pytest.mark.parametrize("face", FACES)
def test_the_same_tools_come_from_both_forms(face: str) -> None:
    use = asked(face, tools=FACES[face]).request.tools
    assert use is not None
    function, *others = use.tools
    assert function.input is None
    assert [tool.input for tool in others] == [Lark(PATCH), Lark(TERM), Regex(WORDS), None]


CUSTOM = custom("c", "lark", 'start: "a"')
CHAT_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name"),
    ({"tools": [{"type": "custom", "name": "c"}]}, "tools[0].name"),
    ({"tools": [custom("c d")]}, "tools[0].custom.name"),
    ({"tools": [custom("c", "gbnf", "a")]}, "tools[0].custom.format.grammar.syntax"),
    (
        {"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "json"}}}]},
        "tools[0].custom.format.type",
    ),
    (
        {"tools": [{"type": "custom", "custom": {"name": "c", "parameters": {}}}]},
        "tools[0].custom.parameters",
    ),
    ({"tools": [FUNCTION, custom("f")]}, "tools"),
    (
        {"tools": [CUSTOM], "tool_choice": {"type": "custom", "custom": {"name": "d"}}},
        "tool_choice",
    ),
    (
        {"tools": [CUSTOM], "tool_choice": {"type": "function", "function": {"name": "c"}}},
        "tool_choice",
    ),
    ({"tools": [CUSTOM], "tool_choice": {"type": "custom"}}, "tool_choice.custom"),
    ({"tools": [CUSTOM], "guided_regex": "a"}, "guided_regex"),
    (
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "c"}}],
                }
            ]
        },
        "messages[0].tool_calls[0].custom.input",
    ),
]


@pytest.mark.parametrize(("fields", "named"), CHAT_REFUSED)
def test_a_wrong_form_is_an_error_that_names_the_field(fields: dict[str, Any], named: str) -> None:
    assert refusal("chat", **fields).field == named


CALL_ITEM = {"type": "custom_tool_call", "call_id": "1", "name": "c", "input": "a"}
RESPONSES_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools": [CUSTOM]}, "tools[0].custom"),
    (
        {"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar"}}]},
        "tools[0].format.syntax",
    ),
    (
        {"tools": [flat(CUSTOM)], "tool_choice": {"type": "function", "name": "c"}},
        "tool_choice",
    ),
    (
        {"input": [CALL_ITEM, {"type": "function_call_output", "call_id": "1", "output": "x"}]},
        "input[1].type",
    ),
    (
        {"input": [{"type": "custom_tool_call_output", "call_id": "1", "output": "x"}]},
        "input[0].call_id",
    ),
    ({"input": [{**CALL_ITEM, "name": "c d"}]}, "input[0]"),
]


@pytest.mark.parametrize(("fields", "named"), RESPONSES_REFUSED)
def test_a_wrong_form_of_a_response_is_an_error_that_names_the_field(
    fields: dict[str, Any], named: str
) -> None:
    assert refusal("responses", **fields).field == named


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_among_some_tools_may_name_custom_ones(mode: str) -> None:
    named = [
        {"type": "custom", "custom": {"name": "term"}},
        {"type": "function", "function": {"name": "f"}},
    ]
    allowed = {"mode": mode, "tools": named}
    chat = asked(
        "chat",
        tools=TOOLS,
        tool_choice={"type": "allowed_tools", "allowed_tools": allowed},
    )
    response = asked(
        "responses",
        tools=FACES["responses"],
        tool_choice={"type": "allowed_tools", "mode": mode, "tools": [*map(flat, named)]},
    )
    for one in (chat, response):
        use = one.request.tools
        assert use is not None
        assert ([tool.name for tool in use.tools], use.choice) == (["f", "term"], mode)


def test_calls_and_results_go_back_as_those_of_a_function_with_one_text() -> None:
    said = 'a "b"\n\\é'
    arguments = json.dumps({"input": said}, ensure_ascii=False, separators=(",", ":"))
    told = (
        Message("assistant", "", (ToolCall("c", arguments, "1"),)),
        Message("tool", "x", tool_call_id="1"),
    )
    chat = asked(
        "chat",
        messages=[
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "1", "type": "custom", "custom": {"name": "c", "input": said}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ],
    )
    output = {"type": "custom_tool_call_output", "call_id": "1", "output": "x"}
    response = asked("responses", input=[{**CALL_ITEM, "input": said}, output])
    assert chat.request.prompt == response.request.prompt == told


def test_a_request_with_inputs_is_the_same_on_both_sides_of_the_wire() -> None:
    request = asked("chat", tools=TOOLS).request
    assert decode_request(encode_request(request)) == request


# Faults of grammars


@pytest.mark.parametrize(
    ("face", "place"),
    [
        ("chat", "tools[1].custom.format.grammar.definition"),
        ("responses", "tools[1].format.definition"),
    ],
)
@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "gemma"])
def test_a_grammar_with_a_fault_is_named_with_its_place(face: str, place: str, name: str) -> None:
    tools = [FUNCTION, custom("c.d", "lark", 'start: "a"\n  | b')]
    call = asked(face, tools=tools if face == "chat" else [*map(flat, tools)])
    assert call.request.tools is not None
    with pytest.raises(RequestError) as caught:
        COMPILER.start(with_calls(call.request.tools, None, FORMATS[name]))
    told: Any = refusal_of(caught.value, 1.0, call.came_from).body["error"]
    assert told["param"] == place
    assert told["code"] == "invalid_constraint"
    assert told["message"].startswith(f"in {place}: line 2, column 5: ")


@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "gemma"])
@pytest.mark.parametrize(
    ("definition", "error", "told"),
    [
        # What only its automaton shows.
        ('start: "a" b\nb: "x" b', UnsatisfiableError, "no text"),
        ("start: /[ab]*a[ab]{20}/", LimitExceededError, "more than"),
    ],
)
def test_what_only_the_automaton_of_an_input_shows_names_the_input(
    definition: str, error: type[RequestError], told: str, name: str
) -> None:
    """Also where other tools are fine, if the limit is one of the whole constraint."""
    others = [] if error is UnsatisfiableError else [*TOOLS]
    tools = [*others, custom("c.d", "lark", definition)]
    call = asked("chat", tools=tools, tool_choice="required")
    assert call.request.tools is not None
    with pytest.raises(error, match=told) as caught:
        COMPILER.start(with_calls(call.request.tools, None, FORMATS[name]))
    assert caught.value.field == "tools.c.d.input"
    body: Any = refusal_of(caught.value, 1.0, call.came_from).body["error"]
    assert body["param"] == f"tools[{len(others)}].custom.format.grammar.definition"


@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "gemma"])
@pytest.mark.parametrize("choice", ["auto", "required", "c.d"])
def test_an_input_without_a_text_is_refused_beside_others_as_alone(choice: str, name: str) -> None:
    tools = [*TOOLS, custom("c.d", "lark", 'start: "a" b\nb: "x" b')]
    named = {"type": "custom", "custom": {"name": "c.d"}} if choice == "c.d" else choice
    call = asked("chat", tools=tools, tool_choice=named)
    assert call.request.tools is not None
    with pytest.raises(UnsatisfiableError, match="no text satisfies the grammar") as caught:
        COMPILER.start(with_calls(call.request.tools, None, FORMATS[name]))
    assert caught.value.field == "tools.c.d.input"
    told: Any = refusal_of(caught.value, 1.0, call.came_from).body["error"]
    place = f"tools[{len(TOOLS)}].custom.format.grammar.definition"
    assert told["param"] == place
    assert told["message"].startswith(f"in {place}: no text satisfies the grammar")


@pytest.mark.parametrize(("name", "is_refused"), [("hermes", False), ("qwen_xml", True)])
def test_an_input_that_always_holds_the_end_of_its_format_is_refused_beside_others(
    name: str, is_refused: bool
) -> None:
    tools = [*TOOLS, custom("c", "regex", "a\n</parameter>\nb")]
    call = asked("chat", tools=tools)
    assert call.request.tools is not None
    constraint = with_calls(call.request.tools, None, FORMATS[name])
    if is_refused:
        with pytest.raises(UnsatisfiableError, match=r"in tools.c.input: no text"):
            COMPILER.start(constraint)
    else:
        COMPILER.start(constraint)


@pytest.mark.parametrize("definition", ["", "<", "(a|\n</parameter>\n)+", "<a>|[<>]"])
def test_an_input_with_any_text_is_called_beside_others(definition: str) -> None:
    """Also if its only text is empty, or holds part of what ends it."""
    tools = [*TOOLS, custom("c", "regex", definition)]
    call = asked("chat", tools=tools, tool_choice="required")
    assert call.request.tools is not None
    COMPILER.start(with_calls(call.request.tools, None, FORMATS["qwen_xml"]))


def test_a_limit_that_only_tools_together_reach_names_none_of_them() -> None:
    limits = ConstraintLimits(compile_work=40_000)
    compiler = ConstraintCompiler(VOCABULARY, limits)
    one = Tool("a", input=Lark(PATCH))
    compiler.start(with_calls(ToolUse((one,), "required"), None, FORMATS["hermes"]))
    many = tuple([Tool(f"f{n}", parameters={"enum": [{"a": n}]}) for n in range(100)])
    with pytest.raises(LimitExceededError) as caught:
        compiler.start(with_calls(ToolUse((one, *many), "required"), None, FORMATS["hermes"]))
    assert caught.value.field == "constraint"


def test_a_tool_has_parameters_or_an_input() -> None:
    text: Any = "a"
    for others in ({"parameters": "{}", "input": Regex("a")}, {"input": text}):
        with pytest.raises(RequestError) as caught:
            Tool("c", **others)
        assert caught.value.field == "tools"
