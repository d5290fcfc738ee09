"""From a Python type to pydantic's adapter of it, and to the schema of its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaError
from typing_extensions import TypeForm

from guided.errors import RequestError
from guided.response_types.answer_schema import AnswerSchema
from guided.response_types.integers import with_plain_integers
from guided.spec import Spelling

__all__ = ["adapter_of", "is_response_type", "schema_of_adapter"]


def is_response_type(subject: object) -> bool:
    """Whether this is a type or an adapter, not what pydantic would take for the name of one."""
    return (
        isinstance(subject, type | TypeAdapter)
        or get_origin(subject) is not None
        or type(subject).__module__ in ("typing", "typing_extensions")
    )


def adapter_of(response_model: TypeForm[Any] | TypeAdapter[Any]) -> TypeAdapter[Any]:
    """Pydantic's adapter of a type, or the adapter that was given."""
    if isinstance(response_model, TypeAdapter):
        return response_model
    if not is_response_type(response_model):
        hint = "pass a type, e.g. a pydantic model, or schema="
        if isinstance(response_model, Mapping):
            hint = "pass it as schema="
        elif isinstance(response_model, re.Pattern):
            hint = "pass it as grammar=, or Annotated[str, pydantic.Field(pattern=...)]"
        raise RequestError(
            f"response_model {response_model!r} is not a type", field="response_model", hint=hint
        )
    try:
        return TypeAdapter(response_model)
    except Exception as error:  # those of pydantic, of its core, and of what a type itself runs
        raise _refused(response_model, error) from error


def schema_of_adapter(adapter: TypeAdapter[Any], spelling: Spelling = Spelling.CANONICAL) -> str:
    """The JSON Schema of an adapter's type as text, properties in the order of the fields.

    ``spelling`` is how answers will be written. Raises ``RequestError`` for a type that no JSON
    Schema describes.
    """
    try:
        schema = adapter.json_schema(schema_generator=AnswerSchema)
        if spelling is Spelling.ANY:
            schema = with_plain_integers(schema)
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (PydanticUserError, PydanticSerializationError, ValueError) as error:
        raise _refused(adapter, error) from error


def _refused(response_model: object, error: Exception) -> RequestError:
    # Pydantic's own explain themselves on further lines, those of its core go on there.
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
