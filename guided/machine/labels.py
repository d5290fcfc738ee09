"""Numbers of labels, as far as walks know them; what a label means is for each language to say."""

from __future__ import annotations

from typing import Final

__all__ = ["FIRST_UNSURE", "LAST_SURE"]

LAST_SURE: Final = 4
"""Labels up to this one stand only where they may be taken, unless that depends on a text."""
FIRST_UNSURE: Final = LAST_SURE + 1
"""From here on, the stack tells whether a label may be taken."""
