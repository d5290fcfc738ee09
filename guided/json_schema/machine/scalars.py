"""Strings and numbers, as one recogniser spells them."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.formula import Formulas
from guided.json_schema.machine.number_rules import NumberRules
from guided.json_schema.machine.scalar_blocks import Signatures
from guided.json_schema.machine.shortest_strings import ShortestStrings
from guided.json_schema.machine.string_rules import StringRules
from guided.spec import JsonOptions

__all__ = ["Scalars"]


class Scalars:
    """The rules of strings and numbers of one recogniser.

    ``unavailable_bytes`` are those without a token; ``max_string_start`` is explained at
    ``RecognizerLimits``. The formulas passed in are restricted to strings or to numbers
    (``Restriction.to_type``).
    """

    def __init__(
        self,
        formulas: Formulas,
        options: JsonOptions,
        unavailable_bytes: frozenset[int],
        max_string_start: int,
    ) -> None:
        self.formulas: Final = formulas
        self.options: Final = options
        self.unavailable_bytes: Final = unavailable_bytes
        # Keys of the blocks that schemas share; one cache of them for both.
        signatures = Signatures()
        self.strings: Final = StringRules(
            formulas, options, unavailable_bytes, max_string_start, signatures
        )
        self.shortest_strings: Final = ShortestStrings(self.strings)
        self.numbers: Final = NumberRules(formulas, options, unavailable_bytes, signatures)
