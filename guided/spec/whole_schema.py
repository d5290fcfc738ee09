"""Constraints that refer to places in a schema, which each of them has as a document."""

from __future__ import annotations

import json
from typing import Final

from guided.errors import LimitExceededError
from guided.spec.constraints import JsonSchema

__all__ = ["MAX_CHARACTERS", "WholeSchema"]

MAX_CHARACTERS: Final = 200_000_000
"""The most characters of the documents of all references together. Each has the whole text, which
is read again for its digest at least; compiling takes far fewer references to a long text."""


class WholeSchema:
    """A schema, as a document of the constraints that refer to it, which have its options."""

    def __init__(self, uri: str, schema: JsonSchema) -> None:
        self._uri = uri
        self._text = schema.text
        self._options = schema.options
        self._characters_left = MAX_CHARACTERS

    def at(self, fragment: str, **beside: object) -> JsonSchema:
        """Return the constraint of the values at a place that also fit the keywords ``beside``.

        By reference, so that a part may refer to any other, and errors name its place. Raises
        LimitExceededError for too many references to a text of this length.
        """
        self._characters_left -= len(self._text)
        if self._characters_left < 0:
            raise LimitExceededError(
                "the arguments have too many parts for so long a schema",
                limit=MAX_CHARACTERS,
                field="tools",
                hint="leave out notes and examples, or have fewer arguments",
            )
        schema = {"$ref": f"{self._uri}#{fragment}", **beside}
        return JsonSchema(json.dumps(schema), self._options, ((self._uri, self._text),))
