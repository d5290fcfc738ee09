"""Constraints → recognisers of bytes, whatever they are made of."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import UnsatisfiableError, naming
from guided.grammar.composition import Composition, FilledHole, lower_composition, without_holes
from guided.grammar.machine.composite_machine import CompositeMachine
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import HoleText, network_from_grammar
from guided.json_schema.machine.bare_strings import BareStringMachine
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.machine.look_ahead import look_ahead
from guided.json_schema.reader import LoweredSchema, lower_json_schema
from guided.machine.parts import RecognizerLimits
from guided.machine.pushdown import PushdownMachine
from guided.machine.recognizer import Recognizer
from guided.machine.table import TransitionTable
from guided.spec import JsonSchema, Structure
from guided.spec.bare_string import BareString

__all__ = ["Built", "build", "machine_of"]


@dataclass(frozen=True, slots=True)
class Built:
    """A recogniser, and the schemas that it was built of."""

    machine: Recognizer
    schemas: tuple[tuple[tuple[str, ...], LoweredSchema], ...]
    """Each with the parts of the constraint around it, from the outside in."""
    special: frozenset[str] = frozenset()
    """The names of the special tokens that stand in its texts."""


def machine_of(
    constraint: Structure,
    missing: frozenset[int] = frozenset(),
    limits: RecognizerLimits | None = None,
) -> Recognizer:
    """The recogniser of a constraint's texts that need none of the ``missing`` bytes.

    Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
    LimitExceededError.
    """
    return build(constraint, missing, limits).machine


def build(
    constraint: Structure,
    missing: frozenset[int] = frozenset(),
    limits: RecognizerLimits | None = None,
) -> Built:
    """The same, with what was read of the schemas in it; raises as ``machine_of`` does.

    A schema alone has a machine without a grammar, gone ahead of (``look_ahead``).
    """
    builder = _Builder(missing, limits or RecognizerLimits())
    if isinstance(constraint, JsonSchema):
        machine = builder.json_machine(constraint)
        look_ahead(machine)
        return Built(machine, tuple(builder.schemas))
    composition = lower_composition(constraint)
    whole = builder.grammar_machine(composition)
    return Built(whole, tuple(builder.schemas), composition.special)


class _Builder:
    """Builds recognisers on one table: all those of one constraint, so it is of use once."""

    def __init__(self, missing: frozenset[int], limits: RecognizerLimits) -> None:
        """``missing`` are bytes that no text may need, as no token spells them."""
        self._missing = missing
        self._limits = limits
        self._table = TransitionTable(limits.max_cells)
        self.schemas: list[tuple[tuple[str, ...], LoweredSchema]] = []
        """Each with its path, see ``Built``; also those that no document satisfies."""

    def grammar_machine(self, composition: Composition) -> GrammarMachine:
        """The recogniser of any constraint but a schema alone.

        Schemas that no document satisfies leave the texts out that need them; only if no text is
        left their error is raised, that of the first.

        The first empty hole is the first in the order of ``composition.holes``, which ``empty``
        keeps.
        """
        # Machines and what their texts are like, both by the number of the hole that is left:
        # ``without_holes`` numbers the others anew in the same order.
        fillings: list[PushdownMachine] = []
        texts: list[HoleText] = []
        empty: dict[int, UnsatisfiableError] = {}
        for number, hole in enumerate(composition.holes):
            try:
                with naming(hole.path):
                    fillings.append(self._filling(hole))
                    texts.append(_hole_text(fillings[-1]))
            except UnsatisfiableError as error:
                # Other parts may do without it, as without a pattern that fits nothing.
                empty[number] = error
        try:
            grammar = without_holes(composition.grammar, empty)
            network = network_from_grammar(grammar, self._missing, texts)
        except UnsatisfiableError:
            # What says where is of more use than that there is no text.
            for first in empty.values():
                raise first from None
            raise
        if not fillings:
            return GrammarMachine(network, self._limits, self._table)
        return CompositeMachine(network, fillings, self._table, self._limits)

    def _filling(self, hole: FilledHole) -> PushdownMachine:
        """The recogniser of what fills a hole; raises as ``json_machine`` does."""
        match hole.filling:
            case JsonSchema():
                return self.json_machine(hole.filling, hole.path)
            case BareString(schema=schema):
                lowered = lower_json_schema(schema)
                self.schemas.append((hole.path, lowered))
                return BareStringMachine(hole.filling, lowered.grammar, self._missing, self._table)

    def json_machine(self, schema: JsonSchema, path: tuple[str, ...] = ()) -> JsonMachine:
        """The recogniser of a schema's documents, on the table that all share.

        Raises UnsatisfiableError where there is none, and whatever else ``machine_of`` does.
        """
        lowered, options = lower_json_schema(schema), schema.options
        self.schemas.append((path, lowered))
        grammar = lowered.grammar
        try:
            return JsonMachine(grammar, options, self._missing, self._limits, self._table)
        except UnsatisfiableError:
            if self._missing:
                # Tell apart what no text satisfies from what this vocabulary cannot spell: this
                # raises for the first, and is not used for the second.
                JsonMachine(grammar, options, frozenset(), self._limits)
                raise UnsatisfiableError(
                    "every document needs bytes for which the model has no token",
                    hint="use a model whose tokenizer covers all bytes",
                ) from None
            raise


def _hole_text(machine: PushdownMachine) -> HoleText:
    """What the texts of a recogniser are like."""
    first = [byte for byte in range(256) if machine.step(machine.start, byte) is not None]
    return HoleText(frozenset(first), len(machine.shortest_end(machine.start)))
