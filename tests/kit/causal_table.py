"""The page of docs that says which causal types run: ``python -m tests.kit.causal_table``."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import transformers

from tests.engine.test_load_drafters import save
from tests.kit.causal_types import CAUSAL_TYPES, VOCABULARY
from tests.kit.causal_verdicts import Verdict, verdict_on

__all__ = ["PAGE", "read_table", "save_draft", "table_text"]

PAGE = Path(__file__).parents[2] / "docs" / "model-types.md"
_HEAD = """# Types of models

Every type for which transformers {version} has a causal model is tried as a user would run it:
a tiny model with random weights is saved to a folder and loaded by `load_engine` in float32 on the
CPU. Then it answers a mixed batch twice, with forced runs and with trees of guesses by another
model. A type is **equal** if every token is that of its own `generate()`. The others are refused
before they answer, with the reason given here. {equal} of {all} are equal, and none answers
differently.

This page is written by `python -m tests.kit.causal_table`. `make test-long` tries all types,
`make test` some of them. What is found out about a model when it is loaded, and how, is in
[decision 18](decisions/0018-what-a-probe-shows.md).

| type | | reason |
|---|---|---|
"""
_ROW = re.compile(r"^\| `([^`]+)` \| (equal|refused) \| (.*) \|$")


def table_text(verdicts: Sequence[Verdict]) -> str:
    """The page, types in their order."""
    equal = sum(verdict.is_equal for verdict in verdicts)
    head = _HEAD.format(version=transformers.__version__, equal=equal, all=len(verdicts))
    return head + "".join(
        f"| `{verdict.model_type}` | {'equal' if verdict.is_equal else 'refused'} "
        f"| {_escaped(verdict.reason)} |\n"
        for verdict in verdicts
    )


def read_table(text: str) -> dict[str, tuple[bool, str]]:
    """By type, whether it is equal, and the reason given on the page."""
    rows = filter(None, map(_ROW.match, text.splitlines()))
    return {row[1]: (row[2] == "equal", row[3]) for row in rows}


def _escaped(reason: str) -> str:
    # The amount depends on the processor.
    plain = re.sub(r" by [\d.]+%", "", reason)
    return " ".join(plain.replace("|", "\\|").split())


def save_draft(folder: Path) -> Path:
    """The model that drafts for all of them."""
    save(folder, width=VOCABULARY)
    return folder


def _verdicts(types: Iterable[str]) -> Iterable[Verdict]:
    with tempfile.TemporaryDirectory() as work:
        draft = save_draft(Path(work, "draft"))
        for model_type in types:
            sys.stderr.write(f"{model_type}\n")
            yield verdict_on(model_type, Path(work, model_type), draft)


if __name__ == "__main__":
    PAGE.write_text(table_text(list(_verdicts(CAUSAL_TYPES))), encoding="utf-8")
