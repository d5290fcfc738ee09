"""Makes the JSON Schema of a Python type, narrowed to what pydantic reads from JSON.

Pydantic's own schemas allow more than its validators accept: any string for a URL of one scheme, a
date in the year 0, a union without its discriminator. Here ``validate_json`` accepts every document
that fits the schema, custom validators aside (``unenforced_validators`` names those). Members that
a type does not name are left out unless it keeps them, because pydantic would drop them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pydantic import ByteSize, EncodedBytes
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import override

from guided.response_types.core_schema import (
    constraint_of,
    encoder_of,
    length_keyword,
    parts,
    without_keywords,
)
from guided.response_types.json_text import key_schema
from guided.response_types.scalar_schema import ScalarSchema, narrow
from guided.response_types.sets import has_hash, narrow_set
from guided.response_types.texts import BASE64_NAMES, base64_pattern

__all__ = ["AnswerSchema"]

_MAX_VARIADIC_ITEMS = 8
"""The most items in the variable part of a tuple whose end is fixed."""


class AnswerSchema(ScalarSchema):
    """Pydantic's generator of JSON Schemas, narrowed by everything that its validators refuse."""

    @override
    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        if schema["type"] == "function-after" and constraint_of(schema["function"]["function"]):
            schema = without_keywords(schema)
        return super().generate_inner(schema)

    # Objects

    @override
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _close_object(super().model_schema(schema), schema)

    @override
    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _close_object(super().dataclass_schema(schema), schema)

    @override
    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _close_object(super().typed_dict_schema(schema), schema)

    @override
    def field_is_present(self, field: Any) -> bool:
        return field.get("init") is not False and super().field_is_present(field)

    @override
    def field_is_required(self, field: Any, total: bool) -> bool:
        """Return whether a member is required; it also is if its default would be refused."""
        return super().field_is_required(field, total) or self._refuses_default(field["schema"])

    def _refuses_default(self, schema: Any) -> bool:
        if schema["type"] != "default" or not schema.get(
            "validate_default", self._setting("validate_default")
        ):
            return False
        try:
            SchemaValidator(schema["schema"]).validate_python(schema["default"])
        except Exception:  # a factory, or references to outer types, cannot be checked
            return True
        return False

    @override
    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        return self._mapping(schema)

    def frozendict_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe a mapping of newer versions of pydantic, like those below."""
        return self._mapping(schema)

    def ordered_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe an ``OrderedDict``."""
        return self._mapping(schema)

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe a ``Counter``."""
        described = self._mapping(schema)
        described["additionalProperties"] = {"type": "integer"}
        return described

    def _mapping(self, schema: Any) -> JsonSchemaValue:
        described: JsonSchemaValue = {"type": "object"}
        if "keys_schema" in schema:
            keys = self.generate_inner(schema["keys_schema"])
            try:
                names = key_schema(keys, self.definitions, self.ref_template)
            except ValueError as error:
                raise PydanticInvalidForJsonSchema(str(error)) from error
            if names is not True:
                described["propertyNames"] = names
        values = schema.get("values_schema")
        described["additionalProperties"] = self.generate_inner(values) if values else True
        self.update_with_validations(described, schema, self.ValidationsMapping.object)
        return described

    # Arrays

    @override
    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._set(schema, super().set_schema(schema))

    @override
    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._set(schema, super().frozenset_schema(schema))

    def _set(self, schema: Any, described: JsonSchemaValue) -> JsonSchemaValue:
        items = schema.get("items_schema", {"type": "any"})
        if items["type"] != "any" and not has_hash(items, self.core_definitions):
            raise PydanticInvalidForJsonSchema(
                "the items of the set have no hash (say list, or freeze them)"
            )
        return narrow_set(described)

    @override
    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        items, variadic = schema["items_schema"], schema.get("variadic_item_index")
        if variadic is None or variadic + 1 == len(items):
            return super().tuple_schema(schema)
        described = [self.generate_inner(item) for item in items]
        before, middle = described[:variadic], described[variadic]
        after = described[variadic + 1 :]
        # JSON Schema counts positions from the start only: one shape for each length.
        shapes = [[*before, *[middle] * count, *after] for count in range(_MAX_VARIADIC_ITEMS + 1)]
        array: JsonSchemaValue = {
            "type": "array",
            "anyOf": [
                {"prefixItems": shape, "minItems": len(shape), "maxItems": len(shape)}
                for shape in shapes
            ],
        }
        self.update_with_validations(array, schema, self.ValidationsMapping.array)
        return array

    # Unions

    @override
    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        described = super().tagged_union_schema(schema)
        tag = _tag_name(described, schema["discriminator"])
        if tag is not None:
            # Pydantic needs it to choose, even if it has a default value.
            described["oneOf"] = [_require(choice, tag) for choice in described["oneOf"]]
        return described

    @override
    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> JsonSchemaValue:
        function = schema["function"]["function"]
        if function == ByteSize._validate:
            # It also reads units, which are too many for a pattern.
            return {"type": "integer", "minimum": 0}
        if isinstance(getattr(function, "__self__", None), EncodedBytes) and (
            self._setting("val_json_bytes", "utf8") != "utf8"
        ):
            raise PydanticInvalidForJsonSchema(
                "bytes that are encoded by their type and by val_json_bytes"
            )
        described = super().function_after_schema(schema)
        name, value = constraint_of(function) or ("", None)
        keyword = length_keyword(name, schema["schema"])
        if keyword is not None:
            encoder = encoder_of(schema["schema"])
            form = None if encoder is None else encoder.get_json_format()
            narrow(described, _length_limit(form, keyword, cast("int", value)))
        return described

    @override
    def function_wrap_schema(
        self, schema: core_schema.WrapValidatorFunctionSchema
    ) -> JsonSchemaValue:
        function = schema["function"]["function"]
        name = getattr(getattr(function, "func", function), "__name__", "")
        if name == "defaultdict_validator" and (
            self._setting("strict") or self._has_strict(schema, set())
        ):
            # Its items are read as Python values, and strict types require instances.
            raise PydanticInvalidForJsonSchema("a defaultdict with strict types (say dict)")
        return super().function_wrap_schema(schema)

    def _has_strict(self, schema: Any, seen: set[int]) -> bool:
        if schema["type"] == "definition-ref":
            schema = self.core_definitions[schema["schema_ref"]]
        if id(schema) in seen:
            return False
        seen.add(id(schema))
        return bool(
            schema.get("strict")
            or schema.get("config", {}).get("strict")
            or any(self._has_strict(part, seen) for part, _ in parts(schema))
        )

    @override
    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema(f"no class is read from JSON, nor {schema['cls']!r}")

    @override
    def _get_alias_name(self, field: Any, name: str) -> str:
        alias = field.get("validation_alias")
        if isinstance(alias, list) and not any(
            isinstance(path, list) and len(path) == 1 and isinstance(path[0], str) for path in alias
        ):
            raise PydanticInvalidForJsonSchema(f"field {name!r} is read from inside other members")
        return super()._get_alias_name(field, name)


def _close_object(described: JsonSchemaValue, schema: Any) -> JsonSchemaValue:
    """Exclude members that a class does not name, or would read as one of its fields."""
    if "properties" not in described:
        return described
    if described.setdefault("additionalProperties", False) is not False:
        # Another name of a field would be read as that field.
        for name in _other_names(schema):
            described["properties"].setdefault(name, False)
    return described


def _other_names(schema: Any) -> Iterator[str]:
    """Yield the names of all fields and the members that their aliases read."""
    while schema["type"] not in ("model-fields", "typed-dict", "dataclass-args"):
        schema = schema["schema"]
    fields = schema["fields"]
    named = fields.items() if isinstance(fields, dict) else ((f["name"], f) for f in fields)
    for name, field in named:
        yield name
        alias = field.get("validation_alias", [])
        for path in [] if isinstance(alias, str) else alias:
            yield path[0] if isinstance(path, list) else path


def _length_limit(form: str | None, keyword: str, limit: int) -> JsonSchemaValue:
    """Return a limit on the length of a string; for encoded bytes it counts the decoded ones."""
    if form not in BASE64_NAMES:
        return {keyword: limit}
    least, most = (limit, None) if keyword == "minLength" else (0, limit)
    return {
        "pattern": base64_pattern(least, most, url_safe=form == "base64url", seven_bit=True),
    }


def _tag_name(described: JsonSchemaValue, discriminator: object) -> str | None:
    """Return the member by which pydantic chooses; ``None`` if a function does."""
    named = described.get("discriminator")
    if named is not None:
        return str(named["propertyName"])
    paths = discriminator if isinstance(discriminator, list) else []
    names = [path[0] for path in paths if isinstance(path, list) and len(path) == 1]
    return next((name for name in names if isinstance(name, str)), None)


def _require(choice: JsonSchemaValue, name: str) -> JsonSchemaValue:
    """Return the schema of an object with one more required member."""
    required = choice.get("required", [])
    return choice if name in required else {**choice, "required": [*required, name]}
