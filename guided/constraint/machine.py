"""Build the recogniser of bytes for a constraint of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from guided.errors import LimitExceededError, UnsatisfiableError, naming
from guided.grammar import context_free as cf
from guided.grammar.composition import (
    Composition,
    FilledHole,
    drop_empty_holes,
    lower_composition,
    required_holes,
)
from guided.grammar.machine.composite_machine import CompositeMachine
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import HoleText, check_has_text, network_from_grammar
from guided.json_schema.machine.bare_strings import BareStringMachine
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.machine.look_ahead import look_ahead
from guided.json_schema.reader import LoweredSchema, ParsedTexts, lower_json_schema
from guided.machine.parts import RecognizerLimits
from guided.machine.recognizer import Recognizer
from guided.machine.table import TransitionTable
from guided.runtime.depth import call_on_new_stack
from guided.runtime.tracebacks import drop_tracebacks
from guided.runtime.work_budget import renewed_work
from guided.spec import JsonSchema, Structure
from guided.spec.bare_string import BareString
from guided.spec.call_arguments import no_arguments

__all__ = ["BuiltMachine", "build_machine", "machine_of"]


@dataclass(frozen=True, slots=True)
class BuiltMachine:
    """A recogniser, and the schemas it was built from."""

    machine: Recognizer
    schemas: tuple[tuple[tuple[str, ...], LoweredSchema], ...]
    """Each with the parts of the constraint around it, outermost first."""
    special: frozenset[str] = frozenset()
    """The names of the special tokens that occur in its texts."""


def machine_of(
    constraint: Structure,
    unavailable_bytes: frozenset[int] = frozenset(),
    limits: RecognizerLimits | None = None,
) -> Recognizer:
    """Return the recogniser of a constraint's texts that need none of the ``unavailable_bytes``.

    Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
    LimitExceededError.
    """
    return build_machine(constraint, unavailable_bytes, limits).machine


def build_machine(
    constraint: Structure,
    unavailable_bytes: frozenset[int] = frozenset(),
    limits: RecognizerLimits | None = None,
) -> BuiltMachine:
    """Return the recogniser of a constraint, and its schemas; raises what ``machine_of`` raises.

    ``unavailable_bytes`` are bytes that no text may need. A schema alone gets a machine without a
    grammar, and ``look_ahead`` runs on it.
    """
    builder = _Builder(unavailable_bytes, limits or RecognizerLimits())
    if isinstance(constraint, JsonSchema):
        machine = builder.json_machine(constraint)
        look_ahead(machine)
        return BuiltMachine(machine, tuple(builder.schemas))
    # Passes over grammars recurse as deep as rules nest, and our caller may be deep already.
    return call_on_new_stack(partial(_build_grammar, constraint, builder))


def _build_grammar(constraint: Structure, builder: _Builder) -> BuiltMachine:
    """Compute ``build_machine`` for all constraints except a schema alone."""
    composition = lower_composition(constraint)
    try:
        whole = builder.grammar_machine(composition)
    except (UnsatisfiableError, LimitExceededError) as error:
        builder.check_inputs(composition)
        if isinstance(error, UnsatisfiableError):
            builder.check_arguments(composition)
        raise
    builder.check_input_texts(composition)
    builder.check_arguments(composition)
    return BuiltMachine(whole, tuple(builder.schemas), composition.special)


class _Builder:
    """Builds the recognisers of one constraint on one table; to be used once."""

    def __init__(self, unavailable_bytes: frozenset[int], limits: RecognizerLimits) -> None:
        """``unavailable_bytes`` are those without a token, so no text may need them."""
        self._unavailable_bytes = unavailable_bytes
        self._limits = limits
        self._table = TransitionTable(limits.max_cells)
        self._parsed = ParsedTexts()
        self.schemas: list[tuple[tuple[str, ...], LoweredSchema]] = []
        """Each with its path, see ``BuiltMachine``; includes those that no document satisfies."""
        self._texts: list[HoleText] = []
        """Those of the holes that have any, in the order of ``composition.holes``."""
        self._empty: dict[int, UnsatisfiableError] = {}
        """Why a hole has no text, by its index in ``composition.holes``."""

    def grammar_machine(self, composition: Composition) -> GrammarMachine:
        """Return the recogniser of any constraint except a schema alone.

        Texts that need a hole without a text, or without one that the vocabulary can spell, are
        left out. If no text is left, the error of the first such hole is raised, in the order of
        ``composition.holes``.
        """
        # By the index of the hole among those left, as ``drop_empty_holes`` renumbers them.
        fillings: list[Recognizer] = []
        for index, hole in enumerate(composition.holes):
            try:
                with naming(hole.path):
                    fillings.append(self._filling(hole))
                    self._texts.append(_hole_text(fillings[-1]))
            except UnsatisfiableError as error:
                # Its traceback refers to this frame, and so to what would keep it.
                drop_tracebacks(error)
                # Other alternatives may be possible without it.
                self._empty[index] = error
        try:
            grammar = drop_empty_holes(composition.grammar, self._empty)
            network = network_from_grammar(grammar, self._unavailable_bytes, self._texts)
        except UnsatisfiableError:
            # The error of a schema says where; that of the whole only says that there is no text.
            for first in self._empty.values():
                raise first from None
            raise
        if not fillings:
            return GrammarMachine(network, self._limits, self._table)
        return CompositeMachine(network, fillings, self._limits, self._table)

    def check_inputs(self, composition: Composition) -> None:
        """Raise the error of the first input of a custom tool that fails on its own, with its name.

        For a composition that failed as a whole. All inputs may take as much work as the whole.
        """
        with renewed_work():
            for field, one in composition.inputs.items():
                with naming((field,), field=field):
                    grammar = composition.grammar_of(one.body)
                    network = network_from_grammar(grammar, self._unavailable_bytes)
                    GrammarMachine(network, self._limits, TransitionTable(self._limits.max_cells))

    def check_input_texts(self, composition: Composition) -> None:
        """Raise UnsatisfiableError for the first input of a custom tool without a text.

        Where the answer may do without that tool, the composition as a whole has texts.
        """
        with renewed_work():
            for field, one in composition.inputs.items():
                with naming((field,), field=field):
                    bytes_left_out = self._unavailable_bytes | one.rare_bytes
                    try:  # most have such a text, and what the format forbids costs most
                        check_has_text(composition.grammar_of(one.any_text), bytes_left_out)
                    except UnsatisfiableError:
                        grammar = composition.grammar_of(one.body)
                        check_has_text(grammar, self._unavailable_bytes)

    def check_arguments(self, composition: Composition) -> None:
        """Raise UnsatisfiableError for the first function whose parameters no arguments fit.

        For holes that ``grammar_machine`` has filled. Where the answer may do without that
        function, the composition as a whole has texts.
        """
        # A field is the name of a rule here, and no rule of a grammar has such a name. Empty holes
        # are dropped from all rules at once: there may be many functions, each with many rules.
        rules = {**composition.grammar.rules, **composition.arguments}
        with renewed_work():
            every = cf.ContextFreeGrammar(rules, composition.grammar.start)
            filled = drop_empty_holes(every, self._empty).rules
            for field, body in composition.arguments.items():
                with naming((field,), field=field):
                    for hole in required_holes(body):
                        cause = self._empty.get(hole.number)
                        if cause is None:
                            continue
                        if isinstance(composition.holes[hole.number].filling, BareString):
                            raise cause from None  # it tells what cannot be written there
                        raise no_arguments(pointer=cause.pointer, advice=cause.hint) from None
                    if isinstance(body, cf.Hole):
                        continue  # it has a text
                    grammar = cf.ContextFreeGrammar(filled, field)
                    try:
                        check_has_text(grammar, self._unavailable_bytes, self._texts)
                    except UnsatisfiableError:
                        raise no_arguments() from None

    def _filling(self, hole: FilledHole) -> Recognizer:
        """Return the recogniser for the filling of a hole; raises what ``json_machine`` raises."""
        match hole.filling:
            case JsonSchema():
                return self.json_machine(hole.filling, hole.path)
            case BareString(schema=schema):
                lowered = lower_json_schema(schema, self._parsed)
                self.schemas.append((hole.path, lowered))
                return BareStringMachine(
                    hole.filling, lowered.grammar, self._unavailable_bytes, self._table
                )

    def json_machine(self, schema: JsonSchema, path: tuple[str, ...] = ()) -> JsonMachine:
        """Return the recogniser of a schema's documents, on the table that all share.

        Raises UnsatisfiableError if there are no documents, and the other errors of ``machine_of``.
        """
        lowered, options = lower_json_schema(schema, self._parsed), schema.options
        self.schemas.append((path, lowered))
        grammar = lowered.grammar
        try:
            return JsonMachine(grammar, options, self._unavailable_bytes, self._limits, self._table)
        except UnsatisfiableError as error:
            if self._unavailable_bytes:
                # The next error has this one, and its traceback, as its context.
                drop_tracebacks(error)
                # Distinguish what no text satisfies from what this vocabulary cannot spell: this
                # raises in the first case, and its result is not used in the second.
                JsonMachine(grammar, options, frozenset(), self._limits)
                raise UnsatisfiableError(
                    "every document needs bytes for which the model has no token",
                    hint="use a model whose tokenizer covers all bytes",
                ) from None
            raise


def _hole_text(machine: Recognizer) -> HoleText:
    """Return the first bytes and the shortest length of the texts of a recogniser."""
    first = [byte for byte in range(256) if machine.step(machine.start, byte) is not None]
    return HoleText(frozenset(first), len(machine.shortest_completion(machine.start)))
