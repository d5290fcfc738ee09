"""Python types of answers: their JSON Schemas, and what no schema can hold them to."""

from guided.response_types.adapter import adapter_of, is_response_type, schema_of_adapter
from guided.response_types.given_schema import document_texts, schema_text
from guided.response_types.validators import UnenforcedValidator, unenforced_validators

__all__ = [
    "UnenforcedValidator",
    "adapter_of",
    "document_texts",
    "is_response_type",
    "schema_of_adapter",
    "schema_text",
    "unenforced_validators",
]
