"""Builds a constraint from the fields that say what an answer must look like.

The fields are OpenAI's ``response_format``, and vLLM's ``structured_outputs`` and ``guided_*``. At
most one of them may be set: two would contradict each other, or one would be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from guided.errors import InvalidConstraintError, RequestError
from guided.spec import Choice, JsonOptions, JsonSchema, Lark, Regex, Structure
from guided.spec.closed_objects import close_objects
from guided.spec.composition import JsonObject
from guided.spec.constraints import with_json_options
from guided.spec.exact_json import check_text_values, parse_decimal
from guided.spec.grammar_format import grammar_of
from guided.spec.structural_tags import read_structural_tag, structural_tag_of
from guided_service.config import ServerConfig
from guided_service.http.fields import Given, Listed, ModelFields, On
from guided_service.http.hints import CONSTRAINT_HINTS
from guided_service.http.members import repeated_member
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = [
    "ConstraintFields",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "ResponseFormat",
    "StructuredOutputs",
    "TextFormat",
    "Wanted",
    "check_options",
    "schema_of",
]

Schema: TypeAlias = dict[str, Any]
SchemaOrText: TypeAlias = Annotated[Schema | str, OneOfKinds()]


class NamedSchema(Given):
    """A schema with the caller's name for it."""

    name: Annotated[str, Field(max_length=64)]
    description: str | None = None
    schema_: Annotated[Schema, Field(alias="schema")]
    strict: bool | None = None
    """``False`` leaves objects open; see docs/openai.md."""


class TextFormat(Given):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(Given):
    """Any JSON object, or with llama.cpp's ``schema`` a document that fits it."""

    type: Literal["json_object"]
    schema_: Annotated[Schema | None, Field(alias="schema")] = None

    def wanted(self, field: str, options: JsonOptions) -> Wanted:
        """Return the constraint of this format, which is the value of a field."""
        if self.schema_ is None:
            return Wanted(JsonObject(options), field)
        return Wanted(schema_of(self.schema_, options), f"{field}.schema")


class JsonSchemaFormat(Given):
    """A JSON document that fits a schema: OpenAI's with a name, or llama.cpp's alone."""

    type: Literal["json_schema"]
    json_schema: NamedSchema | None = None
    schema_: Annotated[Schema | None, Field(alias="schema")] = None

    @model_validator(mode="before")
    @classmethod
    def _has_one_schema(cls, told: Any) -> Any:
        if isinstance(told, dict):
            given = [name for name in ("json_schema", "schema") if told.get(name) is not None]
            if len(given) != 1:
                raise PydanticCustomError("one_schema", "should have one of json_schema and schema")
        return told

    def wanted(self, field: str, options: JsonOptions) -> Wanted:
        """Return the constraint of this format, which is the value of a field."""
        if self.schema_ is not None:
            return Wanted(schema_of(self.schema_, options), f"{field}.schema")
        assert self.json_schema is not None, "one of them is given"
        named = self.json_schema
        structure = schema_of(named.schema_, options, strict=named.strict)
        return Wanted(structure, f"{field}.json_schema.schema", named.description or "")


class StructuralTagFormat(Given):
    """vLLM's and SGLang's: a structural tag in one of the forms of xgrammar."""

    type: Literal["structural_tag"]
    format: dict[str, Any] | None = None
    """Of the newer form; the older one has the other two."""
    structures: list[Any] | None = None
    triggers: list[Any] | None = None


ResponseFormat: TypeAlias = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat | StructuralTagFormat, OneOf("type")
]


class StructuredOutputs(Given):
    """vLLM's field of that name; exactly one of its fields is given."""

    json_: Annotated[SchemaOrText | None, Field(alias="json")] = None
    regex: str | None = None
    choice: Annotated[Listed[str], Field(min_length=1)] | None = None
    grammar: str | None = None
    json_object: On | None = None
    structural_tag: str | None = None

    def wanted(self, options: JsonOptions) -> Wanted:
        """Return the constraint; raises RequestError unless there is exactly one."""
        found = _of_outputs(self, "structured_outputs.", options)
        if len(found) != 1:
            raise RequestError(
                f"structured_outputs names {len(found)} constraints, not one",
                field="structured_outputs",
            )
        return found[0]


