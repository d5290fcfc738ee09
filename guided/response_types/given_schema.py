"""Schemas that a caller gives, as text with the caller's order of keys."""

from __future__ import annotations

import json
from collections.abc import Mapping

from guided.errors import InvalidConstraintError, RequestError

__all__ = ["document_texts", "schema_text"]


def schema_text(schema: str | Mapping[str, object]) -> str:
    """A schema as text; ``RequestError`` for what is none, ``InvalidConstraintError`` for what
    JSON cannot hold.
    """
    return _text(schema, "schema", hint="pass a type as response_model")


def document_texts(
    documents: Mapping[str, str | Mapping[str, object]],
) -> tuple[tuple[str, str], ...]:
    """The URI and the text of each document; raises as ``schema_text`` does."""
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
