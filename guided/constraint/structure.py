"""Make a constraint of a schema, a Python type or a constraint that a caller passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from guided.response_types import (
    adapter_of,
    document_texts,
    is_response_type,
    schema_of_adapter,
    schema_text,
)
from guided.spec import JsonOptions, JsonSchema, Structure
from guided.spec.constraints import with_json_options
from guided.spec.json_options import check_options, check_takes_none
from guided.spec.written_grammar import written_grammar

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

__all__ = ["structure_of"]

_HINT: Final = "pass a schema as text or dict, a type, or a constraint such as guided.Regex"


def structure_of(
    source: str
    | Mapping[str, object]
    | re.Pattern[str]
    | Structure
    | TypeForm[Any]
    | TypeAdapter[Any],
    json_options: JsonOptions | None = None,
    documents: Mapping[str, str | Mapping[str, object]] | None = None,
) -> Structure:
    """Return the constraint of ``source``: a JSON Schema as text or dict, or a Python type.

    A constraint is returned unchanged; a compiled pattern and a grammar in Lark's format are those
    of a response model. JSON options go with schemas in such a grammar, too. Raises RequestError
    for a type that has no schema, and for JSON options or documents beside other constraints.
    """
    written = written_grammar(source)
    if written is not None:
        optioned = with_json_options(written, json_options)
        check_takes_none(None if optioned else json_options, documents)
        return optioned or written
    options = JsonOptions() if json_options is None else json_options
    check_options(options)
    if is_response_type(source):
        text = schema_of_adapter(adapter_of(source), options.spelling)  # type: ignore[arg-type]
    else:
        text = schema_text(source, hint=_HINT)  # type: ignore[arg-type]
    return JsonSchema(text, options, document_texts(documents or {}))
