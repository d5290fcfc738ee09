"""An option that is misspelt or named otherwise elsewhere is told what it is here."""

from __future__ import annotations

from typing import Any

import pytest

from guided.client import Request


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("max_token", "there is no option 'max_token'; did you mean 'max_tokens'?"),
        ("Schema", "there is no option 'Schema'; did you mean 'schema'?"),
        (
            "choice",
            "there is no option 'choice'; pass a guided.Choice or a Literal as response_model",
        ),
        (
            "regex",
            "there is no option 'regex'; pass a guided.Regex or re.compile(...) as response_model",
        ),
        (
            "system",
            "there is no option 'system'; begin the prompt with guided.Message(\"system\", ...)",
        ),
        ("zzz", "there is no option 'zzz'"),
    ],
)
def test_a_misspelt_option_is_told_its_name(option: str, message: str) -> None:
    given: dict[str, Any] = {option: 1}
    with pytest.raises(TypeError) as caught:
        Request("Hi", **given)
    assert str(caught.value) == message
