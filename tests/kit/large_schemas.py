"""Large schemas like those of configuration files, each with documents that a person might write.

They are made here, in the manner of published ones: hundreds of definitions, lists of plugins
distinguished by name or not at all, resources by type, rules of a linter, members by patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["LARGE", "large_schema"]

Schema = dict[str, Any]
_WORDS: Final = (
    *("account", "backup", "cache", "domain", "event", "filter", "group", "handler", "image"),
    *("job", "key", "label", "mount", "network", "option", "policy", "queue", "region", "script"),
    *("target", "user", "volume", "window", "zone"),
)


def _name(number: int) -> str:
    word, round_ = _WORDS[number % len(_WORDS)], number // len(_WORDS)
    return f"{word}{round_ or ''}"


def _value(number: int, definitions: str = "#/$defs") -> Schema:
    """One of a dozen schemas of values."""
    kinds: tuple[Schema, ...] = (
        {"type": "string"},
        {"type": "boolean"},
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,62}$"},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "string", "enum": ["low", "medium", "high", "critical"]},
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        {"oneOf": [{"type": "boolean"}, {"$ref": f"{definitions}/limits"}]},
        {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
        {"$ref": f"{definitions}/limits"},
        {"type": ["string", "null"], "format": "uri"},
        {"type": "string", "minLength": 1, "maxLength": 64},
    )
    return kinds[number % len(kinds)]


_LIMITS: Final[Schema] = {
    "type": "object",
    "properties": {"soft": {"type": "integer"}, "hard": {"type": "integer"}},
    "additionalProperties": False,
}


def _object(first: int, count: int, required: int = 0, **more: Any) -> Schema:
    """An object of several properties, the first of which is required."""
    names = [_name(first + 3 * i) for i in range(count)]
    return {
        "type": "object",
        "properties": {name: _value(first + i) for i, name in enumerate(names)},
        "required": names[:required],
        **more,
    }


def _plugins() -> tuple[Schema, list[Any]]:
    """A list of plugins: by name alone, name and options, or as an object of any of many kinds."""
    kinds = 40
    objects = {f"plugin{i}": _object(i, 8 + i % 5, required=1) for i in range(kinds)}
    options = [{"$ref": f"#/$defs/plugin{i}"} for i in range(kinds)]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "extends": {"type": "array", "items": {"type": "string"}},
            "plugins": {"type": "array", "items": {"$ref": "#/$defs/plugin"}, "uniqueItems": True},
        },
        "$defs": {
            "limits": _LIMITS,
            "plugin": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "array",
                        "prefixItems": [{"type": "string"}, {"anyOf": options}],
                        "minItems": 2,
                        "items": False,
                    },
                    {"anyOf": options},
                ]
            },
            **objects,
        },
    }
    document = {
        "extends": ["recommended"],
        "plugins": [
            "first",
            ["second", {"account": "a", "domain": True, "group": 3}],
            {"backup": True, "event": 4, "handler": "x-1"},
            {"cache": 12, "filter": "abc", "image": ["one", "two"], "label": "high"},
            ["third", {"zone": "z", "extra": {"deep": [1, 2, {"three": 3}]}, "cache": 1}],
        ],
    }
    return schema, [document]


def _resources() -> tuple[Schema, list[Any]]:
    """Resources by name, each of one of many types with properties of its own."""
    kinds = 150
    resources: dict[str, Schema] = {
        f"resource{i}": {
            "type": "object",
            "properties": {
                "Type": {"const": f"Cloud::{_name(i).title()}::{_name(2 * i).title()}"},
                "Properties": _object(i, 12, required=2, additionalProperties=False),
                "DependsOn": _value(6),
            },
            "required": ["Type", "Properties"],
            "additionalProperties": False,
        }
        for i in range(kinds)
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "Description": {"type": "string", "maxLength": 1024},
            "Resources": {
                "type": "object",
                "patternProperties": {
                    "^[a-zA-Z0-9]+$": {"anyOf": [{"$ref": f"#/$defs/{r}"} for r in resources]}
                },
                "additionalProperties": False,
                "minProperties": 1,
            },
        },
        "required": ["Resources"],
        "$defs": {"limits": _LIMITS, **resources},
    }

    def resource(i: int, **values: Any) -> Schema:
        kind = resources[f"resource{i}"]["properties"]["Type"]["const"]
        return {"Type": kind, "Properties": values}

    document = {
        "Description": "two things",
        "Resources": {
            "First": resource(0, account="a", domain=True, group=1),
            "Second": {**resource(1, backup=False, event=7, handler="ab"), "DependsOn": "First"},
            "Third": resource(24, account1="a", domain1=True),
        },
    }
    return schema, [document]


def _rules() -> tuple[Schema, list[Any]]:
    """Rules of a linter: a severity, or a severity and options, for each of several hundred."""
    rules = {
        f"{_name(i)}-{_name(7 * i + 1)}-{i}": {
            "oneOf": [
                {"$ref": "#/$defs/severity"},
                {
                    "type": "array",
                    "prefixItems": [{"$ref": "#/$defs/severity"}, _object(i, 5)],
                    "minItems": 1,
                },
            ]
        }
        for i in range(300)
    }
    names = list(rules)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "root": {"type": "boolean"},
            "rules": {"$ref": "#/$defs/rules"},
            "overrides": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "files": _value(6),
                        "rules": {"$ref": "#/$defs/rules"},
                        "overrides": {"$ref": "#/properties/overrides"},
                    },
                    "required": ["files"],
                },
            },
        },
        "$defs": {
            "limits": _LIMITS,
            "severity": {"enum": [0, 1, 2, "off", "warn", "error"]},
            "rules": {
                "type": "object",
                "properties": rules,
                "patternProperties": {"^@[a-z]+/": {"$ref": "#/$defs/severity"}},
                "additionalProperties": {
                    "anyOf": [{"$ref": "#/$defs/severity"}, {"type": "array"}]
                },
            },
        },
    }
    some = {name: "warn" if i % 2 else [2, {}] for i, name in enumerate(names[::9])}
    document = {
        "root": True,
        "rules": {**some, "@team/own": 1, "other": [1, 2, 3]},
        "overrides": [{"files": ["*.ts"], "rules": {names[5]: 0}}, {"files": "x", "overrides": []}],
    }
    return schema, [document]


def _steps() -> tuple[Schema, list[Any]]:
    """Steps of a pipeline that exclude each other by their keys, and conditions on them."""
    kinds = 25
    steps = [
        {
            "type": "object",
            "properties": {
                f"run-{_name(i)}": _value(i),
                **_object(i, 6)["properties"],
                "name": {"type": "string"},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": [f"run-{_name(i)}"],
        }
        for i in range(kinds)
    ]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}}},
        "additionalProperties": False,
        "$defs": {"limits": _LIMITS, "step": {"oneOf": steps}},
    }
    document = {
        "steps": [
            {"run-account": "make", "name": "first", "env": {"A": "1"}},
            {"run-backup": True, "name": "second"},
            {"run-cache": 3, "filter": "a"},
        ]
    }
    return schema, [document]


def _settings() -> tuple[Schema, list[Any]]:
    """Settings that must not repeat, each with one of very many names."""
    names = [f"{_name(i)}_{_name(i // 7 + 1)}_{i}" for i in range(2_400)]
    item = {
        "type": "object",
        "properties": {"name": {"enum": names}, "value": {"type": "string"}},
        "required": ["name", "value"],
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"settings": {"type": "array", "uniqueItems": True, "items": item}},
    }
    some = names[::480]
    settings = [{"name": name, "value": str(i % 3)} for i, name in enumerate(some)]
    return schema, [{"settings": [*settings, {"name": some[0], "value": "x", "note": None}]}]


LARGE: Final[dict[str, Callable[[], tuple[Schema, list[Any]]]]] = {
    "plugins": _plugins,
    "resources": _resources,
    "rules": _rules,
    "settings": _settings,
    "steps": _steps,
}
"""By name, the makers of a schema and its documents."""


def large_schema(name: str) -> tuple[Schema, list[Any]]:
    """A schema, and documents that fit it."""
    return LARGE[name]()
