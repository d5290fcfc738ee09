"""Random schemas against validators and trials of every token, some built around a document."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from guided.errors import (
    LimitExceededError,
    TokenRejectedError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.masks.compiled import CompiledConstraint
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import FormatMode, JsonOptions, KeyOrder, Spelling
from tests.kit.campaign import FAULT_TEST, Fault, Subject
from tests.kit.cases import compiled
from tests.kit.hard_schemas import hard_document, mutated
from tests.kit.oracles import Oracle, OraclesDifferError
from tests.kit.satisfiable_schemas import schema_around, some_document
from tests.kit.smaller_schemas import smaller_documents
from tests.kit.walks import BYTES, END, PIECES, accepts, random_walk, tried
from tests.kit.wide_schemas import wide_schema
from tests.kit.writing import ANY_WAY, SCHEMA_ORDER, in_every_order

__all__ = ["SCHEMA_SUBJECTS", "MaskSubject", "SatisfiableSubject", "SchemaCase", "SchemaSubject"]

WRITINGS: Final[Mapping[str, JsonOptions]] = {
    "any way": ANY_WAY,
    "schema order": SCHEMA_ORDER,
    "default": JsonOptions(format=FormatMode.ANNOTATE),
    "any spelling": JsonOptions(
        format=FormatMode.ANNOTATE, spelling=Spelling.ANY, max_number_digits=None
    ),
    "any order": JsonOptions(
        format=FormatMode.ANNOTATE, key_order=KeyOrder.ANY, whitespace=1, max_number_digits=3
    ),
    "short strings": JsonOptions(
        format=FormatMode.ANNOTATE, max_string_length=3, spelling=Spelling.ANY
    ),
}
"""Ways of writing, by their names in cases; validators differ in their verdicts on formats."""

_EXPONENT: Final = re.compile("[0-9]e")
"""In a document: a number that is not canonical; under bounds no spelling of it is written."""
_MOST_ORDERS: Final = 100
_REFUSED: Final = (LimitExceededError, UnsupportedFeatureError)


@dataclass(frozen=True)
class SchemaCase:
    """A schema as text, the way its documents are written, and the seed of the trials on it."""

    schema: str
    writing: str
    seed: int
    document: str = "null"
    """A document that fits, if the schema was built around one."""


class _SchemaSubject(Subject[SchemaCase]):
    """The common part of the subjects about schemas."""

    def smaller(self, case: SchemaCase) -> Iterator[SchemaCase]:
        for schema in smaller_documents(json.loads(case.schema)):
            yield replace(case, schema=json.dumps(schema))

    def as_test(self, case: SchemaCase, fault: Fault) -> str:
        name = type(self).__name__
        return FAULT_TEST.format(
            doc=fault.kind,
            imports=f"from tests.kit.fuzz_schemas import {name}, SchemaCase",
            subject=f"{name}()",
            case=repr(case),
        )


class SchemaSubject(_SchemaSubject):
    """Walks end in valid documents and are never stuck; valid documents can be written."""

    name = "schemas"

    def draw(self, rng: random.Random) -> SchemaCase:
        schema = wide_schema(rng)
        return SchemaCase(json.dumps(schema), rng.choice([*WRITINGS]), rng.randrange(10**9))

    def judge(self, case: SchemaCase) -> Fault | None:
        rng = random.Random(case.seed)
        oracle = Oracle(case.schema)
        try:
            constraint = compiled(json.loads(case.schema), WRITINGS[case.writing])
        except UnsatisfiableError:
            return _satisfied(oracle, [hard_document(rng) for _ in range(60)])
        except _REFUSED:
            return None
        try:
            return self._walked(case, constraint, oracle, rng)
        except LimitExceededError:
            return None

    def _walked(
        self, case: SchemaCase, constraint: CompiledConstraint, oracle: Oracle, rng: random.Random
    ) -> Fault | None:
        written: list[Any] = []
        for vocabulary in (BYTES, PIECES):
            start = compiled(json.loads(case.schema), WRITINGS[case.writing], vocabulary).start()
            for budget in (None, len(start.shortest_completion()) + rng.randrange(12)):
                walk = random_walk(start, rng, rng.randrange(40), budget)
                text = vocabulary.decode(walk.tokens).decode()
                if _valid(oracle, text) is False:
                    return Fault("an invalid document is written", text)
                written.append(json.loads(text))
            fault = _way_out(rng.choice(walk.matchers))
            if fault is not None:
                return fault
        if case.writing not in ("any way", "schema order"):
            return None
        documents = [hard_document(rng) for _ in range(6)]
        documents += [mutated(rng, document) for document in (*written, *written)] + written
        return _misjudged(case, constraint, oracle, documents)


class MaskSubject(_SchemaSubject):
    """A mask holds the tokens that can be taken, and no other."""

    name = "masks"

    def draw(self, rng: random.Random) -> SchemaCase:
        schema = wide_schema(rng)
        return SchemaCase(json.dumps(schema), rng.choice([*WRITINGS]), rng.randrange(10**9))

    def judge(self, case: SchemaCase) -> Fault | None:
        rng = random.Random(case.seed)
        try:
            start = compiled(json.loads(case.schema), WRITINGS[case.writing], PIECES).start()
            for matcher in random_walk(start, rng, rng.randrange(20)).matchers:
                expected: set[int] = set(tried(matcher, range(1, len(PIECES))))
                if matcher.is_accepting:
                    expected.add(END)
                allowed = set(tokens_of(matcher.mask()).tolist())
                if allowed != expected:
                    return Fault("a mask differs", _told(allowed, expected))
        except (UnsatisfiableError, *_REFUSED):
            return None
        return None


class SatisfiableSubject(_SchemaSubject):
    """A schema that has a document is never called unsatisfiable, and has that document."""

    name = "satisfiable"

    def draw(self, rng: random.Random) -> SchemaCase:
        while True:
            document = some_document(rng)
            schema = schema_around(rng, document)
            text = _text(document).decode()
            if _valid(Oracle(json.dumps(schema)), text):
                writing = rng.choice(["any way", "default"])
                return SchemaCase(json.dumps(schema), writing, rng.randrange(10**9), text)

    def judge(self, case: SchemaCase) -> Fault | None:
        if not _valid(Oracle(case.schema), case.document):
            return None
        try:
            constraint = compiled(json.loads(case.schema), WRITINGS[case.writing])
            if case.writing == "any way" and not _takes(constraint, case.document):
                lost = not constraint.incomplete
                return Fault("a document is lost", case.document) if lost else None
        except UnsatisfiableError:
            return Fault("called unsatisfiable", case.document)
        except _REFUSED:
            return None
        return None


SCHEMA_SUBJECTS: Final = {
    subject.name: partial(subject) for subject in (SchemaSubject, MaskSubject, SatisfiableSubject)
}
"""The makers of subjects by name."""


def _valid(oracle: Oracle, text: str) -> bool | None:
    """Whether a document is valid; ``None`` if the validators do not decide."""
    try:
        return oracle.is_valid(text)
    except (OraclesDifferError, TypeError):  # jsonschema fails on false ``items`` of 2019-09
        return None


def _satisfied(oracle: Oracle, documents: list[Any]) -> Fault | None:
    for document in documents:
        if _valid(oracle, json.dumps(document)):
            return Fault("called unsatisfiable", json.dumps(document))
    return None


def _way_out(matcher: Matcher) -> Fault | None:
    """The shortest end is allowed, is an end, and fits the budget that it needs."""
    tokens = matcher.shortest_completion()
    if not matcher.can_complete_within(len(tokens)):
        return Fault("a way out does not fit its own length", str(tokens))
    for token in tokens:
        matcher = matcher.advance(token)
    return None if matcher.is_accepting else Fault("a way out is no end", str(tokens))


def _takes(constraint: CompiledConstraint, text: str) -> bool:
    """Whether a document can be written byte by byte; its masks are not made."""
    matcher = constraint.start()
    for byte in text.encode():
        try:
            matcher = matcher.advance(BYTES.byte_ids[byte])
        except TokenRejectedError:
            return False
    return matcher.is_accepting


def _misjudged(
    case: SchemaCase, constraint: CompiledConstraint, oracle: Oracle, documents: list[Any]
) -> Fault | None:
    """The fault of a document that is accepted but not valid, or valid but not accepted."""
    for document in documents:
        text = _text(document)
        valid = _valid(oracle, text.decode())
        if valid is None or b"Infinity" in text or _EXPONENT.search(text.decode()):
            continue
        if case.writing == "any way":
            accepted = accepts(constraint.start(), text)
        else:
            orders = list(itertools.islice(in_every_order(document), _MOST_ORDERS))
            if len(orders) == _MOST_ORDERS:
                continue
            accepted = any(accepts(constraint.start(), _text(order)) for order in orders)
        if accepted and not valid:
            return Fault("an invalid document is accepted", text.decode())
        if valid and not accepted and not constraint.incomplete:
            return Fault("a document is lost", text.decode())
    return None


def _text(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _told(allowed: set[int], expected: set[int]) -> str:
    return f"too many: {sorted(allowed - expected)}, missing: {sorted(expected - allowed)}"
