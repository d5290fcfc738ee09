"""Make a constraint of a schema, a Python type or a constraint that a caller passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from guided.response_types import (
    adapter_of,
    document_texts,
    is_response_type,
    schema_of_adapter,
    schema_text,
)
from guided.spec import JsonOptions, JsonSchema, Structure
from guided.spec.json_options import check_takes_none

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

__all__ = ["structure_of"]


def structure_of(
    source: str | Mapping[str, object] | Structure | TypeForm[Any] | TypeAdapter[Any],
    json_options: JsonOptions | None = None,
    documents: Mapping[str, str | Mapping[str, object]] | None = None,
) -> Structure:
    """Return the constraint of ``source``: a JSON Schema as text or dict, or a Python type.

    A grammar or another constraint is returned unchanged. Raises RequestError for a type that has
    no schema, and for JSON options or documents beside a constraint.
    """
    if isinstance(source, Structure):
        check_takes_none(json_options, documents)
        return source
    options = json_options or JsonOptions()
    if is_response_type(source):
        text = schema_of_adapter(adapter_of(source), options.spelling)  # type: ignore[arg-type]
    else:
        text = schema_text(source)  # type: ignore[arg-type]
    return JsonSchema(text, options, document_texts(documents or {}))
