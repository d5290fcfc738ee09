"""Brings guided into an earlier form of the mask benchmark, which imports this file (`--adapter`).

Its programs `masks.py` and `suite.py`, which commands in RESULTS.md name, are `benchmarks.peers`
now; the engines are those of `benchmarks/peers/engines/guided.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import masks

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers.engines import guided


class _Earlier(masks.Adapter):  # type: ignore[misc]
    has_forced = True
    tokenizer: Any

    @property
    def tok(self) -> Any:
        """The tokenizer, by its earlier name."""
        return self.tokenizer


class Guided(guided.Guided, _Earlier):
    """Members in the order of the schema, formats asserted."""


class GuidedAny(guided.GuidedAny, _Earlier):
    """Members in any order, formats as notes."""


class GuidedFormat(guided.GuidedFormat, _Earlier):
    """Members in any order, formats asserted."""
