"""The flags of both commands have the defaults of ``JsonOptions`` and say the same."""

from __future__ import annotations

import inspect

import pytest

from guided.cli.check import check
from guided.cli.flags import read_json_options
from guided.cli.generate import generate
from guided.spec import FREE_WHITESPACE, FormatMode, JsonOptions, KeyOrder, Spelling

FLAGS = (
    "whitespace",
    "key_order",
    "format",
    "spelling",
    "max_string_length",
    "max_number_digits",
)


@pytest.mark.parametrize("command", [check, generate])
def test_without_flags_the_options_are_those_of_python(command: object) -> None:
    assert callable(command)
    parameters = inspect.signature(command).parameters
    defaults = {name: parameters[name].default for name in FLAGS}
    assert read_json_options(defaults) == JsonOptions()


def test_words_and_numbers_are_read() -> None:
    said = ("free", KeyOrder.ANY, FormatMode.ANNOTATE, Spelling.ANY, "12", "unbounded")
    options = read_json_options(dict(zip(FLAGS, said, strict=True)))
    assert options == JsonOptions(FREE_WHITESPACE, "any", "annotate", "any", 12, None)
    said = ("compact", KeyOrder.SCHEMA, FormatMode.ASSERT, Spelling.CANONICAL, "10000", "20")
    assert read_json_options(dict(zip(FLAGS, said, strict=True))) == JsonOptions()
