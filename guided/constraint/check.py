"""Checks, without a model, how a constraint or a Python type would be enforced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from guided.constraint.report import check_structure
from guided.constraint.structure import structure_of
from guided.response_types import adapter_of, is_response_type, unenforced_validators
from guided.spec import JsonOptions, SchemaReport, Structure

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

__all__ = ["check"]


def check(
    schema: str
    | Mapping[str, object]
    | re.Pattern[str]
    | Structure
    | TypeForm[Any]
    | TypeAdapter[Any],
    *,
    json_options: JsonOptions | None = None,
    documents: Mapping[str, str | Mapping[str, object]] | None = None,
) -> SchemaReport:
    """Check a JSON Schema, given as text or dict, or a type or constraint for a response model.

    A compiled pattern and a grammar's text in Lark's format are constraints. ``json_options`` and
    ``documents`` (the texts that references of the schema may name) are only for schemas and types:
    RequestError for a constraint with them, which has its own. Raises InvalidConstraintError,
    UnsupportedFeatureError, UnsatisfiableError or LimitExceededError; if the error is about a
    schema, it names the place by its JSON pointer. Raises RequestError for a type that has no
    schema.
    """
    if isinstance(schema, Structure) or not is_response_type(schema):
        return check_structure(structure_of(schema, json_options, documents)).report
    adapter = adapter_of(schema)  # type: ignore[arg-type]
    report = check_structure(structure_of(adapter, json_options, documents)).report
    return replace(report, unenforced_validators=unenforced_validators(adapter))
