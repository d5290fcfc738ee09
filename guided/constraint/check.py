"""What a schema or a Python type would be held to, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guided.constraint.foresight import LikelyLimit, likely_limits
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import Verdict, lower_json_schema
from guided.masks.limits import ConstraintLimits
from guided.response_types import (
    UnenforcedValidator,
    adapter_of,
    document_texts,
    is_response_type,
    schema_of_adapter,
    schema_text,
    unenforced_validators,
)
from guided.runtime.fuel import limited_work
from guided.spec import JsonOptions, JsonSchema

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

__all__ = ["SchemaReport", "check"]


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The outcome of checking a schema that can be enforced."""

    verdicts: tuple[Verdict, ...]
    """What becomes of each occurrence of a keyword, schema by schema in the order of their text."""
    shortest_answer: str
    """A document that satisfies the schema, among the shortest there are."""
    unenforced_validators: tuple[UnenforcedValidator, ...] = ()
    """Code of a Python type that may still refuse an answer; none for a schema."""
    likely_limits: tuple[LikelyLimit, ...] = ()
    """Places at which answers are likely to be closed on their shortest way, because what may be
    written there takes more work, or more room, than an answer has."""


def check(
    schema: str | Mapping[str, object] | TypeForm[Any] | TypeAdapter[Any],
    *,
    json_options: JsonOptions | None = None,
    documents: Mapping[str, str | Mapping[str, object]] | None = None,
) -> SchemaReport:
    """Check a JSON Schema, given as text or dict, or whatever may be a response model.

    Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
    LimitExceededError, each naming the place by its JSON pointer, and RequestError for a type that
    has no schema.
    """
    options = json_options or JsonOptions()
    validators: tuple[UnenforcedValidator, ...] = ()
    if is_response_type(schema):
        adapter = adapter_of(schema)  # type: ignore[arg-type]
        text = schema_of_adapter(adapter, options.spelling)
        validators = unenforced_validators(adapter)
    else:
        text = schema_text(schema)  # type: ignore[arg-type]
    constraint = JsonSchema(text, options, document_texts(documents or {}))
    limits = ConstraintLimits()
    with limited_work(limits.compile_work):
        lowered = lower_json_schema(constraint)
        machine = JsonMachine(lowered.grammar, limits=limits.recognizer)
        machine.parts.check_room()
        shortest = machine.shortest_end(machine.start).decode()
    ahead = likely_limits(machine, limits)
    return SchemaReport(lowered.verdicts, shortest, validators, ahead)
