"""JSON Schema as text → ``JsonGrammar``."""

from guided.json_schema.reader.documents import ParsedTexts
from guided.json_schema.reader.formats import known_formats
from guided.json_schema.reader.lower import LoweredSchema, lower_json_schema

__all__ = ["LoweredSchema", "ParsedTexts", "known_formats", "lower_json_schema"]
