"""Each decision has its own number, in its file name and in its heading."""

from __future__ import annotations

from pathlib import Path

DECISIONS = sorted((Path(__file__).parents[2] / "docs" / "decisions").glob("*.md"))


def test_decisions_are_numbered_on() -> None:
    numbers = [int(page.name.split("-")[0]) for page in DECISIONS]
    assert numbers == [*range(1, len(DECISIONS) + 1)]
    for number, page in zip(numbers, DECISIONS, strict=True):
        assert page.read_text("utf-8").startswith(f"# {number}. "), page.name
