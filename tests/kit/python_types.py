"""Random Python types, as the source of a module that calls the type ``Answer``."""

from __future__ import annotations

import random

__all__ = ["PRELUDE", "draw_source"]

PRELUDE = """
import collections, dataclasses, enum, re, typing
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import *
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic.dataclasses
from annotated_types import Ge, Gt, Le, Len, Lt, MultipleOf
from pydantic import *
from typing_extensions import TypedDict

T = TypeVar("T")
"""
"""The beginning of every source."""

_NUMBERS = ("-7", "-1", "0", "1", "3", "10", "64", "1000", "10**18", "2**53 + 1", "10**20")
_FRACTIONS = ("-1e300", "-2.5", "-0.1", "0.0", "0.1", "0.5", "1.5", "99.99", "1e6", "1e22")
_PATTERNS = (
    r"^\d{3}-\d{4}$", r"^\w+$", r"\bfoo\b", r"^\W\S\D", r"^(?i)(yes|straße)$", r"^[^\W\d_]{2,5}$",
    r"\B", r"(?m)^a$", r"^[a-z&&[^aeiou]]+$", r"^\p{Lu}\p{Ll}*$", r"(?s)^.{3}$", r"^\S+\s\S+$",
    r"é|\x41", r"^[\w.+-]+@\w+\.\w{2,}$", r"^$", r"^(?:[01]\d|2[0-3]):[0-5]\d$", r"[[:alpha:]]{2}",
)  # fmt: skip
_PLAIN = (
    "int", "float", "bool", "str", "bytes", "Decimal", "Fraction", "complex", "None", "Any",
    "JsonValue", "date", "datetime", "time", "timedelta", "PastDate", "FutureDate",
    "AwareDatetime", "NaiveDatetime", "PastDatetime", "FutureDatetime", "UUID", "UUID1", "UUID4",
    "UUID7", "AnyUrl", "HttpUrl", "FileUrl", "PostgresDsn", "WebsocketUrl", "EmailStr",
    "NameEmail", "IPv4Address", "IPv6Address", "IPvAnyAddress", "IPv4Network", "IPv6Interface",
    "IPvAnyNetwork", "Path", "re.Pattern[str]", "ZoneInfo", "ByteSize", "SecretStr", "SecretBytes",
    "Base64Bytes", "Base64Str", "Base64UrlBytes", "Base64UrlStr", "Json", "StrictInt",
    "StrictFloat", "StrictBool", "StrictStr", "StrictBytes", "FiniteFloat", "PositiveInt",
    "NonNegativeFloat", "Annotated[date, Strict()]", "Annotated[UUID, Strict()]",
    "Json[list[int]]", "Annotated[Decimal, Strict()]", "ImportString", "type[int]",
    "typing.Callable[..., int]", "object",
)  # fmt: skip
_BOUNDED = {
    "date": ("date(2024, 2, 28)", "date(2024, 3, 1)", "date(1, 1, 2)", "date(9999, 12, 30)"),
    "datetime": ("datetime(2024, 2, 28, 12)", "datetime(2024, 2, 29, tzinfo=UTC)"),
    "time": ("time(9)", "time(17, 30)", "time(23, 59, 59, tzinfo=UTC)"),
    "timedelta": ("timedelta(0)", "timedelta(hours=2)", "timedelta(days=50_000)", "-timedelta(1)"),
    "str": ("'b'", "'foo'"),
    "bool": ("False", "True"),
    "bytes": ("b'a'",),
    "IPv4Address": ("IPv4Address('1.2.3.4')",),
    "tuple[int, int]": ("(1, 2)",),
    "Fraction": ("Fraction(1, 3)", "Fraction(7)"),
}
_VALUES = (
    "1", "0", "-3", "2**53 + 1", "10**20", "True", "None", "'a'", "'b c'", "''", "'é\\u2028'",
    "b'x'",
)  # fmt: skip
_MEMBERS = (
    *_VALUES, "1.5", "-0.0", "1e30", "float('inf')", "Decimal('1.5')", "Decimal('0.1')",
    "date(2020, 1, 1)", "timedelta(1)", "(1, 2)", "frozenset({1})", "1j", "object()",
    "Fraction(1, 4)",
)  # fmt: skip
_KEYS = (
    "str", "str", "int", "float", "bool", "date", "UUID", "Decimal", "Path", "HttpUrl", "bytes",
    "IPv4Address", "Literal['a', 1]", "int | None", "Any", "Annotated[int, Field(ge=-3, lt=120)]",
    "Annotated[str, Field(pattern=r'^\\w{2}$')]", "Annotated[str, Field(max_length=3)]",
)  # fmt: skip
_CONFIG = (
    "extra='allow'", "extra='forbid'", "strict=True", "frozen=True", "populate_by_name=True",
    "str_strip_whitespace=True", "str_to_lower=True", "str_min_length=2", "str_max_length=3",
    "val_json_bytes='base64'", "val_json_bytes='hex'", "regex_engine='python-re'",
    "use_enum_values=True", "coerce_numbers_to_str=True", "allow_inf_nan=False",
    "alias_generator=str.upper", "ser_json_timedelta='float'", "validate_default=True",
)  # fmt: skip

