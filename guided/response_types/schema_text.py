"""Makes schemas as text: of a Python type by pydantic's adapter, and those that a caller passes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaError
from typing_extensions import TypeForm

from guided.errors import InvalidConstraintError, RequestError
from guided.response_types.answer_schema import AnswerSchema
from guided.response_types.scalar_schema import narrow
from guided.spec import Spelling
from guided.spec.schema_wrapper import is_schema_wrapper

__all__ = [
    "adapter_of",
    "document_texts",
    "is_response_type",
    "schema_of_adapter",
    "schema_text",
]


def is_response_type(subject: object) -> bool:
    """Return whether this is a type or an adapter, not a string that pydantic takes as a name."""
    return (
        isinstance(subject, type | TypeAdapter)
        or get_origin(subject) is not None
        or type(subject).__module__ in ("typing", "typing_extensions")
    )


def adapter_of(response_model: TypeForm[Any] | TypeAdapter[Any]) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a type, or the given adapter."""
    if isinstance(response_model, TypeAdapter):
        return response_model
    if not is_response_type(response_model):
        hint = "pass a type, e.g. a pydantic model, or schema="
        if isinstance(response_model, Mapping):
            hint = "pass it as schema="
        elif isinstance(response_model, str):
            hint = "pass a type; a grammar in Lark's format has a rule named start"
        raise RequestError(
            f"response_model {response_model!r} is not a type", field="response_model", hint=hint
        )
    try:
        return TypeAdapter(response_model)
    except Exception as error:  # errors of pydantic, of its core, and of the type's own code
        raise _no_schema_error(response_model, error) from error


def schema_of_adapter(adapter: TypeAdapter[Any], spelling: Spelling = Spelling.CANONICAL) -> str:
    """Return the JSON Schema of an adapter's type as text, properties in the order of the fields.

    ``spelling`` is how answers will be written. Raises ``RequestError`` for a type that no JSON
    Schema describes.
    """
    try:
        schema = adapter.json_schema(schema_generator=AnswerSchema)
        if spelling is Spelling.ANY:
            schema = _with_plain_integers(schema)
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (PydanticUserError, PydanticSerializationError, ValueError) as error:
        raise _no_schema_error(adapter, error) from error


def _no_schema_error(response_model: object, error: Exception) -> RequestError:
    # Pydantic's errors explain themselves on further lines; those of its core continue there.
    reason = str(error).partition("\n")[0]
    if isinstance(error, SchemaError):
        reason = " ".join(str(error).split())
    is_typed_dict = getattr(error, "code", "") == "typed-dict-version"
    return RequestError(
        f"{response_model!r} has no JSON Schema: {reason}",
        field="response_model",
        hint="import TypedDict from typing_extensions"
        if is_typed_dict
        else "use a type that pydantic can describe, or pass schema=",
    )


# Schemas that a caller passes, with the caller's order of keys


def schema_text(
    schema: str | Mapping[str, object], *, hint: str = "pass a type as response_model"
) -> str:
    """Return a schema as text; ``hint`` is what to pass instead of what is none.

    Raises ``RequestError`` unless it is a schema, ``InvalidConstraintError`` if JSON cannot hold
    it.
    """
    if isinstance(schema, Mapping) and is_schema_wrapper(schema):
        raise RequestError(
            "schema is a wrapper around a schema, as in OpenAI's API",
            field="schema",
            hint='pass the schema in it: schema["schema"]',
        )
    return _text(schema, "schema", hint=hint)


def document_texts(
    documents: Mapping[str, str | Mapping[str, object]],
) -> tuple[tuple[str, str], ...]:
    """Return the URI and the text of each document; raises like ``schema_text``."""
    for uri in documents:
        if not isinstance(uri, str):
            raise RequestError(
                f"the document key {uri!r} is not a URI", field="documents", hint="pass a string"
            )
    return tuple(
        (uri, _text(document, "documents", hint="pass text or a dict"))
        for uri, document in documents.items()
    )


def _text(schema: object, field: str, *, hint: str) -> str:
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, Mapping | bool):
        raise RequestError(
            f"{field} is {schema!r}, which is not a JSON Schema", field=field, hint=hint
        )
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidConstraintError(f"the schema is not JSON: {error}") from error


# Integers of Python types, where numbers may be spelled in any way
#
# JSON Schema takes ``5.0`` and ``5e0`` for integers. Pydantic reads both as floats: strict types
# refuse them, they lose digits beyond 2**53, and end at 64 bits. Draft 4 of JSON Schema recognised
# integers by their spelling, so here they are those of draft 4.

_NAME: Final = "integer-by-spelling"  # no class has a name with hyphens
_DRAFT_4: Final = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "id": "urn:guided:integer-by-spelling",
    "type": "integer",
}
_REFERENCE: Final = {"$ref": f"#/$defs/{_NAME}"}
_SCHEMAS_BY_NAME: Final = frozenset({"properties", "$defs", "patternProperties"})
_VALUE_KEYWORDS: Final = frozenset({"default", "examples", "enum", "const"})
_LARGEST_EXACT: Final = 2**53


def _with_plain_integers(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a Python type with its integers written as plain digits."""
    narrowed: dict[str, Any] = _narrow_integers(schema)
    if narrowed == schema:
        return schema
    return {**narrowed, "$defs": {**narrowed.get("$defs", {}), _NAME: _DRAFT_4}}


def _narrow_integers(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_narrow_integers(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        word: {name: _narrow_integers(part) for name, part in value.items()}
        if word in _SCHEMAS_BY_NAME
        else value
        if word in _VALUE_KEYWORDS
        else _narrow_integers(value)
        for word, value in schema.items()
    }
    if schema.get("type") == "integer" or _is_large(schema.get("const")):
        narrow(found, _REFERENCE)
    elif any(map(_is_large, schema.get("enum", ()))):
        others = [v for v in schema["enum"] if isinstance(v, bool) or not isinstance(v, int)]
        narrow(found, {"anyOf": [_REFERENCE, {"enum": others}]} if others else _REFERENCE)
    return found


def _is_large(value: object) -> bool:
    return isinstance(value, int) and abs(value) > _LARGEST_EXACT
