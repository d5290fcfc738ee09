"""JSON Schema as text → ``JsonGrammar``."""

from guided.frontends.json_schema.formats import known_formats
from guided.frontends.json_schema.lower import LoweredSchema, lower_json_schema
from guided.frontends.json_schema.verdicts import Enforcement, Verdict

__all__ = ["Enforcement", "LoweredSchema", "Verdict", "known_formats", "lower_json_schema"]
