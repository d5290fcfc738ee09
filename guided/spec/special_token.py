"""One special token of the tokenizer as a constraint."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import InvalidConstraintError
from guided.spec import Structure, digest_of
from guided.spec.composition import Text

__all__ = ["SpecialToken"]

_LONGEST = 256


@dataclass(frozen=True, slots=True)
class SpecialToken(Structure):
    """Exactly one token, which the model's tokenizer has under this name beside those of text.

    It is known by its id: a text that spells the name is not it. The answer's text leaves out one
    that the tokenizer marks as special, and shows others (``</think>`` of Qwen 3) by their names.
    A tokenizer without it refuses the constraint.

    >>> Sequence([SpecialToken("<|python_tag|>"), JsonObject()])
    """

    name: str
    """As the tokenizer writes it, ``<tool_call>`` or ``[TOOL_CALLS]``."""

    def __post_init__(self) -> None:
        Text(self.name)
        if not 0 < len(self.name) <= _LONGEST:
            raise InvalidConstraintError(
                f"the name {self.name[:40]!r} of a special token has {len(self.name)} characters",
                hint=f"give one of 1 to {_LONGEST}, as the tokenizer has it",
            )

    def digest(self) -> str:
        return digest_of("special_token", self.name)
