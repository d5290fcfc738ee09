"""A JSON Schema as text → a ``JsonGrammar``, or an error that names the keyword in the way.

Every schema object becomes a *location*: the shape that its own keywords allow, and the locations
whose shapes are united with it (``$ref``, ``anyOf`` and the like). Locations are lowered from a
queue, each once, so recursion costs nothing; the unions are resolved when all are known.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.frontends.json_schema.forms import check_forms
from guided.frontends.json_schema.keywords import (
    ANNOTATIONS,
    APPLICATORS,
    ASSERTIONS,
    DIALECTS,
    UNSUPPORTED,
    Enforcement,
    Verdict,
)
from guided.frontends.json_schema.location import Location
from guided.frontends.json_schema.reader import Json, child, json_text, read_schema
from guided.frontends.json_schema.unions import unite
from guided.frontends.json_schema.values import ValueReader
from guided.grammar.json_grammar import JsonGrammar

__all__ = ["MAX_LOCATIONS", "LoweredSchema", "lower_json_schema"]

MAX_LOCATIONS = 50_000
_ANYTHING = "true"
"""In place of the pointers of all schemas ``true``, written out or not: they are one location."""


@dataclass(frozen=True, slots=True)
class LoweredSchema:
    """What the front end makes of a schema."""

    grammar: JsonGrammar
    verdicts: tuple[Verdict, ...]
    """One for each occurrence of a keyword, in the order of the schema's own text."""


def lower_json_schema(text: str) -> LoweredSchema:
    """Lower the schema; raises InvalidConstraintError, UnsupportedFeatureError or
    LimitExceededError, each with the JSON pointer of what is in the way.
    """
    lowering = _Lowering(read_schema(text))
    root = lowering.locate("", lowering.document)
    while lowering.queue:
        lowering.lower(lowering.queue.popleft())
    shapes = tuple(unite(lowering.locations, number) for number in range(len(lowering.locations)))
    return LoweredSchema(
        JsonGrammar(
            shapes=shapes,
            pointers=tuple(location.pointer for location in lowering.locations),
            remarks=tuple(location.remark for location in lowering.locations),
            root=root,
        ),
        tuple(sorted(lowering.verdicts.values(), key=lambda verdict: verdict.pointer)),
    )


def _unknown(keyword: str) -> str:
    close = difflib.get_close_matches(keyword, _DEFINED, n=1, cutoff=0.8)
    return "no draft defines it" + (f"; close to {close[0]!r}" if close else "")


_DEFINED = sorted(ASSERTIONS | APPLICATORS | ANNOTATIONS | UNSUPPORTED)


class _Lowering:
    """The work list over one document."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.locations: list[Location] = []
        self.numbers: dict[str, int] = {}
        self.queue: deque[Location] = deque()
        self.verdicts: dict[str, Verdict] = {}

    def locate(self, pointer: str, schema: Json) -> int:
        """The number of the location at ``pointer``, queued for lowering when it is new."""
        if schema is True:
            pointer = _ANYTHING
        if pointer not in self.numbers:
            if not isinstance(schema, dict | bool):
                raise InvalidConstraintError(
                    f"a schema is an object or a boolean, not {json_text(schema)[:40]}",
                    pointer=pointer,
                )
            if len(self.locations) >= MAX_LOCATIONS:
                raise LimitExceededError(
                    f"the schema holds more than {MAX_LOCATIONS} subschemas",
                    limit=MAX_LOCATIONS,
                    pointer=pointer,
                )
            self.numbers[pointer] = len(self.locations)
            self.locations.append(Location(pointer, schema))
            self.queue.append(self.locations[-1])
        return self.numbers[pointer]

    def lower(self, location: Location) -> None:
        """Fill in what the location's own keywords allow and what is united with it."""
        schema, pointer = location.schema, location.pointer
        if isinstance(schema, bool):
            schema = {} if schema else {"enum": []}
        else:
            self._judge(schema, pointer)
        applied = [keyword for keyword in schema if keyword in APPLICATORS]
        asserted = [keyword for keyword in schema if keyword in ASSERTIONS]
        if not applied:
            reader = ValueReader(schema, pointer, self.locate, self._remark(location), self.narrow)
            location.own = reader.shape()
            return
        beside = [keyword for keyword in (*applied, *asserted) if keyword != applied[0]]
        if beside:
            raise UnsupportedFeatureError(
                f"{applied[0]!r} and {beside[0]!r} stand side by side",
                pointer=child(pointer, beside[0]),
                hint="move one of them into the schemas of the other",
            )
        location.united = list(self._applied(applied[0], schema[applied[0]], pointer))
        location.exclusive = applied[0] == "oneOf"

    def _applied(self, keyword: str, value: Json, pointer: str) -> Iterator[int]:
        here = child(pointer, keyword)
        if keyword == "$ref":
            yield self._referenced(value, here)
            return
        if keyword == "allOf" and len(value) > 1:
            raise UnsupportedFeatureError(
                f"allOf joins {len(value)} schemas",
                pointer=here,
                hint="write what they have in common as one schema",
            )
        for index, schema in enumerate(value):
            yield self.locate(child(here, index), schema)

    def _referenced(self, reference: str, pointer: str) -> int:
        """The location that a reference inside the document names (RFC 6901, section 6)."""
        path = unquote(reference.removeprefix("#"))
        if not reference.startswith("#") or (path and not path.startswith("/")):
            raise UnsupportedFeatureError(
                f"$ref {reference!r} leads out of the schema or to an anchor",
                pointer=pointer,
                hint="put what it names under $defs and refer to it as '#/$defs/…'",
            )
        target = self.document
        for token in path.split("/")[1:]:
            if isinstance(target, dict) and isinstance(target.get("$id"), str):
                raise UnsupportedFeatureError(
                    f"$ref {reference!r} leads through a schema with an $id of its own",
                    pointer=pointer,
                    hint="refer to places outside of it only",
                )
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            else:
                raise InvalidConstraintError(
                    f"$ref {reference!r} names nothing in the schema: {name!r} is missing",
                    pointer=pointer,
                )
        return self.locate(path, target)

    def _judge(self, schema: dict[str, Json], pointer: str) -> None:
        """Note what becomes of each keyword; raise for the first that cannot be enforced."""
        check_forms(schema, pointer)
        for keyword, value in schema.items():
            here = child(pointer, keyword)
            if keyword in UNSUPPORTED and not (keyword == "uniqueItems" and value is False):
                raise UnsupportedFeatureError(
                    f"the keyword {keyword!r} cannot be enforced yet",
                    pointer=here,
                    hint="leave it out, and check the answer for it yourself",
                )
            if keyword == "$schema" and str(value).removesuffix("#") not in DIALECTS:
                raise UnsupportedFeatureError(
                    f"the dialect {json_text(value)} is not known",
                    pointer=here,
                    hint="one of " + ", ".join(sorted(DIALECTS)),
                )
            enforced = keyword in ASSERTIONS or keyword in APPLICATORS
            kind = Enforcement.ENFORCED if enforced else Enforcement.ANNOTATION
            note = "" if enforced or keyword in ANNOTATIONS else _unknown(keyword)
            self.verdicts.setdefault(here, Verdict(here, kind, note))

    def narrow(self, pointer: str, enforcement: Enforcement, note: str) -> None:
        """Replace the verdict on a keyword by a more exact one."""
        self.verdicts[pointer] = Verdict(pointer, enforcement, note)

    @staticmethod
    def _remark(location: Location) -> Callable[[str], None]:
        def remark(text: str) -> None:
            location.remark = text

        return remark
