"""The table of keywords in ``docs/json-schema-support.md``, made from what the checker goes by.

``python -m guided.json_schema.reader.support docs/json-schema-support.md`` brings it up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from guided.json_schema.reader.keywords import KEYWORDS, Keyword, Role

__all__ = ["with_current_table"]

_START, _END = "<!-- keywords -->\n", "<!-- end of keywords -->\n"

_OUTCOMES = {
    Role.ASSERTION: "enforced",
    Role.APPLICATOR: "enforced",
    Role.IDENTIFIER: "read",
    Role.ANNOTATION: "a note, by specification",
}


def with_current_table(page: str) -> str:
    """The page, the table between its two marks replaced."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return before + _START + "".join(f"{line}\n" for line in _table()) + _END + after


def _table() -> Iterator[str]:
    yield "| keyword | drafts | what becomes of it |"
    yield "|---|---|---|"
    for word in KEYWORDS:
        outcome = _OUTCOMES[word.role] + (f": {word.note}" if word.note else "")
        yield f"| `{word.name}` | {_drafts(word)} | {outcome} |"


def _drafts(word: Keyword) -> str:
    first, last = (draft.label.removeprefix("draft ") for draft in (word.first, word.last))
    return first if first == last else f"{first} to {last}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_current_table(path.read_text()))
