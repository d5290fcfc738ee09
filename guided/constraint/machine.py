"""Build the recogniser of bytes for a constraint of any kind."""

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
    """A recogniser, and the schemas it was built from."""

    machine: Recognizer
    schemas: tuple[tuple[tuple[str, ...], LoweredSchema], ...]
    """Each with the parts of the constraint around it, outermost first."""
    special: frozenset[str] = frozenset()
    """The names of the special tokens that occur in its texts."""


def machine_of(
    constraint: Structure,
    missing: frozenset[int] = frozenset(),
    limits: RecognizerLimits | None = None,
) -> Recognizer:
    """Return the recogniser of those texts of a constraint that need no ``missing`` byte.

    Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
    LimitExceededError.
    """
    return build(constraint, missing, limits).machine


def build(
    constraint: Structure,
    missing: frozenset[int] = frozenset(),
    limits: RecognizerLimits | None = None,
) -> Built:
    """Return the same, with what was read of its schemas; raises what ``machine_of`` raises.

    A schema alone gets a machine without a grammar, and ``look_ahead`` runs on it.
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
    """Builds recognisers on one table: all those of one constraint, so it is used only once."""

    def __init__(self, missing: frozenset[int], limits: RecognizerLimits) -> None:
        """``missing`` are bytes that no text may need, because no token spells them."""
        self._missing = missing
        self._limits = limits
        self._table = TransitionTable(limits.max_cells)
        self.schemas: list[tuple[tuple[str, ...], LoweredSchema]] = []
        """Each with its path, see ``Built``; includes those that no document satisfies."""

    def grammar_machine(self, composition: Composition) -> GrammarMachine:
        """Return the recogniser of any constraint except a schema alone.

        If no document satisfies a schema, the texts that need it are left out. Only if no text is
        left is the error of the first such schema raised.

        "First" follows the order of ``composition.holes``, which ``empty`` keeps.
        """
        # Machines and the traits of their texts, both by the number of the hole among those left:
        # ``without_holes`` renumbers these in the same order.
        fillings: list[PushdownMachine] = []
        texts: list[HoleText] = []
        empty: dict[int, UnsatisfiableError] = {}
        for number, hole in enumerate(composition.holes):
            try:
                with naming(hole.path):
                    fillings.append(self._filling(hole))
                    texts.append(_hole_text(fillings[-1]))
            except UnsatisfiableError as error:
                # Other parts may do without it, as they do without a pattern that matches nothing.
                empty[number] = error
        try:
            grammar = without_holes(composition.grammar, empty)
            network = network_from_grammar(grammar, self._missing, texts)
        except UnsatisfiableError:
            # An error that says where is more useful than one that says there is no text.
            for first in empty.values():
                raise first from None
            raise
        if not fillings:
            return GrammarMachine(network, self._limits, self._table)
        return CompositeMachine(network, fillings, self._table, self._limits)

    def _filling(self, hole: FilledHole) -> PushdownMachine:
        """Return the recogniser for the filling of a hole; raises what ``json_machine`` raises."""
        match hole.filling:
            case JsonSchema():
                return self.json_machine(hole.filling, hole.path)
            case BareString(schema=schema):
                lowered = lower_json_schema(schema)
                self.schemas.append((hole.path, lowered))
                return BareStringMachine(hole.filling, lowered.grammar, self._missing, self._table)

    def json_machine(self, schema: JsonSchema, path: tuple[str, ...] = ()) -> JsonMachine:
        """Return the recogniser of a schema's documents, on the table that all share.

        Raises UnsatisfiableError if there are no documents, and the other errors of ``machine_of``.
        """
        lowered, options = lower_json_schema(schema), schema.options
        self.schemas.append((path, lowered))
        grammar = lowered.grammar
        try:
            return JsonMachine(grammar, options, self._missing, self._limits, self._table)
        except UnsatisfiableError:
            if self._missing:
                # Distinguish what no text satisfies from what this vocabulary cannot spell: this
                # raises in the first case, and its result is not used in the second.
                JsonMachine(grammar, options, frozenset(), self._limits)
                raise UnsatisfiableError(
                    "every document needs bytes for which the model has no token",
                    hint="use a model whose tokenizer covers all bytes",
                ) from None
            raise


def _hole_text(machine: PushdownMachine) -> HoleText:
    """Describe the texts of a recogniser."""
    first = [byte for byte in range(256) if machine.step(machine.start, byte) is not None]
    return HoleText(frozenset(first), len(machine.shortest_completion(machine.start)))
