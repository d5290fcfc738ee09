"""The JSON Schema of a Python type, narrowed to what pydantic will read from JSON.

Pydantic's own schemas allow more than its validators take: any string for a URL of one scheme, a
date in the year 0, a union without its discriminator. Here every document that fits the schema is
one that ``validate_json`` accepts, custom validators aside (``unenforced_validators`` names those).
Members that a type does not name are left out unless it keeps them, since pydantic would drop them.
"""

from __future__ import annotations

import json
import re
import zoneinfo
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, cast

from pydantic import ByteSize, EncodedBytes
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaValidator, core_schema
from typing_extensions import override

from guided.response_types.constraints import (
    constraint_of,
    encoder_of,
    length_keyword,
    without_keywords,
)
from guided.response_types.core_parts import place_of
from guided.response_types.foreign_patterns import ForeignPatternError, ecma_pattern
from guided.response_types.hashing import has_hash
from guided.response_types.json_text import JsonText
from guided.response_types.key_schema import key_schema
from guided.response_types.listed_values import listed, readable_values
from guided.response_types.numbers import countable, decimal_schema, finite, inclusive
from guided.response_types.set_items import set_items
from guided.response_types.texts import (
    BASE64_NAMES,
    FORMATS,
    STANDARD_NAMES,
    base64_pattern,
    hex_pattern,
    url_pattern,
    uuid_pattern,
)
from guided.response_types.times import (
    date_schema,
    datetime_schema,
    duration_schema,
    time_schema,
)

__all__ = ["AnswerSchema"]

_TRIMMED: Final = ecma_pattern(r"^(?:\S|\S[\s\S]*\S)?$")
_ASCII: Final = r"^[\u0000-\u007f]*$"
_COMPLEX: Final = r"^-?\d{1,9}(?:\.\d{1,6})?[+-]\d{1,9}(?:\.\d{1,6})?j$"
_TUPLE_SPREAD = 8
"""Most items in the middle of a tuple whose end is fixed as well."""


class _PlacedError(PydanticInvalidForJsonSchema):
    """One whose message begins with the place of what no schema describes."""


