"""A JSON Schema as text → a ``JsonGrammar``, or an error that names the keyword in the way.

The text is read, every schema in it is recorded (``survey``), and then each schema that the root
leads to becomes a ``SchemaNode`` with a formula. Nodes are lowered once each, when a text first
reaches them or, in a schema that may contain a fault (``soundness``), all at once. So recursion
through members and items costs nothing, and neither does what no answer reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from guided.json_schema.formulas.formula import Formula
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.reader.applicators import APPLICATOR_FORMULAS
from guided.json_schema.reader.container_keywords import ARRAY_FORMULAS, OBJECT_FORMULAS
from guided.json_schema.reader.soundness import is_sound, refuse_endless_application
from guided.json_schema.reader.survey import Survey
from guided.json_schema.reader.text import read_schema
from guided.json_schema.reader.unevaluated import UNEVALUATED_FORMULAS
from guided.json_schema.reader.value_keywords import LISTED_FORMULAS, SCALAR_FORMULAS
from guided.json_schema.reader.verdicts import judge
from guided.json_schema.reader.visit import Lowering, Visit
from guided.spec import JsonOptions, JsonSchema, Verdict

__all__ = ["LoweredSchema", "lower_json_schema"]


@dataclass(frozen=True)
class LoweredSchema:
    """What the front end makes of a schema."""

    grammar: JsonGrammar
    survey: Survey = field(repr=False)
    options: JsonOptions

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each occurrence of a keyword, schema by schema in the order of their text."""
        return judge(self.survey, self.options)


def lower_json_schema(schema: JsonSchema) -> LoweredSchema:
    """Lower the schema.

    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError, each with the JSON
    pointer of what is in the way.
    """
    root = read_schema(schema.text)
    lowering = Lowering(Survey(root, schema.documents), schema.options, keyword_formulas)
    formula = lowering.root()
    if not is_sound(lowering):
        # Once more from the start: what was recorded while the fault came up is incomplete.
        lowering = Lowering(Survey(root, schema.documents), schema.options, keyword_formulas)
        formula = lowering.root()
        refuse_endless_application(lowering.nodes)
    grammar = JsonGrammar(lowering.formulas, formula, lambda: lowering.nbytes)
    return LoweredSchema(grammar, lowering.survey, schema.options)


def keyword_formulas(visit: Visit) -> Formula:
    """Return what all keywords together ask, in the order in which they are written.

    What only asks for members comes last: members are written in the order in which a formula first
    names them, and ``properties`` defines their order. Each node calls this once, when its formula
    is first needed; ``Lowering`` keeps nothing of the result.
    """
    written = [keyword for keyword in visit.keywords if keyword in _FORMULAS]
    written.sort(key=lambda keyword: keyword in _LAST)
    return visit.formulas.all_of(_one_by_one(visit, written))


def _one_by_one(visit: Visit, keywords: list[str]) -> Iterator[Formula]:
    """Yield formulas as they are needed: after FALSE no further keyword is looked at.

    Keywords that make one formula together have one function, which is called once.
    """
    for function in dict.fromkeys(_FORMULAS[keyword] for keyword in keywords):
        yield function(visit)


_FORMULAS: Final[dict[str, Callable[[Visit], Formula]]] = {
    **APPLICATOR_FORMULAS,
    **LISTED_FORMULAS,
    **SCALAR_FORMULAS,
    **ARRAY_FORMULAS,
    **OBJECT_FORMULAS,
    **UNEVALUATED_FORMULAS,
}
_LAST: Final = frozenset({"required", "dependentRequired"})
