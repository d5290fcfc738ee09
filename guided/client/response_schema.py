"""From a Python type to the schema of its answers, and from an answer to an instance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar, get_origin

from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from guided.errors import InvalidConstraintError, RequestError

__all__ = ["adapter_of", "schema_of_adapter", "schema_text"]

T = TypeVar("T")


class _AnswerSchema(GenerateJsonSchema):
    """Schemas of what a model should write, a little narrower than what pydantic would read.

    Members that a type does not name are left out unless the type keeps them, since pydantic would
    drop them; a ``Decimal`` is a number, since its string form needs a look-ahead to describe.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        described = super().decimal_schema(schema)
        forms = described.get("anyOf", [described])
        return next(form for form in forms if form.get("type") == "number")


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def adapter_of(response_model: type[T] | TypeAdapter[T]) -> TypeAdapter[T]:
    """Pydantic's adapter of a type, or the adapter that was given."""
    if isinstance(response_model, TypeAdapter):
        return response_model
    _require_type(response_model)
    try:
        return TypeAdapter(response_model)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise _refused(response_model, error) from error


def schema_of_adapter(adapter: TypeAdapter[T]) -> str:
    """The JSON Schema of an adapter's type as text, properties in the order of the fields."""
    try:
        return schema_text(adapter.json_schema(schema_generator=_AnswerSchema))
    except PydanticUserError as error:
        raise _refused(adapter, error) from error


def schema_text(schema: str | Mapping[str, object]) -> str:
    """A schema as text, keys in the caller's order."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, type | TypeAdapter):
        raise RequestError(
            f"schema is {schema!r}, which is not a JSON Schema",
            field="schema",
            hint="pass a type as response_model",
        )
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidConstraintError(f"the schema is not JSON: {error}") from error


def _require_type(response_model: object) -> None:
    """Refuse what pydantic would take for a name of a type, or for a schema of its own kind."""
    if (
        isinstance(response_model, type)
        or get_origin(response_model) is not None
        or type(response_model).__module__ in ("typing", "typing_extensions")
    ):
        return
    is_schema = isinstance(response_model, Mapping)
    raise RequestError(
        f"response_model {response_model!r} is not a type",
        field="response_model",
        hint="pass it as schema="
        if is_schema
        else "pass a type, e.g. a pydantic model, or schema=",
    )


def _refused(response_model: object, error: Exception) -> RequestError:
    reason = str(error).partition("\n")[0]
    return RequestError(
        f"{response_model!r} has no JSON Schema: {reason}",
        field="response_model",
        hint="use a type that pydantic can describe, or pass schema=",
    )
