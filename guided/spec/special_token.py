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
    """Exactly one special token, by the name that the model's tokenizer gives it.

    It is matched by its id: text that spells the name does not match. The answer's text omits a
    token that the tokenizer marks as special, and shows others (``</think>`` of Qwen 3) by their
    names. With a tokenizer that lacks the token, the constraint is refused.

    >>> Sequence([SpecialToken("<|python_tag|>"), JsonObject()])
    """

    name: str
    """Its name in the tokenizer, e.g. ``<tool_call>`` or ``[TOOL_CALLS]``."""

    def __post_init__(self) -> None:
        Text(self.name)
        if not 0 < len(self.name) <= _LONGEST:
            raise InvalidConstraintError(
                f"the name {self.name[:40]!r} of a special token has {len(self.name)} characters",
                hint=f"give one of 1 to {_LONGEST}, as the tokenizer has it",
            )

    def digest(self) -> str:
        return digest_of("special_token", self.name)