class ConstraintFields(ModelFields):
    """The fields that say what an answer must look like."""

    hints: ClassVar[Mapping[str, str]] = CONSTRAINT_HINTS

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: SchemaOrText | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[Listed[str], Field(min_length=1)] | None = None
    guided_grammar: str | None = None

    def wanted(self, config: ServerConfig, *, has_tools: bool = False) -> Wanted | None:
        """Return the constraint and the field that it came from.

        ``has_tools``: the request has tools besides, with schemas of their own.
        """
        options = self.schema_options(config)
        found = [*self._of_response_format(options), *self._of_vllm(options)]
        if len(found) > 1:
            one, other = found[0].field, found[1].field
            raise RequestError(f"{one} and {other} both say what the answer is", field=other)
        wanted = found[0] if found else None
        check_options(self.json_options, wanted, has_tools=has_tools)
        return wanted

    def _of_response_format(self, options: JsonOptions) -> list[Wanted]:
        match self.response_format:
            case JsonObjectFormat() | JsonSchemaFormat() as form:
                return [form.wanted("response_format", options)]
            case StructuralTagFormat() as tag:
                with _named("response_format"):
                    told = tag.model_dump(exclude_none=True)
                    tagged = structural_tag_of(told, partial(_held, options))
                return [Wanted(tagged, "response_format")]
        return []

    def _of_vllm(self, options: JsonOptions) -> list[Wanted]:
        old = StructuredOutputs.model_construct(
            json_=self.guided_json,
            regex=self.guided_regex,
            choice=self.guided_choice,
            grammar=self.guided_grammar,
        )
        found = _of_outputs(old, "guided_", options)
        if self.structured_outputs is not None:
            found.append(self.structured_outputs.wanted(options))
        return found


class Wanted(msgspec.Struct, frozen=True):
    """A constraint and the field that it came from."""

    structure: Structure
    field: str
    description: str = ""
    """A description shown to the model."""


_SCHEMA_TEXT: Final = msgspec.json.Decoder(Schema, float_hook=parse_decimal)
_JSON: Final = msgspec.json.Encoder(decimal_format="number")
"""Schemas given as text, and structural tags, are parsed with exact numbers."""


def schema_of(schema: Schema, options: JsonOptions, *, strict: bool | None = None) -> JsonSchema:
    """Return the constraint of a schema; its objects are closed unless ``strict`` is false."""
    held = schema if strict is False else close_objects(schema)
    return JsonSchema(_JSON.encode(held).decode(), options)


def check_options(
    told: Mapping[str, Any] | None, wanted: Wanted | None, *, has_tools: bool
) -> None:
    """Raise RequestError for JSON options of a request whose constraint has no schema.

    Those of tools have only the word for unknown keywords. A member that is ``null`` says nothing.
    """
    named = {name for name, value in (told or {}).items() if value is not None}
    is_of_tools = has_tools and named == {"unknown_keywords"}
    if named and not is_of_tools and (wanted is None or not _has_schema(wanted.structure)):
        raise RequestError(
            "json_options are about a schema of the answer, and there is none",
            field="json_options",
            hint="leave them out; of a tool's schema only unknown_keywords may be told",
        )


def _has_schema(structure: Structure) -> bool:
    if isinstance(structure, Lark) and structure.has_schemas:
        return True
    return isinstance(structure, JsonSchema) or any(map(_has_schema, structure.inner()))


def _of_outputs(outputs: StructuredOutputs, place: str, options: JsonOptions) -> list[Wanted]:
    found: list[tuple[str, Structure]] = []
    if outputs.json_ is not None:
        found.append(("json", _json(outputs.json_, f"{place}json", options)))
    if outputs.regex is not None:
        found.append(("regex", Regex(outputs.regex)))
    if outputs.choice is not None:
        found.append(("choice", Choice(outputs.choice)))
    if outputs.grammar is not None:
        grammar = grammar_of(outputs.grammar)
        found.append(("grammar", with_json_options(grammar, options) or grammar))
    if outputs.json_object is not None:
        found.append(("json_object", JsonObject(options)))
    if outputs.structural_tag is not None:
        field = f"{place}structural_tag"
        with _named(field):
            tagged = read_structural_tag(outputs.structural_tag, partial(_held, options))
        found.append(("structural_tag", tagged))
    return [Wanted(structure, place + name) for name, structure in found]


def _json(given: Schema | str, field: str, options: JsonOptions) -> JsonSchema:
    if isinstance(given, dict):
        return schema_of(given, options)
    check_text_values(given, f"the parts of {field}", field)
    try:
        read = _SCHEMA_TEXT.decode(given)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestError(f"{field} is no schema: {error}", field=field) from error
    _check_members(given, field)
    return schema_of(read, options)


@contextmanager
def _named(field: str) -> Iterator[None]:
    """Name the field in errors about the structural tag that it holds."""
    try:
        yield
    except RequestError as error:
        message = f"{field}: {error.message}"
        raise RequestError(message, field=field, hint=error.hint) from error


def _check_members(text: str, field: str) -> None:
    """Raise RequestError if a valid JSON text names a member twice."""
    try:
        name = repeated_member(text)
    except RecursionError as error:
        raise RequestError(f"{field} nests too deeply", field=field) from error
    if name is not None:
        raise RequestError(f"an object in {field} has {name!r} twice", field=field)


def _held(options: JsonOptions, schema: object) -> JsonSchema:
    """Return the constraint of a schema inside a structural tag."""
    if not isinstance(schema, dict):
        raise InvalidConstraintError("the schema is no object", pointer="")
    return schema_of(schema, options)
