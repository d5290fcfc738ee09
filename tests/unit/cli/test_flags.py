"""Flags derived from options are read as these options."""

from __future__ import annotations

import inspect

import pytest
import typer

from guided.cli.asked_flags import read_thought_flags
from guided.cli.check import check
from guided.cli.flags import read_beams, read_json_options, read_logit_bias
from guided.cli.generate import generate, logprob_lines
from guided.errors import RequestError
from guided.spec import (
    FREE_WHITESPACE,
    Alternative,
    Beams,
    FormatMode,
    JsonOptions,
    KeyOrder,
    Reasoning,
    Spelling,
    TokenId,
    TokenLogprobs,
    UnknownKeywords,
)

FLAGS = (
    "whitespace",
    "key_order",
    "format",
    "spelling",
    "max_string_length",
    "max_number_digits",
    "unknown_keywords",
    "max_array_items",
    "max_additional_members",
)


@pytest.mark.parametrize("command", [check, generate])
def test_without_flags_the_options_are_those_of_python(command: object) -> None:
    assert callable(command)
    parameters = inspect.signature(command).parameters
    defaults = {name: parameters[name].default for name in FLAGS}
    assert read_json_options(defaults) == JsonOptions()


def test_words_and_numbers_are_read() -> None:
    words = (KeyOrder.ANY, FormatMode.ANNOTATE, Spelling.ANY)
    said = ("free", *words, "12", "unbounded", UnknownKeywords.REFUSE, 7, 8)
    options = read_json_options(dict(zip(FLAGS, said, strict=True)))
    assert options == JsonOptions(
        FREE_WHITESPACE, "any", "annotate", "any", 12, None, "refuse", 7, 8
    )
    words = (KeyOrder.SCHEMA, FormatMode.ASSERT, Spelling.CANONICAL)
    plain = ("compact", *words, "10000", "20", None, None, None)
    assert read_json_options(dict(zip(FLAGS, plain, strict=True))) == JsonOptions()


@pytest.mark.parametrize("text", ["--5", "-", "5-", "5.0", "", "9" * 5000])
@pytest.mark.parametrize("name", ["whitespace", "max_string_length", "max_number_digits"])
def test_a_bound_that_is_no_number_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(RequestError, match=f"^{name} '{text}' is not an integer"):
        read_json_options({name: text})


def test_beams_are_those_of_the_flags() -> None:
    assert read_beams(None, None, early_stopping=False) is None
    assert read_beams(3, None, early_stopping=False) == Beams(3)
    assert read_beams(3, 0.5, early_stopping=True) == Beams(3, 0.5, True)


@pytest.mark.parametrize(("penalty", "early"), [(1.0, False), (None, True)])
def test_what_is_said_about_no_beams_is_refused(penalty: float | None, early: bool) -> None:
    with pytest.raises(typer.BadParameter, match="need --beams"):
        read_beams(None, penalty, early_stopping=early)


def test_biases_are_read() -> None:
    assert read_logit_bias(["5=-1.5", "0=100"]) == {5: -1.5, 0: 100.0}
    assert read_logit_bias(None) == {}


@pytest.mark.parametrize("pair", ["5", "=1", "a=1", "5=x", "1.5=1", ""])
def test_what_is_no_bias_is_refused(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOKEN=BIAS with two numbers"):
        read_logit_bias([pair])


def test_a_token_has_one_bias() -> None:
    with pytest.raises(typer.BadParameter, match="two biases are given for token 5"):
        read_logit_bias(["5=1", "5=2"])


def test_thoughts_are_those_of_the_flags() -> None:
    assert read_thought_flags(None, "", "") is None
    assert read_thought_flags(0, "", "") == Reasoning(0)
    assert read_thought_flags(9, "Hm: ", "So:") == Reasoning(9, "Hm: ", "So:")
    with pytest.raises(typer.BadParameter, match="need --reasoning"):
        read_thought_flags(None, "", "So:")


def test_log_probabilities_as_lines() -> None:
    top = (
        Alternative(TokenId(7), b" a", -0.5, -0.25),
        Alternative(TokenId(0), b"", -3.0, -2.75),
    )
    logprobs = [
        TokenLogprobs(TokenId(7), b" a", -0.5, -0.25, top),
        TokenLogprobs(TokenId(9), b"\xc3", None, None),
    ]
    assert list(logprob_lines(logprobs)) == [
        "   token       raw    masked  text",
        "       7   -0.5000   -0.2500  ' a'  (' a' -0.2500, (end) -2.7500)",
        "       9    forced            '\\\\xc3'",
    ]
