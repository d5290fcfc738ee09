"""Free text with tags, each of which begins a constraint: tool calls, sections of reasoning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from guided.errors import InvalidConstraintError
from guided.spec import Structure, check_nesting, digest_of, word_of
from guided.spec.composition import Part, Text, as_structure

__all__ = ["Calls", "FreeText", "Tag", "Tagged", "Until"]


@dataclass(frozen=True, slots=True)
class FreeText(Structure):
    """Any text that contains none of the given texts."""

    without: tuple[str, ...] = ()

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, without: str | Iterable[str] = ()) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "without", _texts(self.without, "text"))

    def digest(self) -> str:
        return digest_of("free_text", self.without)


@dataclass(frozen=True, slots=True)
class Until(Structure):
    """Any text up to and including the first occurrence of one of the given texts.

    >>> Sequence([Until("</think>"), JsonObject()])
    """

    ends: tuple[str, ...]

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, ends: str | Iterable[str]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", _texts(self.ends, "end"))
        if not self.ends:
            raise InvalidConstraintError("the text has no end")

    def digest(self) -> str:
        return digest_of("until", self.ends)


@dataclass(frozen=True, slots=True)
class Tag:
    """A region of a text: its beginning, its body, and its end."""

    begin: str
    body: Structure
    end: str = ""

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, begin: str, body: Part, end: str = "") -> None: ...

    def __post_init__(self) -> None:
        _texts((self.begin,), "beginning of the tag")
        Text(self.end)
        object.__setattr__(self, "body", as_structure(self.body, f"the tag {self.begin!r}"))


class Calls(StrEnum):
    """Whether a text has tags in it."""

    AUTO = "auto"
    """Any number of tags."""
    REQUIRED = "required"
    """At least one tag."""
    NONE = "none"
    """No tag."""


@dataclass(frozen=True, slots=True)
class Tagged(Structure):
    """Free text with tags in it.

    Where a trigger first ends, one of the tags that begin with it has begun. After that tag's end
    the free text continues. Without triggers, the beginnings of the tags are the triggers.
    """

    tags: tuple[Tag, ...]
    triggers: tuple[str, ...] = ()
    calls: Calls = Calls.AUTO
    parallel: bool = True
    """Whether there may be more than one tag."""

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(
            self,
            tags: Iterable[Tag],
            triggers: str | Iterable[str] = (),
            calls: Calls | Literal["auto", "required", "none"] = Calls.AUTO,
            parallel: bool = True,
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.tags, str) or not isinstance(self.tags, Iterable):
            raise InvalidConstraintError(f"{self.tags!r} is no list of tags", hint="pass a list")
        tags = tuple(self.tags)
        for tag in tags:
            if not isinstance(tag, Tag):
                raise InvalidConstraintError(f"{tag!r} is no guided.Tag")
        if not tags:
            raise InvalidConstraintError("there are no tags")
        triggers = _texts(self.triggers, "trigger") or _texts([tag.begin for tag in tags], "tag")
        object.__setattr__(self, "tags", tags)
        object.__setattr__(self, "triggers", triggers)
        object.__setattr__(self, "calls", word_of(Calls, self.calls, "calls", "constraint"))
        if not isinstance(self.parallel, bool):
            raise InvalidConstraintError(
                f"parallel is {self.parallel!r}", hint="pass True or False"
            )
        check_nesting(self)
        self._check_triggers()

    def _check_triggers(self) -> None:
        by_trigger = self.by_trigger()
        triggered = {index for indices in by_trigger.values() for index in indices}
        for index, tag in enumerate(self.tags):
            if index not in triggered:
                raise InvalidConstraintError(
                    f"the tag {tag.begin[:40]!r} begins with none of the triggers",
                    hint="leave the triggers out, or add what it begins with",
                )
        for trigger, indices in by_trigger.items():
            if not indices:
                raise InvalidConstraintError(
                    f"no tag begins with the trigger {trigger[:40]!r}",
                    hint="leave it out; FreeText says what a text must not have in it",
                )

    def by_trigger(self) -> dict[str, list[int]]:
        """Return for each trigger the indices of the tags that begin with it."""
        by_trigger: dict[str, list[int]] = {trigger: [] for trigger in self.triggers}
        # There are far fewer lengths than triggers.
        lengths = sorted(set(map(len, self.triggers)))
        for index, tag in enumerate(self.tags):
            for length in lengths:
                if length > len(tag.begin):
                    break
                if (indices := by_trigger.get(tag.begin[:length])) is not None:
                    indices.append(index)
        return by_trigger

    def inner(self) -> tuple[Structure, ...]:
        return tuple(tag.body for tag in self.tags)

    def digest_over(self, inner: list[str]) -> str:
        pairs = zip(self.tags, inner, strict=True)
        tags = [(tag.begin, digest, tag.end) for tag, digest in pairs]
        return digest_of("tagged", (tags, self.triggers, self.calls, self.parallel))


def _texts(given: object, what: str) -> tuple[str, ...]:
    """Check that ``given`` is one text or a list of texts; returns them without repetitions."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Iterable):
        raise InvalidConstraintError(f"{given!r} is no list of texts")
    found = list(texts)
    for text in found:
        if not isinstance(text, str):
            raise InvalidConstraintError(f"the {what} {text!r} is no text")
        if not text:
            raise InvalidConstraintError(f"the {what} is empty")
        Text(text)
    return tuple(dict.fromkeys(found))
