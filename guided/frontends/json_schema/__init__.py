"""JSON Schema as text → ``JsonGrammar``."""

from guided.frontends.json_schema.keywords import Enforcement, Verdict
from guided.frontends.json_schema.lower import LoweredSchema, lower_json_schema

__all__ = ["Enforcement", "LoweredSchema", "Verdict", "lower_json_schema"]
