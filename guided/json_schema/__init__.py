"""JSON Schema: text → formulas → recogniser."""
