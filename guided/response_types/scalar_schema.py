"""Pydantic's generator of JSON Schemas, with paths in its errors, and for values without parts.

These values are numbers, strings, times, and listed values.
"""

from __future__ import annotations

import json
import re
import zoneinfo
from decimal import Decimal
from typing import Any, Final, cast

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, core_schema
from typing_extensions import override

from guided.response_types.core_schema import path_of
from guided.response_types.foreign_patterns import ecma_pattern
from guided.response_types.json_text import JsonText
from guided.response_types.listed_values import enum_keywords, readable_values
from guided.response_types.numbers import (
    decimal_schema,
    limit_multiples,
    limit_to_finite,
    make_bounds_inclusive,
)
from guided.response_types.pattern_reader import ForeignPatternError
from guided.response_types.texts import (
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

__all__ = ["ScalarSchema", "narrow"]

_WITHOUT_OUTER_SPACE: Final = ecma_pattern(r"^(?:\S|\S[\s\S]*\S)?$")
_ASCII: Final = r"^[\u0000-\u007f]*$"
_COMPLEX: Final = r"^-?\d{1,9}(?:\.\d{1,6})?[+-]\d{1,9}(?:\.\d{1,6})?j$"


class _PathError(PydanticInvalidForJsonSchema):
    """An error whose message begins with the path of the part that no schema describes."""


class PathSchema(GenerateJsonSchema):
    """The generator, whose errors have the path of the part."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.core_definitions: dict[str, Any] = {}
        """Core schemas that others refer to, by name."""
        self._ancestors: list[Any] = []
        """The core schemas from the outermost to the current one; errors name its path."""

    @override
    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        self._ancestors.append(schema)
        try:
            return super().generate_inner(schema)
        except _PathError:
            raise
        except PydanticInvalidForJsonSchema as error:
            path = path_of(self._ancestors)
            raise _PathError(f"{path}: {error.message}" if path else error.message) from error
        finally:
            self._ancestors.pop()

    def _setting(self, name: str, default: Any = None) -> Any:
        """Return a setting of the innermost config around the part that is being described.

        Without a config of its own, a ``TypedDict`` or a plain dataclass has that of the model
        around it, which is in their core schemas.
        """
        configs = (schema["config"] for schema in reversed(self._ancestors) if "config" in schema)
        found: Any = next(configs, self._config.config_dict)
        return found.get(name, default)

    @override
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Raise for a union member without a schema, which would be left out with a warning."""
        if kind == "skipped-choice":
            raise _PathError(detail)

    @override
    def encode_default(self, dft: Any) -> Any:
        """Encode a default; raises for one that is no JSON, which leaves it out."""
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return encoded

    @override
    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self.core_definitions |= {part["ref"]: part for part in schema["definitions"]}
        return super().definitions_schema(schema)


class ScalarSchema(PathSchema):
    """The part of the generator for values without parts."""

    @override
    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        described = super().generate_inner(schema)
        name = str(described.get("format"))
        if name in STANDARD_NAMES:
            described["format"] = STANDARD_NAMES[name]
        if name == "zoneinfo" and "enum" not in described:
            described["enum"] = sorted(zoneinfo.available_timezones())
        if name in FORMATS:
            narrow(described, FORMATS[name])
        if name == "password" and "maxLength" in described:
            # It may be of bytes, whose number equals the characters only in ASCII.
            narrow(described, {"pattern": _ASCII})
        return described

    # Listed values

    @override
    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        described = super().enum_schema({**schema, "members": []})
        return {**described, **self._enum_of_readable(schema, schema["members"], schema["cls"])}

    @override
    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        found = self._enum_of_readable(schema, schema["expected"], schema["expected"])
        if len(found["enum"]) == 1:
            found["const"] = found.pop("enum")[0]
        return found

    def _enum_of_readable(self, schema: Any, values: list[Any], named: object) -> dict[str, Any]:
        found = readable_values(schema, values)
        if not found:
            raise PydanticInvalidForJsonSchema(f"pydantic reads no value of {named!r} from JSON")
        return enum_keywords(found)

    # Numbers

    @override
    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        described = limit_multiples(make_bounds_inclusive(super().float_schema(schema)))
        return (
            described if self._allows_infinite(schema, default=True) else limit_to_finite(described)
        )

    @override
    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        # A string would work too, and be exact; but models write numbers.
        return decimal_schema(
            cast("dict[str, Any]", schema),
            allow_infinite=self._allows_infinite(schema, default=False),
        )

    def fraction_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe a ``Fraction`` of newer versions of pydantic, as a decimal number."""
        return decimal_schema(
            {name: _decimal(schema[name]) for name in ("ge", "gt", "le", "lt") if name in schema},
            allow_infinite=False,
        )

    def _allows_infinite(self, schema: Any, *, default: bool) -> bool:
        given = schema.get("allow_inf_nan")
        if given is None:
            given = self._setting("allow_inf_nan", default)
        return bool(given)

    # Strings

    @override
    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        described = super().str_schema(schema)
        for limit, keyword in (("str_min_length", "minLength"), ("str_max_length", "maxLength")):
            if keyword not in described and self._setting(limit):
                described[keyword] = self._setting(limit)
        if "pattern" in described:
            described["pattern"] = self._ecma_pattern(schema)
        if schema.get("strip_whitespace", self._setting("str_strip_whitespace")):
            narrow(described, {"pattern": _WITHOUT_OUTER_SPACE})
        if schema.get("ascii_only"):
            narrow(described, {"pattern": _ASCII})
        return described

    def _ecma_pattern(self, schema: core_schema.StringSchema) -> str:
        given = schema["pattern"]
        source = given if isinstance(given, str) else given.pattern
        engine = schema.get("regex_engine", self._setting("regex_engine"))
        # A compiled pattern is matched by the engine that compiled it.
        is_python = not isinstance(given, str) or engine == "python-re"
        flags = re.compile(source).flags if is_python and isinstance(given, str) else 0
        flags = flags if isinstance(given, str) else given.flags
        try:
            return ecma_pattern(source, is_python=is_python, flags=flags)
        except ForeignPatternError as error:
            raise PydanticInvalidForJsonSchema(str(error)) from error

    @override
    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        encoding = self._setting("val_json_bytes", "utf8")
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


def _url(schema: Any) -> JsonSchemaValue:
    return url_pattern(schema.get("allowed_schemes"), max_length=schema.get("max_length"))


def _decimal(bound: Any) -> Decimal:
    return Decimal(bound.numerator) / Decimal(bound.denominator)


def narrow(schema: JsonSchemaValue, narrower: JsonSchemaValue) -> None:
    """Narrow a schema in place by further keywords, in ``allOf`` if it already has one of them."""
    if all(schema.get(keyword) == value for keyword, value in narrower.items()):
        return
    if not schema.keys() & narrower.keys():
        schema.update(narrower)
        return
    others = schema.setdefault("allOf", [])
    if narrower not in others:
        others.append(dict(narrower))
