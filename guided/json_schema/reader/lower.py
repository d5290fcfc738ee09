"""Lowers a JSON Schema to a ``JsonGrammar``, or raises an error with the place of a keyword.

The text is read, every schema in it is indexed (``schema_index``), and then each schema reachable
from the root becomes a ``SchemaNode`` with a formula. A node is lowered once: when a text first
reaches it or, if lowering the schema may fail (``lowering_check``), at once. So recursion through
members and items takes no work, and neither do parts that no answer reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from guided.errors import InvalidConstraintError
from guided.json_schema.formulas.formula import Formula
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.applicators import APPLICATOR_FORMULAS
from guided.json_schema.reader.container_keywords import ARRAY_FORMULAS, OBJECT_FORMULAS
from guided.json_schema.reader.documents import ParsedTexts
from guided.json_schema.reader.lowering_check import can_be_lowered, refuse_infinite_recursion
from guided.json_schema.reader.schema_context import Lowering, SchemaContext
from guided.json_schema.reader.schema_index import SchemaIndex
from guided.json_schema.reader.text import read_schema
from guided.json_schema.reader.unevaluated import UNEVALUATED_FORMULAS
from guided.json_schema.reader.unknown_keywords import refuse_unknown
from guided.json_schema.reader.value_keywords import LISTED_FORMULAS, SCALAR_FORMULAS
from guided.json_schema.reader.verdicts import count_keywords, judge_keywords
from guided.runtime.at_drop import AtDrop
from guided.spec import JsonOptions, JsonSchema, UnknownKeywords, Verdict
from guided.spec.schema_wrapper import is_schema_wrapper

__all__ = ["LoweredSchema", "lower_json_schema"]


@dataclass(frozen=True)
class LoweredSchema:
    """A schema as formulas, with the index of its keywords for the report."""

    grammar: JsonGrammar
    index: SchemaIndex = field(repr=False)
    options: JsonOptions

    @property
    def verdicts(self) -> Iterator[Verdict]:
        """The verdicts on all occurrences of keywords, in the order of the text."""
        return judge_keywords(self.index, self.options)

    @property
    def num_verdicts(self) -> int:
        """How many verdicts there are."""
        return count_keywords(self.index)


def lower_json_schema(schema: JsonSchema, shared: ParsedTexts | None = None) -> LoweredSchema:
    """Lower a schema to formulas.

    ``shared`` has the documents that were parsed for other schemas of the constraint. Raises
    InvalidConstraintError, UnsupportedFeatureError or LimitExceededError, each with the JSON
    pointer of the keyword that causes it.
    """
    parsed = ParsedTexts() if shared is None else shared
    root = read_schema(schema.text)
    if isinstance(root, dict) and is_schema_wrapper(root):
        raise InvalidConstraintError(
            "this is a wrapper around a schema, as in OpenAI's API",
            pointer="",
            hint="pass the schema in it, its member 'schema'",
        )
    lowering, grammar = _begin(root, schema, parsed)
    can_be_made = can_be_lowered(lowering)
    is_strict = schema.options.unknown_keywords is UnknownKeywords.REFUSE
    if is_strict:
        # Before a second start, whose index has only the documents that the root reaches.
        refuse_unknown(lowering.index, schema.options)
    if not can_be_made:
        # Start over: what was recorded before an error is incomplete.
        lowering, grammar = _begin(root, schema, parsed)
        refuse_infinite_recursion(lowering.nodes)
        if is_strict:
            # Where ``can_be_lowered`` stopped early, the first index lacks some documents.
            refuse_unknown(lowering.index, schema.options)
    return LoweredSchema(grammar, lowering.index, schema.options)


def _begin(root: Json, schema: JsonSchema, parsed: ParsedTexts) -> tuple[Lowering, JsonGrammar]:
    """Return the lowering of a schema and its grammar, of which only the root is there yet."""
    index = SchemaIndex(root, schema.documents, parsed)
    lowering = Lowering(index, schema.options, keyword_formulas)
    at_drop = AtDrop(lowering.release)
    formula = lowering.root()
    return lowering, JsonGrammar(lowering.formulas, formula, lambda: lowering.nbytes, at_drop)


def keyword_formulas(context: SchemaContext) -> Formula:
    """Return the conjunction of the formulas of all keywords, in the order of the schema.

    Keywords that require members, or are about unevaluated ones, come last: members are written in
    the order in which a formula first names them, and ``properties`` has to determine that order.
    """
    keywords = [keyword for keyword in context.keywords if keyword in _FORMULAS]
    keywords.sort(key=lambda keyword: keyword in _LAST)
    return context.formulas.all_of(_each_formula(context, keywords))


def _each_formula(context: SchemaContext, keywords: list[str]) -> Iterator[Formula]:
    """Yield the formulas of keywords lazily, as none is needed after FALSE.

    Keywords that make one formula together share a function, which is called once.
    """
    for function in dict.fromkeys(_FORMULAS[keyword] for keyword in keywords):
        yield function(context)


_FORMULAS: Final[dict[str, Callable[[SchemaContext], Formula]]] = {
    **APPLICATOR_FORMULAS,
    **LISTED_FORMULAS,
    **SCALAR_FORMULAS,
    **ARRAY_FORMULAS,
    **OBJECT_FORMULAS,
    **UNEVALUATED_FORMULAS,
}
_LAST: Final = frozenset(
    {"required", "dependentRequired", "unevaluatedProperties", "unevaluatedItems"}
)
