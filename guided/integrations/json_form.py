"""Sets how JSON is written inside another engine, whose requests cannot say it.

Engines pass only a schema, so it is set once for all requests of a server, in the environment,
which all of its processes share::

    GUIDED_JSON='{"whitespace": "free", "objects": "open"}'

The defaults are those of ``guided serve --http-port``: compact, members in the order of the schema,
and objects closed unless they say that they are open.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from guided.errors import RequestError
from guided.spec import JsonOptions, JsonSchema
from guided.spec.closed_objects import close_objects
from guided.spec.exact_json import read_exact, write_exact

__all__ = ["VARIABLE", "JsonForm"]

VARIABLE: Final = "GUIDED_JSON"
_OBJECTS: Final = "objects"
_WORDS: Final = ("closed", "open")


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How a host's JSON is written."""

    options: JsonOptions
    closes_objects: bool = True
    """Whether objects take only members that they name, where a schema leaves that open."""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> JsonForm:
        """Read ``GUIDED_JSON``; raises RequestError for an invalid value."""
        text = environment.get(VARIABLE, "").strip()
        if not text:
            return cls(JsonOptions())
        known = [field.name for field in fields(JsonOptions)]
        try:
            given = json.loads(text)
        except ValueError as error:
            raise _wrong(f"is not JSON: {error}", known) from error
        if not isinstance(given, dict):
            raise _wrong("is no object", known)
        if unknown := given.keys() - {*known, _OBJECTS}:
            raise _wrong(f"has {min(unknown)!r}", known)
        objects = given.pop(_OBJECTS, "closed")
        if objects not in _WORDS:
            raise _wrong(f"says {objects!r} of objects, not {' or '.join(_WORDS)}", known)
        return cls(JsonOptions(**given), objects == "closed")

    def schema(self, given: object) -> JsonSchema:
        """Return the constraint of a schema, given as text or parsed."""
        if not isinstance(given, str):
            return JsonSchema(write_exact(self._held(given)), self.options)
        try:
            read = read_exact(given)
        except (ValueError, RecursionError):
            return JsonSchema(given, self.options)  # its reader reports what is wrong, and where
        held = self._held(read)
        return JsonSchema(given if held == read else write_exact(held), self.options)

    def _held(self, schema: Any) -> Any:
        return close_objects(schema) if self.closes_objects and isinstance(schema, dict) else schema


def _wrong(what: str, known: list[str]) -> RequestError:
    return RequestError(
        f"the variable {VARIABLE} {what}",
        field=VARIABLE,
        hint=f"it is an object of JSON; known are {', '.join(known)} and {_OBJECTS}",
    )
