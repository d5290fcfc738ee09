"""Makes Markdown of docstrings: sessions of the interpreter, and blocks after two colons."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

__all__ = ["Markdown"]

_SESSION: Final = re.compile(r"^>>> .*(?:\n(?:>>>|\.\.\.) .*)*", re.MULTILINE)
_BLOCK: Final = re.compile(r"::\n\n(?=    )")


class Markdown(griffe.Extension):
    """Rewrites each docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _BLOCK.sub(":\n\n", obj.docstring.value)
            obj.docstring.value = _SESSION.sub(_fenced, text)


def _fenced(session: re.Match[str]) -> str:
    return f"\n```python\n{session[0]}\n```\n"
