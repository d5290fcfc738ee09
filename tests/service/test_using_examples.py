"""The examples of docs/using.md about streams, tries and tools do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import guided
from guided import testing

PAGE = Path(__file__).parents[2] / "docs" / "using.md"


class Recipe(BaseModel):
    title: str
    steps: list[str]


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


def examples(heading: str) -> list[str]:
    """The blocks of Python below a heading, down to the next one."""
    _, _, below = PAGE.read_text("utf-8").partition(f"\n{heading}\n")
    assert below, f"the page has no heading {heading!r}"
    section = re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


RECIPE = '{"title":"Dal","steps":["Rinse.","Boil."]}'
CALL = '<tool_call>\n{"name": "Weather", "arguments": {"city":"Oslo"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("heading", "replies", "printed"),
    [
        ("## Streaming", [RECIPE], RECIPE),
        (
            "### Values and partial objects",
            [RECIPE, RECIPE],
            "/title Dal\n/steps/0 Rinse.\n/steps/1 Boil.\n/steps ['Rinse.', 'Boil.']\n"
            " {'title': 'Dal', 'steps': ['Rinse.', 'Boil.']}\n",
        ),
        ("### Asking again", ['{"name":"Ada","age":36}'], "1 23\n"),
        ("## Tools", [CALL, "It rains."], "It rains.\n"),
    ],
)
def test_an_example_prints_what_the_page_says(
    heading: str, replies: list[str], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[Any] = []
    with testing.Server(*replies) as server, guided.Client(server.address) as client:
        names = {
            "guided": guided,
            "client": client,
            "BaseModel": BaseModel,
            "Recipe": Recipe,
            "Person": Person,
            "show": lambda *parts: shown.append(parts),
            "look_up": lambda place: f"{place.city}: wet",
        }
        for block in examples(heading):
            exec(block, names)  # noqa: S102 - our own page
    assert capsys.readouterr().out == printed
    if heading == "### Values and partial objects":
        assert ("Da", None) in shown or ("D", None) in shown
        assert shown[-1] == ("Dal", ["Rinse.", "Boil."])
    if heading == "## Tools":
        last = server.requests[-1].prompt[-1]
        assert isinstance(last, guided.Message)
        assert (last.role, last.content) == ("tool", "Oslo: wet")
