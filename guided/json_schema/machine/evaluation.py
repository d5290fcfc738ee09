"""The services that decide what may still come in a document.

    TruthVectors          which formulas hold of a value
    ContainerCompletions  what completes an open container
    ValueStacks           which values leave a completion of all that is open around them
    NextNames             which names may come next in an object
    NextItems             which items may come next in an array

Each uses those above it. ``ContainerCompletions`` and ``ValueStacks`` also call each other, each
time for a container further out, up to the root.
"""

from __future__ import annotations

import functools
from typing import Final

from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.machine.arrays import ArrayRules
from guided.json_schema.machine.container_completions import ContainerCompletions
from guided.json_schema.machine.next_items import NextItems
from guided.json_schema.machine.next_names import NextNames
from guided.json_schema.machine.objects import ObjectRules
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Searches
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import AwaitedValue, Stacks
from guided.json_schema.machine.truth_vectors import TruthVectors
from guided.json_schema.machine.value_stacks import ValueStacks
from guided.machine.parts import RecognizerLimits
from guided.runtime.at_drop import AtDrop
from guided.spec import JsonOptions, Spelling

__all__ = ["Evaluation"]


class Evaluation:
    """Makes and holds the services of one machine, which share their caches.

    It only grows; not thread-safe.
    """

    def __init__(
        self,
        grammar: JsonGrammar,
        options: JsonOptions,
        unavailable_bytes: frozenset[int],
        limits: RecognizerLimits,
    ) -> None:
        """Make the services, each after those that it uses.

        Two cycles are closed afterwards: ``values.object`` and ``values.array`` are set here, and
        ``ValueStacks`` sets ``completions.accepted_vectors``. Nothing may be used before that, and
        nothing once the evaluation is gone: dropping it opens the cycles again.
        """
        self.grammar: Final = grammar
        """Held because nodes may be used only as long as their grammar exists."""
        self.restriction: Final = Restriction(grammar.formulas)
        self.scalars: Final = Scalars(
            grammar.formulas, options, unavailable_bytes, limits.max_string_start
        )
        self.searches: Final = Searches()
        self.values: Final = ShortestValues(self.restriction, self.scalars, self.searches)
        self.stacks: Final = Stacks(
            AwaitedValue(None, (grammar.root,), required=True), limits.max_stacks
        )
        self.objects: Final = ObjectRules(self.restriction, self.scalars, self.values, self.stacks)
        arrays = ArrayRules(
            grammar.formulas,
            self.restriction,
            self.values,
            options.max_array_items,
            any_spelling=options.spelling is Spelling.ANY,
        )
        vectors = TruthVectors(self.restriction, self.scalars, self.values)
        self.completions: Final = ContainerCompletions(
            vectors, self.objects, arrays, self.stacks, self.searches
        )
        # The shortest value of a formula may be a container, and so its shortest completion.
        self._at_drop: Final = AtDrop(functools.partial(_open_cycles, self.completions))
        self.values.object = self.completions.shortest_object
        self.values.array = self.completions.shortest_array
        self.value_stacks: Final = ValueStacks(vectors, self.completions)
        self.names: Final = NextNames(self.value_stacks)
        self.items: Final = NextItems(self.value_stacks)


def _open_cycles(completions: ContainerCompletions) -> None:
    """Undo what ``Evaluation`` and ``ValueStacks`` set afterwards."""
    values = completions.values
    values.object = values.array = lambda _: None
    completions.accepted_vectors = lambda _: ()
