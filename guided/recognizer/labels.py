"""Labels: what the end of a block means to the context around it."""

from __future__ import annotations

__all__ = ["CLOSE", "DONE", "FIRST_OPENER", "FREE_KEY", "ITEM"]

DONE, CLOSE, ITEM, FREE_KEY = range(4)
"""A value is complete, a container closes, an item follows, a free key is written."""
FIRST_OPENER = 4
"""From here on: two labels for each shape, that open it as an object and as an array; then one for
each position among named properties."""
