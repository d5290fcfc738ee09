"""Documents, evaluated as they are written: the parts that know what may still come.

    TruthVectors    which formulas hold of a value
    ContainerEnds   what completes an open container
    AwaitedValues   which values leave a completion of all that is open around them
    NextNames       which names may come next in an object
    NextItems       which items may come next in an array

Each relies on those above it. ``ContainerEnds`` and ``AwaitedValues`` call each other by turns,
for containers further and further out.
"""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.machine.arrays import ArrayRules
from guided.json_schema.machine.awaited_values import AwaitedValues
from guided.json_schema.machine.container_completions import ContainerCompletions
from guided.json_schema.machine.next_items import NextItems
from guided.json_schema.machine.next_names import NextNames
from guided.json_schema.machine.objects import ObjectRules
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Searches
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import Pending, Stacks
from guided.json_schema.machine.truth_vectors import TruthVectors
from guided.spec import JsonOptions

__all__ = ["Evaluation"]


class Evaluation:
    """All that is known about the documents of one grammar; the parts share what they find out.

    There is one for each machine, and it only grows; not thread-safe.
    """

    def __init__(
        self,
        grammar: JsonGrammar,
        options: JsonOptions,
        missing: frozenset[int],
        max_stacks: int,
    ) -> None:
        """Make the parts, each after those that it relies on.

        ``ends`` needs ``values``, which needs ``ends`` for containers: so ``values.object`` and
        ``values.array`` are set afterwards, and ``AwaitedValues`` sets ``ends.accepted``. The parts
        may not be used before that.
        """
        self.restriction: Final = Restriction(grammar.formulas)
        self.scalars: Final = Scalars(grammar.formulas, options, missing)
        self.searches: Final = Searches()
        self.values: Final = ShortestValues(self.restriction, self.scalars, self.searches)
        self.stacks: Final = Stacks(Pending(None, (grammar.root,), must=True), max_stacks)
        self.objects: Final = ObjectRules(self.restriction, self.scalars, self.values, self.stacks)
        arrays = ArrayRules(grammar.formulas, self.restriction, self.values)
        truths = TruthVectors(self.restriction, self.scalars, self.values)
        self.ends: Final = ContainerCompletions(
            truths, self.objects, arrays, self.stacks, self.searches
        )
        # The shortest value of a formula may be a container, and so its shortest completion.
        self.values.object = self.ends.shortest_object
        self.values.array = self.ends.shortest_array
        self.awaited: Final = AwaitedValues(truths, self.ends)
        self.names: Final = NextNames(self.awaited)
        self.items: Final = NextItems(self.awaited)
