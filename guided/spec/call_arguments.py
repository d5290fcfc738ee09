"""The arguments in a call of a function, as a part of the constraint that has a name."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import UnsatisfiableError
from guided.spec.structure import Structure, digest_of

__all__ = ["CallArguments", "no_arguments"]


def no_arguments(
    why: str | None = None, *, pointer: str | None = None, advice: str | None = None
) -> UnsatisfiableError:
    """Return the error of parameters that no arguments fit, at a place of them if one is known.

    ``advice`` says what to correct there.
    """
    return UnsatisfiableError(
        "no arguments fit, so the tool cannot be called" + (f": {why}" if why else ""),
        pointer=pointer,
        hint="correct its parameters, or leave the tool out" + (f": {advice}" if advice else ""),
    )


@dataclass(frozen=True, slots=True)
class CallArguments(Structure):
    """The arguments in a call, as the format writes them; without a text it is an error."""

    arguments: Structure
    field: str
    """The field of the request that the parameters came from, for errors."""

    def inner(self) -> tuple[Structure, ...]:
        return (self.arguments,)

    def digest_over(self, inner: list[str]) -> str:
        return digest_of("call_arguments", inner, self.field)