class AnswerSchema(GenerateJsonSchema):
    """Pydantic's generator, with everything narrowed that its validators would refuse."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._core_definitions: dict[str, Any] = {}
        self._trail: list[Any] = []

    @override
    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        if schema["type"] == "function-after" and constraint_of(schema["function"]["function"]):
            schema = without_keywords(schema)
        self._trail.append(schema)
        try:
            described = super().generate_inner(schema)
        except _PlacedError:
            raise
        except PydanticInvalidForJsonSchema as error:
            place = place_of(self._trail)
            raise _PlacedError(f"{place}: {error.message}" if place else error.message) from error
        finally:
            self._trail.pop()
        name = str(described.get("format"))
        if name in STANDARD_NAMES:
            described["format"] = STANDARD_NAMES[name]
        if name == "zoneinfo" and "enum" not in described:
            described["enum"] = sorted(zoneinfo.available_timezones())
        if name in FORMATS:
            _add(described, FORMATS[name])
        if name == "password" and "maxLength" in described:
            # It may be one of bytes, whose number is that of ASCII characters.
            _add(described, {"pattern": _ASCII})
        return described

    @override
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """A member of a union that no schema describes would be left out with a warning."""
        if kind == "skipped-choice":
            raise _PlacedError(detail)

    @override
    def encode_default(self, dft: Any) -> Any:
        """Defaults are notes; one that JSON cannot hold is left out."""
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return encoded

    # Objects

    @override
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema), schema)

    @override
    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema), schema)

    @override
    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema), schema)

    @override
    def field_is_present(self, field: Any) -> bool:
        return field.get("init") is not False and super().field_is_present(field)

    @override
    def field_is_required(self, field: Any, total: bool) -> bool:
        """A member is needed as well where its default would be refused."""
        return super().field_is_required(field, total) or self._refuses_default(field["schema"])

    def _refuses_default(self, schema: Any) -> bool:
        if schema["type"] != "default" or not schema.get(
            "validate_default", self._config.config_dict.get("validate_default")
        ):
            return False
        try:
            SchemaValidator(schema["schema"]).validate_python(schema["default"])
        except Exception:  # of a factory, or of what refers to types around it, nothing is known
            return True
        return False

    @override
    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        return self._mapping(schema)

    def frozendict_schema(self, schema: Any) -> JsonSchemaValue:
        """Mappings of newer versions of pydantic, like those below."""
        return self._mapping(schema)

    def ordered_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """An ``OrderedDict``."""
        return self._mapping(schema)

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        """A ``Counter``."""
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
    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self._core_definitions |= {part["ref"]: part for part in schema["definitions"]}
        return super().definitions_schema(schema)

    @override
    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._set(schema, super().set_schema(schema))

    @override
    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._set(schema, super().frozenset_schema(schema))

    def _set(self, schema: Any, described: JsonSchemaValue) -> JsonSchemaValue:
        items = schema.get("items_schema", {"type": "any"})
        if items["type"] != "any" and not has_hash(items, self._core_definitions):
            raise PydanticInvalidForJsonSchema(
                "the items of the set have no hash (say list, or freeze them)"
            )
        return set_items(described)

    @override
    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        items, spread = schema["items_schema"], schema.get("variadic_item_index")
        if spread is None or spread + 1 == len(items):
            return super().tuple_schema(schema)
        described = [self.generate_inner(item) for item in items]
        before, middle, after = described[:spread], described[spread], described[spread + 1 :]
        # JSON Schema counts positions from the start only: one shape for each length.
        shapes = [[*before, *[middle] * count, *after] for count in range(_TUPLE_SPREAD + 1)]
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
            # Even with a default value pydantic asks for it to choose by.
            described["oneOf"] = [_requiring(choice, tag) for choice in described["oneOf"]]
        return described

    @override
    def function_after_schema(
        self, schema: core_schema.AfterValidatorFunctionSchema
    ) -> JsonSchemaValue:
        function = schema["function"]["function"]
        if function == ByteSize._validate:
            # The units that it reads as well are more than a pattern tells.
            return {"type": "integer", "minimum": 0}
        if isinstance(getattr(function, "__self__", None), EncodedBytes) and (
            self._config.config_dict.get("val_json_bytes", "utf8") != "utf8"
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
            _add(described, _counted(form, keyword, cast("int", value)))
        return described

    @override
    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        raise PydanticInvalidForJsonSchema(f"no class is read from JSON, nor {schema['cls']!r}")

    # Listed values

    @override
    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        described = super().enum_schema({**schema, "members": []})
        return {**described, **self._listed(schema, schema["members"], schema["cls"])}

    @override
    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        found = self._listed(schema, schema["expected"], schema["expected"])
        if len(found["enum"]) == 1:
            found["const"] = found.pop("enum")[0]
        return found

    def _listed(self, schema: Any, values: list[Any], named: object) -> dict[str, Any]:
        found = readable_values(schema, values)
        if not found:
            raise PydanticInvalidForJsonSchema(f"pydantic reads no value of {named!r} from JSON")
        return listed(found)

    @override
    def _get_alias_name(self, field: Any, name: str) -> str:
        alias = field.get("validation_alias")
        if isinstance(alias, list) and not any(
            isinstance(path, list) and len(path) == 1 and isinstance(path[0], str) for path in alias
        ):
            raise PydanticInvalidForJsonSchema(f"field {name!r} is read from inside other members")
        return super()._get_alias_name(field, name)

    # Numbers

    @override
    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        described = countable(inclusive(super().float_schema(schema)))
        return described if self._allows_infinite(schema, default=True) else finite(described)

    @override
    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        # A string would do as well, and be exact; but models write numbers.
        return decimal_schema(
            cast("dict[str, Any]", schema),
            allow_infinite=self._allows_infinite(schema, default=False),
        )

    def fraction_schema(self, schema: Any) -> JsonSchemaValue:
        """A ``Fraction`` of newer versions of pydantic, as a decimal number."""
        return decimal_schema(
            {name: _decimal(schema[name]) for name in ("ge", "gt", "le", "lt") if name in schema},
            allow_infinite=False,
        )

    def _allows_infinite(self, schema: Any, *, default: bool) -> bool:
        given = schema.get("allow_inf_nan")
        if given is None:
            given = self._config.config_dict.get("allow_inf_nan", default)
        return bool(given)

    # Strings

    @override
    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        described = super().str_schema(schema)
        config = self._config.config_dict
        for limit, keyword in (("str_min_length", "minLength"), ("str_max_length", "maxLength")):
            if keyword not in described and config.get(limit):
                described[keyword] = config[limit]  # type: ignore[literal-required]
        if "pattern" in described:
            described["pattern"] = self._ecma(schema)
        if schema.get("strip_whitespace", config.get("str_strip_whitespace")):
            _add(described, {"pattern": _TRIMMED})
        if schema.get("ascii_only"):
            _add(described, {"pattern": _ASCII})
        return described

    def _ecma(self, schema: core_schema.StringSchema) -> str:
        given = schema["pattern"]
        source = given if isinstance(given, str) else given.pattern
        engine = schema.get("regex_engine", self._config.config_dict.get("regex_engine"))
        # A compiled pattern is matched by what has compiled it.
        is_python = not isinstance(given, str) or engine == "python-re"
        flags = re.compile(source).flags if is_python and isinstance(given, str) else 0
        flags = flags if isinstance(given, str) else given.flags
        try:
            return ecma_pattern(source, is_python=is_python, flags=flags)
        except ForeignPatternError as error:
            raise PydanticInvalidForJsonSchema(str(error)) from error

    @override
    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        encoding = self._config.config_dict.get("val_json_bytes", "utf8")
        least, most = schema.get("min_length", 0), schema.get("max_length")
        if encoding == "base64":
            return {"type": "string", "pattern": base64_pattern(least, most, url_safe=True)}
        if encoding == "hex":
            return {"type": "string", "pattern": hex_pattern(least, most)}
        described: JsonSchemaValue = {"type": "string", "format": "binary"}
        self.update_with_validations(described, schema, self.ValidationsMapping.bytes)
        if most is not None:
            # Pydantic counts bytes of UTF-8, JSON Schema counts characters.
            described["pattern"] = _ASCII
        return described

    @override
    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "uri", **_url(schema)}

    @override
    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "uri", **_url(schema)}

    @override
    def uuid_schema(self, schema: core_schema.UuidSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "uuid", "pattern": uuid_pattern(schema.get("version"))}

    @override
    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": _COMPLEX}

    @override
    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        described = super().json_schema(schema)
        try:
            text = JsonText(self.definitions, self.ref_template).pattern(described["contentSchema"])
        except ValueError as error:
            raise PydanticInvalidForJsonSchema(f"JSON inside a string, {error}") from error
        return {**described, "pattern": f"^{text}$"}

    # Times

    @override
    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        return date_schema(cast("dict[str, Any]", schema))

    @override
    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return time_schema(cast("dict[str, Any]", schema), schema.get("tz_constraint"))

    @override
    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return datetime_schema(cast("dict[str, Any]", schema), schema.get("tz_constraint"))

    @override
    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return duration_schema(cast("dict[str, Any]", schema))


def _closed(described: JsonSchemaValue, schema: Any) -> JsonSchemaValue:
    if "properties" not in described:
        return described
    if described.setdefault("additionalProperties", False) is not False:
        # Another name of a field would be read as that field.
        for name in _other_names(schema):
            described["properties"].setdefault(name, False)
    return described


def _other_names(schema: Any) -> Iterator[str]:
    """The names of all fields and the members that their aliases read."""
    while schema["type"] not in ("model-fields", "typed-dict", "dataclass-args"):
        schema = schema["schema"]
    fields = schema["fields"]
    named = fields.items() if isinstance(fields, dict) else ((f["name"], f) for f in fields)
    for name, field in named:
        yield name
        alias = field.get("validation_alias", [])
        for path in [] if isinstance(alias, str) else alias:
            yield path[0] if isinstance(path, list) else path


def _add(schema: JsonSchemaValue, narrower: JsonSchemaValue) -> None:
    """Narrow a schema in place, beside what it says already."""
    if all(schema.get(keyword) == value for keyword, value in narrower.items()):
        return
    if not schema.keys() & narrower.keys():
        schema.update(narrower)
        return
    others = schema.setdefault("allOf", [])
    if narrower not in others:
        others.append(dict(narrower))


def _counted(form: str | None, keyword: str, limit: int) -> JsonSchemaValue:
    """A limit on the length; of encoded bytes it counts what they encode."""
    if form not in BASE64_NAMES:
        return {keyword: limit}
    least, most = (limit, None) if keyword == "minLength" else (0, limit)
    return {
        "pattern": base64_pattern(least, most, url_safe=form == "base64url", seven_bit=True),
    }


def _tag_name(described: JsonSchemaValue, discriminator: object) -> str | None:
    """The member by which pydantic chooses; ``None`` where a function does."""
    named = described.get("discriminator")
    if named is not None:
        return str(named["propertyName"])
    paths = discriminator if isinstance(discriminator, list) else []
    names = [path[0] for path in paths if isinstance(path, list) and len(path) == 1]
    return next((name for name in names if isinstance(name, str)), None)


def _requiring(choice: JsonSchemaValue, name: str) -> JsonSchemaValue:
    required = choice.get("required", [])
    return choice if name in required else {**choice, "required": [*required, name]}


def _url(schema: Any) -> JsonSchemaValue:
    return url_pattern(schema.get("allowed_schemes"), max_length=schema.get("max_length"))


def _decimal(bound: Any) -> Decimal:
    return Decimal(bound.numerator) / Decimal(bound.denominator)
