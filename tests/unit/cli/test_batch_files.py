"""Errors in files of requests or results are reported by line and field, before any request."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from guided.cli.batch_requests import digests_of, read_lines
from guided.cli.batch_results import opened_results
from guided.client import Answer, Candidate, RawPrompt, Request, TokenPrompt
from guided.errors import RequestError
from guided.spec import (
    Alternative,
    Beams,
    Choice,
    Ebnf,
    FinishReason,
    JsonOptions,
    Lark,
    Reasoning,
    Regex,
    TokenId,
    TokenLogprobs,
    Usage,
)

PROMPT = '{"prompt": "x"'


def _read(tmp_path: Path, text: str) -> list[Any]:
    file = tmp_path / "in.jsonl"
    file.write_text(text)
    return list(read_lines(file))


def test_a_byte_order_mark_before_the_first_request_says_nothing(tmp_path: Path) -> None:
    text = '{"prompt": "x"}\n{"prompt": "y"}\n'
    plain, marked = (_read(tmp_path, mark + text) for mark in ("", "\ufeff"))
    assert marked == plain
    with pytest.raises(RequestError, match=r"line 2 of .*: this is not JSON that can be read"):
        _read(tmp_path, text.replace("\n", "\n\ufeff", 1))


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ({"prompt": "x"}, Request("x")),
        ({"raw_prompt": "x"}, Request(RawPrompt("x"))),
        ({"tokens": [1, 2]}, Request(TokenPrompt([TokenId(1), TokenId(2)]))),
        (
            {"messages": [{"role": "user", "content": "x"}]},
            Request([{"role": "user", "content": "x"}]),
        ),
        ({"prompt": "x", "schema": {"b": 1, "a": 2}}, Request("x", schema='{"b": 1, "a": 2}')),
        ({"prompt": "x", "schema": True}, Request("x", schema="true")),
        ({"prompt": "x", "regex": "a+"}, Request("x", grammar=Regex("a+"))),
        ({"prompt": "x", "choice": ["a", "b"]}, Request("x", grammar=Choice(["a", "b"]))),
        (
            {"prompt": "x", "grammar": {"lark": "s: A", "start": "s"}},
            Request("x", grammar=Lark("s: A", "s")),
        ),
        (
            {"prompt": "x", "grammar": {"ebnf": "root ::= A"}},
            Request("x", grammar=Ebnf("root ::= A")),
        ),
        (
            {"prompt": "x", "max_tokens": 5, "temperature": 0.5, "stop": ["a"], "deadline": None},
            Request("x", max_tokens=5, temperature=0.5, stop=["a"]),
        ),
        ({"prompt": "x", "logit_bias": {"5": -1}}, Request("x", logit_bias={5: -1})),
        ({"prompt": "x", "n": 2, "beams": {"width": 3}}, Request("x", n=2, beams=Beams(3))),
        ({"prompt": "x", "reasoning": 9}, Request("x", reasoning=9)),
        (
            {"prompt": "x", "reasoning": {"max_tokens": 9, "end": "So:"}},
            Request("x", reasoning=Reasoning(9, end="So:")),
        ),
        (
            {"prompt": "x", "schema": {}, "json_options": {"key_order": "any"}},
            Request("x", schema="{}", json_options=JsonOptions(key_order="any")),
        ),
    ],
)
def test_a_line_is_the_request_of_its_fields(
    tmp_path: Path, line: dict[str, Any], request_: Request[Any]
) -> None:
    (read,) = _read(tmp_path, json.dumps(line))
    assert read.request.specification == request_.specification
    assert (read.number, read.key) == (1, 1)


def test_blank_lines_count_and_are_no_requests(tmp_path: Path) -> None:
    read = _read(tmp_path, f'\n{PROMPT}, "id": "a"}}\n  \n{PROMPT}}}')
    assert [(line.number, line.id, line.key) for line in read] == [(2, "a", "a"), (4, None, 4)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "this is not JSON that can be read: "),
        ("[1]", 'this is no object; write {"prompt": ...}'),
        ("{}", "prompt: nothing is asked; write one of prompt, messages, raw_prompt, tokens"),
        (
            '{"prompt": "x", "raw_prompt": "y"}',
            "prompt: prompt and raw_prompt are given; write one of prompt, messages, raw_prompt,"
            " tokens",
        ),
        ('{"prompt": 5}', "prompt: 5 is no string"),
        ('{"messages": "x"}', "messages: 'x' is no list of messages"),
        ('{"messages": ["x"]}', "messages: message 0 is 'x', which is not a guided.Message; "),
        (f'{PROMPT}, "id": 5}}', "id: 5 is no name; write a string"),
        (f'{PROMPT}, "max_token": 5}}', "max_token: there is no such field; there is max_tokens"),
        (f'{PROMPT}, "max_tokens": "5"}}', "max_tokens: max_tokens '5' is not an integer; pass"),
        (f'{PROMPT}, "temperature": 200}}', "sampling.temperature: temperature 200 is not "),
        (f'{PROMPT}, "regex": 5}}', "regex: 5 cannot be read: it is no string"),
        (f'{PROMPT}, "choice": "ab"}}', "choice: 'ab' cannot be read: it is no list of strings"),
        (f'{PROMPT}, "choice": [5]}}', "choice: [5] cannot be read: it is no string"),
        (f'{PROMPT}, "grammar": "s: A"}}', "grammar: 's: A' is no grammar; write "),
        (f'{PROMPT}, "grammar": {{"lark": "s: A", "root": "s"}}}}', "grammar: {'lark': 's: A', "),
        (f'{PROMPT}, "regex": "a", "choice": ["a"]}}', "grammar: grammar, regex and choice "),
        (f'{PROMPT}, "schema": {{}}, "regex": "a"}}', "grammar: a grammar is given beside a "),
        (f'{PROMPT}, "beams": 3}}', "beams: 3 cannot be read: "),
        (f'{PROMPT}, "beams": {{"width": 2.5}}}}', "beams.width: width 2.5 is not an integer"),
        (f'{PROMPT}, "beams": {{"width": 2, "early_stopping": "no"}}}}', "beams.early_stopping: "),
        (
            f'{PROMPT}, "reasoning": {{"max_tokens": 1.5}}}}',
            "reasoning.max_tokens: max_tokens 1.5 ",
        ),
        (f'{PROMPT}, "max_tokens": 2147483648}}', "max_tokens: max_tokens 2147483648 is above "),
        (
            r'{"prompt": "a\ud800"}',
            r"messages.content: messages.content holds '\ud800' at offset 1",
        ),
        (f'{PROMPT}, "reasoning": {{"a": 1}}}}', "reasoning: {'a': 1} cannot be read: "),
        (
            f'{PROMPT}, "json_options": {{"a": 1}}}}',
            "json_options.a: there is no JSON option 'a'; ",
        ),
        (f'{PROMPT}, "json_options": 1}}', "json_options: 1 cannot be read: "),
        (f'{PROMPT}, "logit_bias": {{"x": 1}}}}', "logit_bias: {'x': 1} cannot be read: invalid"),
    ],
)
def test_an_error_names_the_line_and_the_field(tmp_path: Path, line: str, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        _read(tmp_path, f"{PROMPT}}}\n{line}\n")
    where, _, what = str(caught.value).partition("in.jsonl")
    assert where.startswith("line 2 of ")
    assert what.lstrip(":, ").startswith(text)


def test_two_requests_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(f'{PROMPT}, "id": "a"}}\n{PROMPT}}}\n{PROMPT}, "id": "a"}}\n')
    with pytest.raises(RequestError, match=r"lines 1 and 3 of .* have the id 'a'"):
        digests_of(file)


def test_a_digest_tells_requests_apart_and_not_their_spaces(tmp_path: Path) -> None:
    first, spaced, ordered = _read(
        tmp_path,
        '{"prompt":"x","schema":{"a":1,"b":2}}\n'
        '{"prompt": "x", "schema": {"a": 1, "b": 2}}\n'
        '{"prompt":"x","schema":{"b":2,"a":1}}\n',
    )
    assert first.digest == spaced.digest != ordered.digest


@pytest.mark.parametrize(
    "text",
    [
        "hello\n",
        "[1]\n",
        '{"line": 1}\n',
        "[" * 100_000 + "\n",
        '{"line": [1], "digest": "x", "answer": {}}\n',
        '{"line": 1, "id": [1], "digest": "x", "answer": {}}\n',
        '{"line": 1, "digest": null, "answer": {}}\n',
    ],
)
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text(text)
    with (
        pytest.raises(RequestError, match=r"line 1 of .*out\.jsonl is no result of guided batch"),
        opened_results(file),
    ):
        pass
    assert file.read_text() == text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(RequestError, match=r"nowhere/out cannot be written: No such file"),
        opened_results(tmp_path / "nowhere" / "out"),
    ):
        pass


def test_a_pipe_has_no_requests_that_can_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "in.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(RequestError, match=r"in\.jsonl is no regular file; write the requests to "):
        digests_of(pipe)


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null", "/dev/zero"])
def test_a_device_is_no_file_for_results(device: str) -> None:
    with (
        pytest.raises(RequestError, match=rf"^{device} is no regular file; choose one for the "),
        opened_results(Path(device)),
    ):
        pass


def test_a_pipe_is_no_file_for_results(tmp_path: Path) -> None:
    pipe = tmp_path / "out"
    os.mkfifo(pipe)
    with pytest.raises(RequestError, match=r"out is no regular file; "), opened_results(pipe):
        pass


def _never(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def test_numbers_that_json_does_not_have_are_written_as_the_nearest(tmp_path: Path) -> None:
    """As over HTTP for log-probabilities; the text still has what the model wrote."""
    unlikely = Alternative(TokenId(1), b"b", -math.inf, -math.inf)
    told = TokenLogprobs(TokenId(0), b"a", -math.inf, -0.5, (unlikely,))
    forced = TokenLogprobs(TokenId(0), b"a", None, None)
    text = '{"raw": [-20000.5, 1e999, -1e999, true]}'
    ended = {"value": json.loads(text), "text": text, "finish_reason": FinishReason.COMPLETE}
    one = Candidate(**ended, index=0, num_tokens=2, score=-math.inf, logprobs=(told,))
    answer = Answer(
        **ended, usage=Usage(), seconds=0.1, logprobs=(told, forced), candidates=(one, one)
    )
    (line,) = _read(tmp_path, f'{PROMPT}, "schema": {{}}}}')
    with opened_results(tmp_path / "out") as results:
        results.write(line, answer)
    written = json.loads((tmp_path / "out").read_text(), parse_constant=_never)["answer"]
    most = sys.float_info.max
    assert written["text"] == text
    assert written["value"] == {"raw": [-20000.5, most, -most, True]}
    (first, second), candidate = written["logprobs"], written["candidates"][1]
    assert (first["raw"], first["masked"], first["top"][0]["raw"]) == (-9999.0, -0.5, -9999.0)
    assert (second["raw"], second["masked"]) == (None, None)
    assert (candidate["score"], candidate["logprobs"]) == (-most, [first])
