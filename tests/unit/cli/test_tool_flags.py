"""Flags about tools become tagged text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from guided.cli.constraint_flags import read_tool_flags
from guided.constraint import ConstraintCompiler
from guided.errors import RequestError
from guided.spec import JsonOptions
from guided.spec.tagged import Calls
from tests.kit.walks import BYTES, accepts

_OPTIONS = JsonOptions()
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def _file(folder: Path, content: Any) -> Path:
    file = folder / "tools.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def _call(name: str, arguments: str) -> bytes:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'.encode()


def test_tools_are_called_as_they_are_listed(tmp_path: Path) -> None:
    tools = [
        {"type": "function", "function": {"name": "weather", "parameters": _CITY}},
        {"name": "now", "parameters": {}},
    ]
    tagged = read_tool_flags(_file(tmp_path, tools), Calls.REQUIRED, _OPTIONS, single=True)
    assert tagged is not None
    start = ConstraintCompiler(BYTES).start(tagged)
    weather, now = _call("weather", '{"city":"Oslo"}'), _call("now", "{}")
    assert accepts(start, b"Well: " + weather)
    assert accepts(start, now + b".")
    for text in (b"", b"Well", now + weather, _call("now", '{"a":1}'), _call("later", "{}")):
        assert not accepts(start, text), text


@pytest.mark.parametrize("is_flat", [False, True])
def test_custom_tools_are_called_with_texts_of_their_grammars(
    tmp_path: Path, *, is_flat: bool
) -> None:
    grammar = {"syntax": "regex", "definition": "a+\\n"}
    custom: dict[str, Any] = {"name": "patch", "format": {"type": "grammar", "grammar": grammar}}
    if is_flat:
        custom["format"] = {"type": "grammar", **grammar}
    tools = [
        {"type": "custom", **custom} if is_flat else {"type": "custom", "custom": custom},
        {"name": "now", "parameters": {}},
        {"type": "custom", "custom": {"name": "say"}},
    ]
    tagged = read_tool_flags(_file(tmp_path, tools), Calls.AUTO, _OPTIONS, single=False)
    assert tagged is not None
    start = ConstraintCompiler(BYTES).start(tagged)
    for arguments in (r'{"input":"aa\n"}', r'{"input":"b"}', "{}"):
        assert accepts(start, _call("patch", arguments)) is ("aa" in arguments)
    assert accepts(start, _call("say", r'{"input":"b\"\n"}') + _call("now", "{}"))


def test_options_of_json_are_refused_by_name_beside_custom_tools_alone(tmp_path: Path) -> None:
    say, now = {"type": "custom", "name": "say"}, {"name": "now", "parameters": _CITY}
    options = JsonOptions(whitespace=1, max_string_length=9)
    with pytest.raises(typer.BadParameter) as caught:
        read_tool_flags(_file(tmp_path, [say]), Calls.AUTO, options, single=False)
    assert str(caught.value) == (
        "--whitespace, --max-string-length would change nothing: "
        f"{tmp_path / 'tools.json'} has custom tools alone, whose inputs are texts"
    )
    tagged = read_tool_flags(_file(tmp_path, [say, now]), Calls.AUTO, options, single=False)
    assert tagged is not None
    start = ConstraintCompiler(BYTES).start(tagged)
    assert accepts(start, _call("now", '{ "city":"Oslo"}'))
    assert not accepts(start, _call("now", '{"city":"Oslo Oslo Oslo"}'))


def test_without_tools_there_is_nothing_to_call() -> None:
    assert read_tool_flags(None, Calls.AUTO, _OPTIONS, single=False) is None
    for choice, single in ((Calls.REQUIRED, False), (Calls.AUTO, True)):
        with pytest.raises(typer.BadParameter, match="go with --tools only"):
            read_tool_flags(None, choice, _OPTIONS, single=single)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{]", "is not JSON that can be read: .* line 1 column 3"),
        ("[" * 100_000, "is not JSON that can be read: "),
        ({}, "is not a list of at least one tool"),
        ([], "is not a list of at least one tool"),
        ([{"name": "a"}, {"parameters": {}}], "tool 2 of .* has no name"),
        (["a"], "tool 1 of .* has no name"),
        ([{"function": "a"}], "tool 1 of .* has no name"),
    ],
)
def test_what_is_no_list_of_tools_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        read_tool_flags(_file(tmp_path, content), Calls.AUTO, _OPTIONS, single=False)


def test_a_custom_tool_of_no_grammar_is_refused_by_its_number(tmp_path: Path) -> None:
    custom = {"name": "a", "format": {"type": "grammar", "grammar": {"syntax": "gbnf"}}}
    file = _file(tmp_path, [{"name": "a"}, {"type": "custom", "custom": custom}])
    with pytest.raises(RequestError, match=r"the custom tool 2 of .* has a grammar that is not of"):
        read_tool_flags(file, Calls.AUTO, _OPTIONS, single=False)
