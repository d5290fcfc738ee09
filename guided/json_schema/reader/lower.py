"""A JSON Schema as text → a ``JsonGrammar``, or an error that names the keyword in the way.

The text is read, every schema in it is noted (``survey``), and then each schema that the root
leads to becomes a *place* with a formula (``places``). Places are lowered once each, when a text
first gets to them or, in a schema that may hold a fault (``soundness``), all at once: so recursion
through members and items costs nothing, and neither does what no answer speaks of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.reader.cycles import refuse_endless_application
from guided.json_schema.reader.places import Places
from guided.json_schema.reader.reader import read_schema
from guided.json_schema.reader.soundness import is_sound
from guided.json_schema.reader.survey import Survey
from guided.json_schema.reader.verdicts import Verdict, judge
from guided.spec import JsonOptions, JsonSchema

__all__ = ["LoweredSchema", "lower_json_schema"]


@dataclass(frozen=True)
class LoweredSchema:
    """What the front end makes of a schema."""

    grammar: JsonGrammar
    survey: Survey = field(repr=False)
    options: JsonOptions

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each occurrence of a keyword, schema by schema in the order of their text."""
        return judge(self.survey, self.options)


def lower_json_schema(schema: JsonSchema) -> LoweredSchema:
    """Lower the schema; raises InvalidConstraintError, UnsupportedFeatureError or
    LimitExceededError, each with the JSON pointer of what is in the way.
    """
    root = read_schema(schema.text)
    places = Places(Survey(root, schema.documents), schema.options)
    if not is_sound(places):
        places = Places(Survey(root, schema.documents), schema.options)
        refuse_endless_application(tuple(places), places.pointers)
    grammar = JsonGrammar(places.formulas, places, places.root, places.pointer)
    return LoweredSchema(grammar, places.survey, schema.options)
