"""Two independent validators, and the specification where they differ."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias

import jsonschema
import jsonschema_rs
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Resource
from referencing.jsonschema import DRAFT202012

__all__ = [
    "DIFFERENCES",
    "JUDGES",
    "UNJUDGED",
    "Difference",
    "Judge",
    "Oracle",
    "OraclesDifferError",
    "Validator",
    "may_err",
    "read_document",
]

_MAX_EXPONENT: Final = 1_000
"""Numbers beyond this are not judged: a validator would write out all their digits."""

_WRITTEN_LONGER: Final = re.compile(r"[0-9](?:\.[0-9]|[eE])")
_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?[0-9][0-9.eE+-]*)')


class OraclesDifferError(Exception):
    """The validators differ, and it is not recorded yet which of them is right."""


class Validator(StrEnum):
    """The validators."""

    JSONSCHEMA = "jsonschema"
    JSONSCHEMA_RS = "jsonschema_rs"


@dataclass(frozen=True, slots=True)
class Difference:
    """A subject on which the validators are known to differ."""

    reason: str
    applies: Callable[[str, str], bool]
    """Whether a schema and a document, both as text, involve this subject."""
    wrong: Validator
    """The validator that violates the specification."""


DIFFERENCES: Final = (
    Difference(
        "multiples are exact; jsonschema_rs divides doubles",
        lambda schema, _: '"multipleOf"' in schema,
        wrong=Validator.JSONSCHEMA_RS,
    ),
    Difference(
        "patterns are those of ECMA-262: `$` is only the very end, `\\d` and `\\w` are ASCII",
        lambda schema, _: '"pattern' in schema,
        wrong=Validator.JSONSCHEMA,
    ),
    Difference(
        "1 and true differ inside of items, too; jsonschema compares sorted neighbours only",
        lambda schema, document: '"uniqueItems"' in schema and "true" in document,
        wrong=Validator.JSONSCHEMA,
    ),
    Difference(
        "additionalProperties evaluates what it takes (2019-09, 9.3.2.4); jsonschema forgets that",
        lambda schema, _: "2019-09" in schema and '"unevaluatedProperties"' in schema,
        wrong=Validator.JSONSCHEMA,
    ),
)

UNJUDGED: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "before 2020-12 contains evaluates no items (2019-09, 9.3.1.3); both take it that they are": (
        lambda schema, _: (
            "2019-09" in schema and '"unevaluatedItems"' in schema and '"contains"' in schema
        )
    ),
    "an integer of draft 4 has neither fraction nor exponent (3.5); both look at the value alone": (
        lambda schema, document: (
            "draft-04" in schema
            and '"integer"' in schema
            and _WRITTEN_LONGER.search(document) is not None
        )
    ),
}
"""Cases in which both validators err: by reason, whether a schema and a document are one."""

Judge: TypeAlias = Callable[[str], bool | None]
"""Whether a document, as JSON text, is valid.

``None`` if a number or a pattern is out of the validator's reach.
"""


class Oracle:
    """Judges documents by a schema of draft 2020-12, or of the draft that it names."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._judges = {validator: make(schema) for validator, make in JUDGES.items()}

    def is_valid(self, document: str) -> bool | None:
        """Whether the document, as JSON text, is valid; raises OraclesDifferError.

        ``None`` if a number, a pattern or the subject is out of reach of both validators.
        """
        if any(touches(self._schema, document) for touches in UNJUDGED.values()):
            return None
        verdicts = {validator: judge(document) for validator, judge in self._judges.items()}
        for believed in (
            {verdict for verdict in verdicts.values() if verdict is not None},
            {
                verdict
                for validator, verdict in verdicts.items()
                if not may_err(validator, self._schema, document)
            },
        ):
            if not believed:
                return None
            if len(believed) == 1:
                return believed.pop()
        raise OraclesDifferError(f"{verdicts}: {self._schema} on {document}")


def may_err(validator: Validator, schema: str, document: str) -> bool:
    """Whether a difference is known in which the validator is wrong."""
    return any(
        difference.wrong is validator and difference.applies(schema, document)
        for difference in DIFFERENCES
    )


def _by_jsonschema(schema: str, documents: Iterable[tuple[str, str]] = ()) -> Judge:
    """``jsonschema``, with exact numbers; ``documents`` are what the schema may refer to."""
    exact = json.loads(schema, parse_float=Decimal)
    resources = [
        (uri, Resource.from_contents(json.loads(text), default_specification=DRAFT202012))
        for uri, text in documents
    ]
    registry = SPECIFICATIONS.with_resources(resources)
    chosen = validator_for(exact, default=jsonschema.Draft202012Validator)
    validator = _exact(chosen)(exact, registry=registry)

    def is_valid(document: str) -> bool | None:
        if any(map(_is_out_of_reach, _numbers(document))):
            return None
        with decimal.localcontext(prec=4 * _MAX_EXPONENT):
            try:
                return bool(validator.is_valid(read_document(document)))
            except re.error:
                return None

    return is_valid


def _by_jsonschema_rs(schema: str, documents: Iterable[tuple[str, str]] = ()) -> Judge:
    """``jsonschema_rs``; ``documents`` are what the schema may refer to."""
    resources = [(uri, json.loads(text)) for uri, text in documents]
    registry = jsonschema_rs.Registry(resources) if resources else None
    validator = jsonschema_rs.validator_for(
        json.loads(schema), registry=registry, validate_formats=False
    )

    def is_valid(document: str) -> bool | None:
        if not all(map(_is_double, _numbers(document))):
            return None
        return bool(validator.is_valid(json.loads(document)))

    return is_valid


def read_document(text: str) -> Any:
    """A JSON text with exact numbers; an object that names a member twice is an AssertionError."""
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_without_duplicates)


JUDGES: Final[dict[Validator, Callable[..., Judge]]] = {
    Validator.JSONSCHEMA: _by_jsonschema,
    Validator.JSONSCHEMA_RS: _by_jsonschema_rs,
}
"""The makers of judges, given a schema and the documents that it may refer to."""


def _numbers(text: str) -> list[str]:
    return [number for number in _NUMBER.findall(text) if number]


def _is_out_of_reach(number: str) -> bool:
    """Whether writing out all digits of a number would take too long."""
    exponent = re.split("[eE]", number)[1:]
    return bool(exponent) and (len(exponent[0]) > 5 or abs(int(exponent[0])) > _MAX_EXPONENT)


def _is_double(number: str) -> bool:
    """Whether the number survives being read and written as a double."""
    return not _is_out_of_reach(number) and Decimal(repr(float(number))) == Decimal(number)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a name stands twice: {pairs}"
    return dict(pairs)


@cache
def _exact(validator: Any) -> Any:
    """The validator of ``jsonschema``, changed so that a whole ``Decimal`` is an integer."""

    def is_integer(_: Any, value: Any) -> bool:
        whole = isinstance(value, Decimal) and value == value.to_integral_value()
        return whole or validator.TYPE_CHECKER.is_type(value, "integer")

    checker = validator.TYPE_CHECKER.redefine("integer", is_integer)
    return extend(validator, type_checker=checker)