_CHECK = """\
    @classmethod
    def check(cls, value):
        if len(repr(value)) > 5: raise ValueError('long')
        return value"""


def draw_source(rng: random.Random) -> str:
    """The source of a type; not every one can be a response model."""
    return _Source(rng).module()


class _Source:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.classes: list[str] = []
        self.fields = 0

    def module(self) -> str:
        answer = self.type(0)
        return "\n\n".join([*self.classes, f"Answer = {answer}"]) + "\n"

    def type(self, depth: int) -> str:
        """A type expression; the classes that it needs are written before it."""
        kinds = (
            (self.plain, 5), (self.number, 4), (self.text, 3), (self.bounded, 2), (self.literal, 2),
            (self.enumeration, 2), (self.array, 3), (self.mapping, 2), (self.union, 3),
            (self.model, 6), (self.tuple_of, 2), (self.dataclass, 2), (self.typed_dict, 2),
            (self.named_tuple, 1), (self.tagged, 2), (self.root, 1), (self.generic, 1),
            (self.json, 1), (self.digits, 1),
        )  # fmt: skip
        shallow = kinds[:6] if depth > 2 else kinds
        if depth == 0 and self.rng.random() < 0.5:
            return self.model(1)
        makers, weights = zip(*shallow, strict=True)
        return str(self.rng.choices(makers, weights)[0](depth + 1))

    # Leaves

    def plain(self, _: int) -> str:
        return self.rng.choice(_PLAIN)

    def number(self, _: int) -> str:
        kind = self.rng.choice(("int", "int", "float", "Decimal", "StrictInt", "int | None"))
        values = _NUMBERS if "nt" in kind else _FRACTIONS
        low, high = sorted(self.rng.sample(range(len(values)), 2))
        limits = [
            f"{self.rng.choice(('ge', 'gt'))}={values[low]}",
            f"{self.rng.choice(('le', 'lt'))}={values[high]}",
            f"multiple_of={self.rng.choice(('2', '3', '5') if 'nt' in kind else ('0.1', '0.25'))}",
        ]
        return f"Annotated[{kind}, Field({', '.join(self.some(limits))})]"

    def digits(self, _: int) -> str:
        digits, places = (
            self.rng.choice((None, 0, 1, 2, 5, 20, 38)),
            self.rng.choice((None, 0, 2, 3, 20)),
        )
        return f"Annotated[Decimal, Field(max_digits={digits}, decimal_places={places})]"

    def text(self, _: int) -> str:
        kind = self.rng.choice(
            ("str", "str", "str", "bytes", "Base64Bytes", "SecretStr", "EmailStr")
        )
        low = self.rng.randrange(4)
        limits = [f"min_length={low}", f"max_length={low + self.rng.randrange(4)}"]
        if kind == "str":
            limits += [f"pattern=r'{self.rng.choice(_PATTERNS)}'"] * 3
            if self.rng.random() < 0.3:
                changes = ("strip_whitespace=True", "to_lower=True", "ascii_only=True")
                return f"Annotated[str, StringConstraints({self.rng.choice(changes)}, {limits[0]})]"
            if self.rng.random() < 0.1:
                flags = self.rng.choice(("re.I", "re.M | re.S", "re.A"))
                return f"Annotated[str, Field(pattern=re.compile(r'^[a-zé]\\b.$', {flags}))]"
        return f"Annotated[{kind}, Field({', '.join(self.some(limits)[-2:])})]"

    def bounded(self, _: int) -> str:
        kind = self.rng.choice(tuple(_BOUNDED))
        limit = self.rng.choice(("Ge", "Gt", "Le", "Lt"))
        return f"Annotated[{kind}, {limit}({self.rng.choice(_BOUNDED[kind])})]"

    def literal(self, _: int) -> str:
        return f"Literal[{', '.join(self.some(_VALUES))}]"

    def enumeration(self, _: int) -> str:
        base, values = self.rng.choice(
            (
                ("enum.Enum", _MEMBERS),
                ("enum.StrEnum", ("'a'", "'b'", "'c d'")),
                ("enum.IntEnum", _NUMBERS),
            )
        )
        members = "\n".join(f"    M{at} = {value}" for at, value in enumerate(self.some(values)))
        name = self.named(f"({base}):\n{members}")
        return f"Literal[{name}.M0]" if self.rng.random() < 0.3 else name

    # Containers

    def array(self, depth: int) -> str:
        kinds = ("list", "list", "set", "frozenset", "Sequence", "collections.deque")
        return self.counted(f"{self.rng.choice(kinds)}[{self.type(depth)}]")

    def mapping(self, depth: int) -> str:
        key = self.enumeration(depth) if self.rng.random() < 0.1 else self.rng.choice(_KEYS)
        kinds = ("dict", "dict", "Mapping", "collections.defaultdict", "collections.OrderedDict")
        if self.rng.random() < 0.1:
            return self.counted(f"collections.Counter[{key}]")
        return self.counted(f"{self.rng.choice(kinds)}[{key}, {self.type(depth)}]")

    def tuple_of(self, depth: int) -> str:
        if self.rng.random() < 0.3:
            return self.counted(f"tuple[{self.type(depth)}, ...]")
        return f"tuple[{', '.join(self.type(depth) for _ in range(self.rng.randint(1, 3)))}]"

    def union(self, depth: int) -> str:
        if self.rng.random() < 0.4:
            return f"Optional[{self.type(depth)}]"
        members = [self.type(depth) for _ in range(self.rng.randint(2, 3))]
        mode = ", Field(union_mode='left_to_right')" if self.rng.random() < 0.2 else ""
        union = f"typing.Union[{', '.join(members)}]"
        return f"Annotated[{union}{mode}]" if mode else union

    def json(self, depth: int) -> str:
        return f"Json[{self.type(max(depth, 3))}]"

    def counted(self, kind: str) -> str:
        if self.rng.random() < 0.6:
            return kind
        low = self.rng.randrange(4)
        return f"Annotated[{kind}, Len({low}, {self.rng.choice((None, low, low + 2))})]"

    # Classes

    def model(self, depth: int) -> str:
        body = [f"    model_config = ConfigDict({self.config()})"]
        body += [f"    {field}" for field in self.members(depth)]
        name = f"C{len(self.classes)}_{self.rng.randrange(10**6)}"
        if self.rng.random() < 0.15:
            body.append(f"    again: {self.rng.choice(('list', 'Optional'))}['{name}'] = None")
        if self.rng.random() < 0.1 and "    f" in body[-1]:
            field = body[-1].split(":")[0].strip()
            body += [f"    @field_validator('{field}')", _CHECK]
        return self.named("(BaseModel):\n" + "\n".join(body), name)

    def dataclass(self, depth: int) -> str:
        own = "dataclasses.dataclass(kw_only=True)"
        theirs = f"pydantic.dataclasses.dataclass(config=ConfigDict({self.config()}), kw_only=True)"
        body = "\n".join(f"    {field}" for field in self.members(depth))
        return self.named(f":\n{body}", decorator=f"@{self.rng.choice((own, theirs))}\n")

    def typed_dict(self, depth: int) -> str:
        fields = [
            f"    f{self.number_of_field()}: "
            + (f"NotRequired[{kind}]" if self.rng.random() < 0.3 else kind)
            for kind in (self.type(depth) for _ in range(self.rng.randint(1, 3)))
        ]
        total = self.rng.choice(("", ", total=False"))
        return self.named(f"(TypedDict{total}):\n" + "\n".join(fields))

    def named_tuple(self, depth: int) -> str:
        fields = [f"    f{self.number_of_field()}: {self.type(depth)}" for _ in range(2)]
        return self.named("(NamedTuple):\n" + "\n".join(fields))

    def tagged(self, depth: int) -> str:
        tags = self.rng.choice(
            (("'a'", "'b'"), ("1", "2"), ("True", "False"), ("None", "'x'"), ("'a', 'c'", "'b'"))
        )
        names = []
        for tag in tags:
            default = f" = {tag}" if "," not in tag and self.rng.random() < 0.5 else ""
            names.append(
                self.named(
                    f"(BaseModel):\n    kind: Literal[{tag}]{default}\n"
                    f"    f{self.number_of_field()}: {self.type(depth)} = None"
                )
            )
        return f"Annotated[typing.Union[{', '.join(names)}], Field(discriminator='kind')]"

    def root(self, depth: int) -> str:
        return self.named(f"(RootModel[{self.type(depth)}]):\n    pass")

    def generic(self, depth: int) -> str:
        inner = self.type(depth)
        return self.named("(BaseModel, Generic[T]):\n    items: list[T]\n    one: T") + f"[{inner}]"

    def members(self, depth: int) -> list[str]:
        made = []
        for _ in range(self.rng.randint(1, 4)):
            number = self.number_of_field()
            options = []
            if self.rng.random() < 0.3:
                options.append("default=None")
            aliases = ("alias", "validation_alias", "serialization_alias")
            if self.rng.random() < 0.2:
                options.append(f"{self.rng.choice(aliases)}='a{number}'")
            elif self.rng.random() < 0.1:
                options.append(f"validation_alias=AliasChoices('a{number}', AliasPath('deep', 0))")
            value = f" = Field({', '.join(options)})" if options else ""
            made.append(f"f{number}: {self.type(depth)}{value}")
        return made

    def config(self) -> str:
        options = self.rng.sample(_CONFIG, self.rng.choice((0, 0, 0, 1, 1, 2)))
        return ", ".join({option.split("=")[0]: option for option in options}.values())

    def number_of_field(self) -> int:
        self.fields += 1
        return self.fields

    def named(self, body: str, name: str = "", decorator: str = "") -> str:
        name = name or f"C{len(self.classes)}_{self.rng.randrange(10**6)}"
        self.classes.append(f"{decorator}class {name}{body}")
        return name

    def some(self, options: list[str] | tuple[str, ...]) -> list[str]:
        """One or more of the options, in their order."""
        chosen = {*self.rng.sample(options, self.rng.randint(1, min(3, len(options))))}
        return [option for option in dict.fromkeys(options) if option in chosen]
