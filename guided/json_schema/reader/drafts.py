"""The drafts of JSON Schema, oldest first."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["LATEST", "Draft"]


class Draft(IntEnum):
    """A version of the specification; what changed between two is asked with ``<`` and ``>=``."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020

    @property
    def uri(self) -> str:
        """What ``$schema`` calls it, without the empty fragment."""
        if self <= Draft.DRAFT_7:
            return f"http://json-schema.org/draft-0{self.value}/schema"
        return f"https://json-schema.org/draft/{self.label}/schema"

    @property
    def label(self) -> str:
        """How people call it."""
        return {2019: "2019-09", 2020: "2020-12"}.get(self.value, f"draft {self.value}")


LATEST = Draft.DRAFT_2020_12
