"""Reads the input of a custom tool out of the arguments of a call, as they grow.

::

    {"inp | ut":"1+ | 1\\ | n"}     the JSON of the arguments
          |         1+ | 1  | ⏎       the input
"""

from __future__ import annotations

import json
import re
from typing import Final

from guided.spec.tools import INPUT

__all__ = ["InputReader"]

_BEGIN: Final = f'{{"{INPUT}":"'
_HIGH: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_CHARACTERS: Final = re.compile(
    rf'(?:[^"\\]++|\\[^u]|(?!{_HIGH})\\u[0-9a-fA-F]{{4}}|{_HIGH}\\u[0-9a-fA-F]{{4}})*+'
)
"""Whole characters of a JSON string: not half of an escape, nor one of the two of a pair."""


class InputReader:
    """Reads the arguments of one call; looks at each character a bounded number of times."""

    def __init__(self) -> None:
        self._has_begun = False
        self._rest = ""
        """The beginning of the arguments, or of an escape, of which more is to come."""

    def read(self, text: str) -> str:
        """Return what more of the arguments adds to the input."""
        self._rest += text
        if not self._has_begun:
            if len(self._rest) < len(_BEGIN):
                return ""
            self._has_begun, self._rest = True, self._rest.removeprefix(_BEGIN)
        whole = _CHARACTERS.match(self._rest)
        assert whole is not None, "the expression matches the empty text"
        self._rest = self._rest[whole.end() :]
        told: str = json.loads(f'"{whole[0]}"')
        return told
