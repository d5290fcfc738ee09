"""Constraints made of other constraints: sequences, alternatives, repetitions, templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

from guided.errors import InvalidConstraintError, LimitExceededError
from guided.spec import JsonOptions, JsonSchema, Structure, check_nesting, digest_of, named_pairs
from guided.spec.option import sorted_by_name

__all__ = [
    "MAX_REPEATS",
    "MAX_TEXT_LENGTH",
    "AnyOf",
    "JsonObject",
    "Part",
    "Repeat",
    "Sequence",
    "Template",
    "Text",
    "as_structure",
]

MAX_REPEATS = 1_000_000
MAX_TEXT_LENGTH = 50_000
"""Most characters of a text."""

Part = Structure | str
"""A part of a constraint; a string means that text."""


class JsonObject(JsonSchema):
    """Any JSON object."""

    __slots__ = ()

    def __init__(self, options: JsonOptions | None = None) -> None:
        super().__init__('{"type": "object"}', options or JsonOptions())


@dataclass(frozen=True, slots=True)
class Text(Structure):
    """Exactly this text."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidConstraintError(f"the text {self.text!r} is no string")
        if len(self.text) > MAX_TEXT_LENGTH:
            raise LimitExceededError(
                f"the text {self.text[:40]!r}… has {len(self.text)} characters,"
                f" more than {MAX_TEXT_LENGTH}",
                limit=MAX_TEXT_LENGTH,
                field="constraint",
            )
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise InvalidConstraintError(
                f"the text {self.text[:40]!r} holds a surrogate, which is half of a character",
                position=error.start,
            ) from error

    def digest(self) -> str:
        return digest_of("text", self.text)


@dataclass(frozen=True, slots=True)
class Sequence(Structure):
    """A text of each part, one after another; without parts, the empty text.

    >>> Sequence(["Answer: ", JsonObject(), "\\n"])
    """

    parts: tuple[Structure, ...]

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, parts: Iterable[Part]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _as_structures(self.parts, "part"))
        check_nesting(self)

    def inner(self) -> tuple[Structure, ...]:
        return self.parts

    def digest_over(self, inner: list[str]) -> str:
        return digest_of("sequence", inner)


@dataclass(frozen=True, slots=True)
class AnyOf(Structure):
    """A text of any one of several constraints."""

    alternatives: tuple[Structure, ...]

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, alternatives: Iterable[Part]) -> None: ...

    def __post_init__(self) -> None:
        alternatives = _as_structures(self.alternatives, "alternative")
        if not alternatives:
            raise InvalidConstraintError("there are no alternatives")
        object.__setattr__(self, "alternatives", alternatives)
        check_nesting(self)

    def inner(self) -> tuple[Structure, ...]:
        return self.alternatives

    def digest_over(self, inner: list[str]) -> str:
        return digest_of("any_of", inner)


@dataclass(frozen=True, slots=True)
class Repeat(Structure):
    """At least ``least`` and at most ``most`` texts of a part in a row; ``None`` is no bound."""

    part: Structure
    least: int = 0
    most: int | None = None

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, part: Part, least: int = 0, most: int | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", as_structure(self.part, "repeated part"))
        for name, bound in (("least", self.least), ("most", self.most)):
            if bound is None and name == "most":
                continue
            if not isinstance(bound, int) or isinstance(bound, bool) or bound < 0:
                raise InvalidConstraintError(f"{name} {bound!r} is no number of repeats")
            if bound > MAX_REPEATS:
                raise LimitExceededError(
                    f"{name} {bound} is above {MAX_REPEATS}",
                    limit=MAX_REPEATS,
                    field="constraint",
                    hint="leave most out where no bound is meant",
                )
        if self.most is not None and self.most < self.least:
            raise InvalidConstraintError(f"most {self.most} is below least {self.least}")
        check_nesting(self)

    def inner(self) -> tuple[Structure, ...]:
        return (self.part,)

    def digest_over(self, inner: list[str]) -> str:
        return digest_of("repeat", (*inner, self.least, self.most))


@dataclass(frozen=True, slots=True)
class Template(Structure):
    """A text with holes in braces, each filled by a text of the constraint of that name.

    >>> Template("Name: {name}\\nAge: {age}", name=Regex("[A-Z][a-z]+"), age=Regex("[0-9]{1,3}"))

    A hole may occur in several places; each is filled independently. ``{{`` and ``}}`` are braces.
    """

    text: str
    holes: tuple[tuple[str, Structure], ...]
    """Name and constraint of each hole, ordered by name."""

    def __init__(
        self,
        text: str,
        holes: Mapping[str, Part] | Iterable[tuple[str, Part]] = (),
        /,
        **more: Part,
    ) -> None:
        object.__setattr__(self, "text", text)
        # Checked as a text first, so that a very long one is refused before it is parsed.
        Text(text)
        given = [*named_pairs(holes, "holes"), *more.items()]
        filled = [(name, as_structure(part, f"hole {name!r}")) for name, part in given]
        used = {name for _, name in self.pieces() if name is not None}
        holes = sorted_by_name(filled, "the hole {!r} is given twice")
        object.__setattr__(self, "holes", holes)
        names = [name for name, _ in holes]
        for name in names:
            if name not in used:
                raise InvalidConstraintError(
                    f"the text has no hole {name!r}", hint=f"write {{{name}}} where it is to stand"
                )
        for name in sorted(used.difference(names)):
            raise InvalidConstraintError(
                f"nothing is given for the hole {name!r}",
                position=text.find(f"{{{name}}}"),
                hint=f"pass {name}=..., or double the braces where they are part of the text",
            )
        check_nesting(self)

    def pieces(self) -> list[tuple[str, str | None]]:
        """Return the fixed texts, each with the name of the hole that follows, or ``None``.

        Raises InvalidConstraintError for a single brace, and for braces around anything but a name.
        """
        if not isinstance(self.text, str):
            raise InvalidConstraintError(f"the text {self.text!r} is no string")
        try:
            parsed = list(Formatter().parse(self.text))
        except ValueError as error:
            raise InvalidConstraintError(
                f"the text cannot be read: {error}".lower(),
                hint="write {{ and }} for braces that are part of the text",
            ) from error
        for _, name, form, conversion in parsed:
            if name is not None and (form or conversion or not name.isidentifier()):
                raise InvalidConstraintError(
                    f"{name[:40]!r} is not the name of a hole",
                    hint="holes are written {name}, and {{ and }} are braces",
                )
        return [(Text(fixed).text, name) for fixed, name, _, _ in parsed]

    def inner(self) -> tuple[Structure, ...]:
        return tuple(part for _, part in self.holes)

    def digest_over(self, inner: list[str]) -> str:
        holes = [(name, digest) for (name, _), digest in zip(self.holes, inner, strict=True)]
        return digest_of("template", (self.text, holes))


def _as_structures(given: object, what: str) -> tuple[Structure, ...]:
    if isinstance(given, str | Structure) or not isinstance(given, Iterable):
        raise InvalidConstraintError(f"{given!r} is no list of {what}s", hint="pass a list")
    numbered = enumerate(given, start=1)
    return tuple(as_structure(part, f"{what} {number}") for number, part in numbered)


def as_structure(given: object, what: str) -> Structure:
    """Return a part as a constraint; raises InvalidConstraintError for what is none."""
    part = Text(given) if isinstance(given, str) else given
    if not isinstance(part, Structure):
        raise InvalidConstraintError(
            f"{what} is {type(given).__name__}, no constraint",
            hint="pass a constraint such as guided.JsonSchema(text), or a string",
        )
    return part
