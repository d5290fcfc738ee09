"""The programs of examples/ that call a server, run against one without a model."""

from __future__ import annotations

import pytest

import guided
from examples import stream, tools
from guided import testing

CALLS = (
    '<tool_call>\n{"name": "weather", "arguments": {"city":"Oslo"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "convert", "arguments": {"amount":22,"to":"EUR"}}\n</tool_call>'
)
RECIPE = '{"title":"Dal","minutes":30,"ingredients":["lentils","salt"]}'


def test_tools_are_called_and_told_what_they_gave(capsys: pytest.CaptureFixture[str]) -> None:
    with testing.Server(CALLS, "Not very, and 20.") as server:
        tools.main(server.address)
        told = server.requests[-1].prompt
    assert capsys.readouterr().out == (
        'weather {"city":"Oslo"}: 4 degrees in Oslo\n'
        'convert {"amount":22,"to":"EUR"}: 20.00 EUR\n'
        "Not very, and 20.\n"
    )
    assert isinstance(told, tuple)
    results = [one for one in told if one.role == "tool"]
    assert [one.content for one in results] == ["4 degrees in Oslo", "20.00 EUR"]


def test_a_call_that_is_incomplete_is_not_made(capsys: pytest.CaptureFixture[str]) -> None:
    cut = guided.IncompleteAnswerError(
        "the answer was cut short",
        text=CALLS,
        finish_reason=guided.FinishReason.LENGTH_CLOSED,
        usage=guided.Usage(),
    )
    with testing.Server(cut) as server, pytest.raises(SystemExit, match="cut short"):
        tools.main(server.address)
    assert capsys.readouterr().out == ""


def test_a_stream_is_printed_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    with testing.Server(RECIPE) as server:
        stream.main(server.address)
    text, value, cost = capsys.readouterr().out.splitlines()
    assert text == RECIPE
    assert value == "title='Dal' minutes=30 ingredients=['lentils', 'salt']"
    assert cost.startswith("complete, ")
