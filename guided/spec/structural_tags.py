"""Reads structural tags in JSON, which engines pass for tool calls and for sections of a text.

It reads both forms of xgrammar. The older one lists tags, each with a schema inside, and the texts
that trigger them; the newer one is a tree of formats::

    {"structures": [{"begin": "<f>", "schema": {...}, "end": "</f>"}], "triggers": ["<f"]}
    {"type": "structural_tag", "format": {"type": "sequence", "elements": [...]}}

An unknown format, or an unknown field of one, is refused instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from guided.errors import InvalidConstraintError, UnsupportedFeatureError, naming
from guided.spec.composition import AnyOf, Repeat, Sequence, Text
from guided.spec.constraints import Ebnf, Regex
from guided.spec.exact_json import check_text_values, read_exact
from guided.spec.structure import MAX_NESTING, Structure
from guided.spec.tagged import Calls, FreeText, Tag, Tagged, Until

__all__ = ["read_structural_tag", "structural_tag_of"]

_Schema: TypeAlias = Callable[[object], Structure]
_Given: TypeAlias = Mapping[str, Any]

_REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "any_text": (),
    "const_string": ("value",),
    "grammar": ("grammar",),
    "json_schema": ("json_schema",),
    "optional": ("content",),
    "or": ("elements",),
    "plus": ("content",),
    "regex": ("pattern",),
    "repeat": ("min", "max", "content"),
    "sequence": ("elements",),
    "star": ("content",),
    "tag": ("begin", "content", "end"),
    "tags_with_separator": ("tags", "separator"),
    "triggered_tags": ("triggers", "tags"),
}
"""The required fields of each known format."""

_TAG_OPTIONS: Final = {"at_least_one": bool, "stop_after_first": bool}
_OPTIONAL_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    "any_text": {"excludes": list},
    "tags_with_separator": _TAG_OPTIONS,
    "triggered_tags": _TAG_OPTIONS,
}
"""The optional fields of formats, with their types. Other fields may only have values of
``_VALUES_WITHOUT_EFFECT``.
"""
_VALUES_WITHOUT_EFFECT: Final[tuple[object, ...]] = (None, False, "json", [])


def read_structural_tag(text: str, schema: _Schema) -> Structure:
    """Return the constraint of a structural tag; ``schema`` makes those of its JSON Schemas.

    Raises ConstraintError for an invalid structural tag, and names an unknown format;
    LimitExceededError for a text of very many values.
    """
    check_text_values(text, "the parts of the structural tag", "constraint")
    try:
        given = read_exact(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConstraintError(
            f"the structural tag is not JSON: {error}", hint="pass an object as JSON"
        ) from error
    return structural_tag_of(given, schema)


def structural_tag_of(given: object, schema: _Schema) -> Structure:
    """Return the constraint of a structural tag whose JSON is parsed already.

    ``schema`` and errors are those of ``read_structural_tag``.
    """
    reader = _Reader(schema)
    if isinstance(given, dict) and "structures" in given:
        return reader.read_old_form(given)
    if not isinstance(given, dict) or "format" not in given:
        raise InvalidConstraintError(
            "the structural tag has neither a format nor structures",
            pointer="",
            hint='pass {"type": "structural_tag", "format": ...}',
        )
    return reader.read(given["format"], "/format")


class _Reader:
    """Reads formats; each method takes an object and its JSON pointer, for errors."""

    def __init__(self, schema: _Schema) -> None:
        self._schema = schema

    def read_old_form(self, given: _Given) -> Structure:
        """Return the constraint of the older form: free text with tags in it."""
        _refuse_unknown_fields(given, ("type", "structures", "triggers"), "the structural tag", "")
        tags = []
        for index, one in enumerate(_read_field(given, "structures", list, "")):
            pointer = f"/structures/{index}"
            begin, end = (_read_field(one, name, str, pointer) for name in ("begin", "end"))
            _refuse_unknown_fields(one, ("begin", "schema", "end"), "the tag", pointer)
            if "schema" not in one:
                raise _error("there is no schema", pointer)
            tags.append(Tag(begin, self._of_schema(one["schema"], f"{pointer}/schema"), end))
        return Tagged(tags, _read_field(given, "triggers", list, ""))

    def read(self, given: object, pointer: str) -> Structure:
        """Return the constraint of one format."""
        if pointer.count("/") > 3 * MAX_NESTING:
            raise _error("the formats nest too deeply", pointer)
        kind = _read_field(given, "type", str, pointer)
        assert isinstance(given, dict)
        if kind not in _REQUIRED_FIELDS:
            raise UnsupportedFeatureError(
                f"the format {kind!r} cannot be enforced",
                pointer=pointer,
                hint=f"known are {', '.join(_REQUIRED_FIELDS)}",
            )
        _check_fields(given, kind, pointer)
        made: Structure = getattr(self, f"_{kind}")(given, pointer)
        return made

    def _of_schema(self, schema: object, pointer: str) -> Structure:
        with naming((f"the schema at {pointer}",)):
            return self._schema(schema)

    def _all(self, given: _Given, pointer: str) -> list[Structure]:
        elements = _read_field(given, "elements", list, pointer)
        return [self.read(each, f"{pointer}/elements/{n}") for n, each in enumerate(elements)]

    def _content(self, given: _Given, pointer: str) -> Structure:
        return self.read(given["content"], f"{pointer}/content")

    # --- one method per format, named after it -------------------------------------------------

    def _any_text(self, given: _Given, pointer: str) -> Structure:
        return FreeText(_read_field(given, "excludes", list, pointer, []))

    def _const_string(self, given: _Given, pointer: str) -> Structure:
        return Text(_read_field(given, "value", str, pointer))

    def _grammar(self, given: _Given, pointer: str) -> Structure:
        return Ebnf(_read_field(given, "grammar", str, pointer))

    def _json_schema(self, given: _Given, pointer: str) -> Structure:
        return self._of_schema(given["json_schema"], f"{pointer}/json_schema")

    def _optional(self, given: _Given, pointer: str) -> Structure:
        return Repeat(self._content(given, pointer), 0, 1)

    def _or(self, given: _Given, pointer: str) -> Structure:
        return AnyOf(self._all(given, pointer))

    def _plus(self, given: _Given, pointer: str) -> Structure:
        return Repeat(self._content(given, pointer), 1)

    def _regex(self, given: _Given, pointer: str) -> Structure:
        return Regex(_read_field(given, "pattern", str, pointer))

    def _repeat(self, given: _Given, pointer: str) -> Structure:
        least, most = (_read_field(given, name, int, pointer) for name in ("min", "max"))
        return Repeat(self._content(given, pointer), least, None if most == -1 else most)

    def _sequence(self, given: _Given, pointer: str) -> Structure:
        return Sequence(self._all(given, pointer))

    def _star(self, given: _Given, pointer: str) -> Structure:
        return Repeat(self._content(given, pointer))

    def _tag(self, given: _Given, pointer: str) -> Structure:
        return Sequence(
            [_read_field(given, "begin", str, pointer), self._rest_of_tag(given, pointer)]
        )

    def _rest_of_tag(self, given: _Given, pointer: str) -> Structure:
        """Return what follows the beginning of a tag, including its end."""
        end = given["end"]
        ends = [end] if isinstance(end, str) else _read_field(given, "end", list, pointer)
        content = given["content"]
        is_any = isinstance(content, dict) and content.get("type") == "any_text"
        if is_any and not content.get("excludes") and ends != [""]:
            _check_fields(content, "any_text", f"{pointer}/content")
            return Until(ends)  # not a text that contains an end and is followed by another
        return Sequence([self._content(given, pointer), AnyOf(map(Text, ends))])

    def _tags(self, given: _Given, pointer: str) -> list[tuple[str, Structure]]:
        """Return the beginning of each tag, and what follows it."""
        tags = []
        for index, tag in enumerate(_read_field(given, "tags", list, pointer)):
            at = f"{pointer}/tags/{index}"
            if not isinstance(tag, dict) or tag.get("type", "tag") != "tag":
                raise _error("this is no tag", at)
            _check_fields(tag, "tag", at)
            tags.append((_read_field(tag, "begin", str, at), self._rest_of_tag(tag, at)))
        return tags

    def _tags_with_separator(self, given: _Given, pointer: str) -> Structure:
        tag = AnyOf([Sequence([begin, rest]) for begin, rest in self._tags(given, pointer)])
        more = Repeat(Sequence([_read_field(given, "separator", str, pointer), tag]))
        tags = tag if given.get("stop_after_first") else Sequence([tag, more])
        return tags if given.get("at_least_one") else Repeat(tags, 0, 1)

    def _triggered_tags(self, given: _Given, pointer: str) -> Structure:
        triggers = _read_field(given, "triggers", list, pointer)
        tags = self._tags(given, pointer)
        calls = Calls.REQUIRED if given.get("at_least_one") else Calls.AUTO
        tagged = Tagged([Tag(begin, rest) for begin, rest in tags], triggers, calls)
        if not given.get("stop_after_first"):
            return tagged
        free = FreeText(triggers)
        one = Sequence([free, AnyOf([Sequence([begin, rest]) for begin, rest in tags])])
        return one if given.get("at_least_one") else AnyOf([free, one])


def _check_fields(given: _Given, kind: str, pointer: str) -> None:
    """Raise ConstraintError if a field is missing, or if an unknown one has an effect."""
    for name in _REQUIRED_FIELDS[kind]:
        if name not in given:
            raise _error(f"the format {kind!r} has no {name}", pointer)
    choices = _OPTIONAL_FIELDS.get(kind, {})
    for name in choices.keys() & given.keys():
        _read_field(given, name, choices[name], pointer)
    _refuse_unknown_fields(
        given, ("type", *_REQUIRED_FIELDS[kind], *choices), f"the format {kind!r}", pointer
    )


def _refuse_unknown_fields(given: _Given, known: tuple[str, ...], what: str, pointer: str) -> None:
    """Raise UnsupportedFeatureError for an unknown field that would have an effect.

    ``what`` names the object in the message, ``pointer`` is its JSON pointer.
    """
    for name, value in given.items():
        if name not in known and value not in _VALUES_WITHOUT_EFFECT:
            raise UnsupportedFeatureError(
                f"{name} of {what} cannot be enforced",
                pointer=f"{pointer}/{name}",
                hint="leave it out",
            )


def _read_field(parent: object, name: str, kind: type, pointer: str, default: Any = ...) -> Any:
    """Return a field of an object; raises InvalidConstraintError if it is missing or mistyped.

    Without a ``default`` the field is required. ``kind`` is a type in ``_NAME_BY_TYPE``, and a bool
    is no int. ``pointer`` is that of the object, for errors.
    """
    if not isinstance(parent, dict):
        raise _error("this is no object", pointer)
    value = parent.get(name, default)
    if value is ...:
        raise _error(f"there is no {name}", pointer)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _error(f"{name} is no {_NAME_BY_TYPE[kind]}", f"{pointer}/{name}")
    return value


_NAME_BY_TYPE: Final = {str: "text", list: "list", int: "integer", bool: "truth value"}


def _error(what: str, pointer: str) -> InvalidConstraintError:
    return InvalidConstraintError(what, pointer=pointer, hint="correct the structural tag")
