"""Python types of answers: their JSON Schemas, and the checks that no schema can enforce."""

from guided.response_types.schema_text import (
    adapter_of,
    document_texts,
    is_response_type,
    schema_of_adapter,
    schema_text,
)
from guided.response_types.validators import unenforced_validators

__all__ = [
    "adapter_of",
    "document_texts",
    "is_response_type",
    "schema_of_adapter",
    "schema_text",
    "unenforced_validators",
]
