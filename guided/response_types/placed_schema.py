"""Pydantic's generator of JSON Schemas as ours begins: it tells places, and gives no warnings."""

from __future__ import annotations

import json
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, core_schema
from typing_extensions import override

from guided.response_types.core_parts import place_of

__all__ = ["PlacedSchema"]


class _PlacedError(PydanticInvalidForJsonSchema):
    """One whose message begins with the place of what no schema describes."""


class PlacedSchema(GenerateJsonSchema):
    """The generator, with the place in what it raises."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.core_definitions: dict[str, Any] = {}
        """Core schemas that others refer to, by name."""
        self._trail: list[Any] = []

    @override
    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        self._trail.append(schema)
        try:
            return super().generate_inner(schema)
        except _PlacedError:
            raise
        except PydanticInvalidForJsonSchema as error:
            place = place_of(self._trail)
            raise _PlacedError(f"{place}: {error.message}" if place else error.message) from error
        finally:
            self._trail.pop()

    @override
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """A member of a union that no schema describes would be left out with a warning."""
        if kind == "skipped-choice":
            raise _PlacedError(detail)

    @override
    def encode_default(self, dft: Any) -> Any:
        """Defaults are notes; one that JSON cannot hold is left out."""
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return encoded

    @override
    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self.core_definitions |= {part["ref"]: part for part in schema["definitions"]}
        return super().definitions_schema(schema)
