"""Calls that a benchmark finds in unconstrained texts."""

from __future__ import annotations

import pytest

from benchmarks.calls_in_text import calls_in

NAMES = {"area", "math_gcd"}
AREA = {"area": {"base": 3, "unit": "cm"}}
GCD = {"math_gcd": {"a": 4}}
OBJECT = '{"name": "area", "arguments": {"base": 3, "unit": "cm"}}'


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{OBJECT}\n</tool_call>",
        f"Surely:\n```json\n{OBJECT}\n```\nThat is all.",
        OBJECT,
        f"[{OBJECT}, {{",
        '[{"function": "area", "parameters": {"base": 3, "unit": "cm"}}]',
        '{"type": "function", "function": {"name": "area", "arguments": '
        '"{\\"base\\": 3, \\"unit\\": \\"cm\\"}"}}',
        'area(base=3, unit="cm")',
        "[area(base=3, unit='cm')]",
        "Call this:\n```python\narea(base=3, unit='cm')\n```",
        "It is `area(base=3, unit='cm')`, I think.",
        "First I call\narea(base=3, unit='cm')\nand then I am done.",
    ],
)
def test_a_call_is_found_however_it_is_written(text: str) -> None:
    assert calls_in(text, NAMES) == [AREA]


def test_several_calls_are_found_in_their_order() -> None:
    for text in (
        f'{OBJECT}\n{{"name": "math.gcd", "arguments": {{"a": 4}}}}',
        "[area(base=3, unit='cm'), math.gcd(a=4)]",
        "area(base=3, unit='cm')\nmath.gcd(a=4)",
    ):
        assert calls_in(text, NAMES) == [AREA, GCD]


@pytest.mark.parametrize(
    "text",
    [
        "The area is 3 square centimetres.",
        '{"base": 3, "unit": "cm"}',
        "volume(base=3)",
        '{"name": "volume", "arguments": {}}',
        '{"name": "area", "description": "An area.", "parameters": {"type": "object"}}',
        '{"name": "area", "arguments": [3]}',
        '{"name": "area"}',
        "[[[[[[",
    ],
)
def test_what_is_no_call_of_a_function_told_is_none(text: str) -> None:
    assert calls_in(text, NAMES) == []


def test_words_that_are_no_literal_are_kept_and_not_run() -> None:
    assert calls_in("area(base=9 ** 9, unit=cm)", NAMES) == [
        {"area": {"base": "9 ** 9", "unit": "cm"}}
    ]
