"""Makes Markdown of docstrings: of lines after ``>>>``, and of blocks after two colons."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

__all__ = ["Markdown"]

_TYPED: Final = re.compile(r"^>>> .*(?:\n(?:>>>|\.\.\.) .*)*", re.MULTILINE)
_BLOCK: Final = re.compile(r"::\n\n(?=    )")


class Markdown(griffe.Extension):
    """Rewrites each docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _BLOCK.sub(":\n\n", obj.docstring.value)
            obj.docstring.value = _TYPED.sub(_fenced, text)


def _fenced(typed: re.Match[str]) -> str:
    return f"\n```python\n{typed[0]}\n```\n"
