"""A type accepts every document that fits its schema."""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from annotated_types import Ge, Gt, Le, Len, Lt, MultipleOf
from pydantic import (
    UUID1,
    UUID3,
    UUID4,
    UUID5,
    AliasChoices,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Encoder,
    Base64Str,
    Base64UrlBytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Discriminator,
    EmailStr,
    EncodedBytes,
    Field,
    FileUrl,
    FiniteFloat,
    FutureDate,
    FutureDatetime,
    HttpUrl,
    IPvAnyAddress,
    IPvAnyInterface,
    IPvAnyNetwork,
    Json,
    JsonValue,
    NaiveDatetime,
    NameEmail,
    PastDate,
    PastDatetime,
    PostgresDsn,
    RedisDsn,
    RootModel,
    SecretBytes,
    SecretStr,
    StrictInt,
    StringConstraints,
    Tag,
    WebsocketUrl,
    computed_field,
    conbytes,
    condate,
    condecimal,
    confrozenset,
    conint,
    conlist,
    conset,
    constr,
)
from typing_extensions import TypedDict

from guided.response_types import adapter_of, schema_of_adapter
from tests.kit.schema_documents import draw_document

T = TypeVar("T")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Rank(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    NUMBER = 1
    TEXT = "x"
    NOTHING = None
    SWITCH = True


class Values(Enum):
    """JSON can hold three of its values."""

    EXACT = Decimal("1.5")
    DAY = date(2020, 1, 1)
    SPAN = timedelta(1)
    PAIR = (1, 2)
    SOME = frozenset({1})
    TURN = 1j
    BYTES = b"x"
    ENDLESS = float("inf")
    LARGE = 1e30
    THING = object()
    TEXT = "x"
    NEGATIVE = -2.5


class Letter(StrEnum):
    A = "a"
    B = "b"


class First(BaseModel):
    kind: Literal[Letter.A]


class Second(BaseModel):
    kind: Literal[Letter.B]
    rank: Literal[Rank.HIGH] = Rank.HIGH


class Unwritable(BaseModel):
    """JSON cannot hold its defaults."""

    a: float = float("inf")
    b: Any = object()
    c: bytes = b"\xff"


class Validated(BaseModel):
    """A member without a valid default is required."""

    model_config = ConfigDict(validate_default=True)
    a: int = Field(default=None)  # type: ignore[assignment]
    b: int = 3
    c: list[int] = Field(default_factory=list, validate_default=False)
    d: list[int] = Field(default_factory=list)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: tuple[int, str] = (1, "")


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(default=9, ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog", "hound"]
    tricks: set[str] = Field(default_factory=set, min_length=0)


class Lizard(BaseModel):
    kind: Literal["lizard"] = Field("lizard", alias="Kind")
    sub: Literal["a"] = "a"


class Gecko(BaseModel):
    kind: Literal["gecko"] = Field("gecko", alias="Kind")


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Owner(BaseModel):
    """With computed fields, aliases and a discriminated union."""

    model_config = ConfigDict(populate_by_name=True)
    full_name: str = Field(alias="fullName", min_length=1)
    pets: list[Pet] = Field(max_length=3)
    other: Annotated[Lizard | Gecko, Field(discriminator="kind")]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pet_count(self) -> int:
        return len(self.pets)


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: int | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    __pydantic_extra__: dict[str, int]
    first: int = Field(alias="one")


class OpenToAll(BaseModel):
    model_config = ConfigDict(extra="allow")
    first: int = Field(alias="one")


class OpenByName(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    first: int = Field(default=1, alias="one")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    a: int
    b: float
    c: date
    d: Decimal
    e: tuple[int, str]
    f: set[int]
    g: Colour
    h: UUID
    i: dict[int, bool]
    j: bytes


class Trimmed(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=2, str_max_length=5)
    a: str
    b: dict[str, str]
    c: Annotated[str, StringConstraints(to_lower=True, pattern="^[a-z]+$")]


class WithPython(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    a: str = Field(pattern=r"^(?!\d|\s)\w+(?=!)..\b")


class Choosy(BaseModel):
    a: int = Field(validation_alias=AliasChoices("A", AliasPath("deep", 0)))


class Encoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    a: bytes
    b: bytes = Field(min_length=2, max_length=5)


class Hexadecimal(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    a: bytes = Field(min_length=1, max_length=3)


class FiniteOnly(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    a: float
    b: float = Field(gt=0)


class Seconds(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float")
    a: timedelta


@dataclasses.dataclass
class Plain:
    a: int
    b: list[str] = dataclasses.field(default_factory=list)
    c: int = dataclasses.field(default=3, init=False)


@pydantic.dataclasses.dataclass
class Checked:
    a: Annotated[int, Ge(3)]
    b: dataclasses.InitVar[int]
    c: int = pydantic.Field(default=3, init=False)


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="allow"))
class OpenClass:
    a: int
    b: str = pydantic.Field(default="", alias="c")


class Movie(TypedDict, total=False):
    title: str
    year: Annotated[int, Gt(1900), Lt(2100)]


class Partly(TypedDict):
    a: int
    b: NotRequired[str]


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Root(RootModel[list[Annotated[int, Le(5)]]]):
    pass


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "other"


DAY = date(2024, 2, 28)
NOON = datetime(2024, 2, 28, 12, 0, 0, 5)
EAST = timezone(timedelta(hours=5, minutes=30))

TYPES: dict[str, Any] = {
    "int": int,
    "int bounds": Annotated[int, Gt(-5), Le(10**20), MultipleOf(3)],
    "strict int": StrictInt,
    "int up to 64 bits": Annotated[int, Lt(2**64)],
    "large values": Literal[2**53 + 1, "a", 3.0, 2**70],
    "large value": Literal[2**53 + 1],
    "float": float,
    "float gt 0": Annotated[float, Gt(0)],
    "float gt 0.1 lt 0.3": Annotated[float, Gt(0.1), Lt(0.3)],
    "float ge le": Annotated[float, Ge(-1.5), Le(1e6)],
    "float multiple": Annotated[float, MultipleOf(0.1), Ge(-1000)],
    "float multiple of 0.25": Annotated[float, MultipleOf(0.25)],
    "finite": FiniteFloat,
    "finite model": FiniteOnly,
    "decimal": Decimal,
    "decimal inf": Annotated[Decimal, Field(allow_inf_nan=True)],
    "money": Annotated[Decimal, Field(max_digits=8, decimal_places=2)],
    "decimal places": Annotated[Decimal, Field(decimal_places=3)],
    "decimal no places": Annotated[Decimal, Field(decimal_places=0)],
    "decimal digits": Annotated[Decimal, Field(max_digits=4)],
    "decimal many digits": Annotated[Decimal, Field(max_digits=30)],
    "decimal huge": Annotated[Decimal, Field(max_digits=38, decimal_places=10)],
    "decimal fine": Annotated[Decimal, Field(max_digits=20, decimal_places=18)],
    "decimal no whole": Annotated[Decimal, Field(max_digits=2, decimal_places=2)],
    "decimal fewer digits": Annotated[Decimal, Field(max_digits=2, decimal_places=3)],
    "decimal no whole huge": Annotated[Decimal, Field(max_digits=20, decimal_places=20)],
    "decimal step": condecimal(multiple_of=Decimal("0.05"), ge=Decimal(0)),
    "decimal step and places": condecimal(multiple_of=Decimal("0.25"), decimal_places=1),
    "decimal tiny step": condecimal(multiple_of=Decimal("1e-30")),
    "decimal places and tiny step": condecimal(multiple_of=Decimal("1e-20"), decimal_places=2),
    "decimal between": condecimal(gt=Decimal("0.1"), lt=Decimal("0.2")),
    "decimal long bound": condecimal(ge=Decimal("0.12345678901234567891"), le=Decimal(1)),
    "decimal far": condecimal(ge=Decimal(10) ** 20, decimal_places=2),
    "fraction": Fraction,
    "fraction between": Annotated[Fraction, Gt(Fraction(1, 3)), Le(Fraction(1, 2))],
    "complex": complex,
    "bool": bool,
    "str": str,
    "str bounds": constr(min_length=2, max_length=4),
    "str digits": Annotated[str, Field(pattern=r"^\d{2}\D\w\W$")],
    "str space": Annotated[str, Field(pattern=r"^\s\S[\s][^\s][\S][\W_][^\w]$")],
    "str not digits": Annotated[str, Field(pattern=r"^[^\d]{3}[\D]$")],
    "str dot": Annotated[str, Field(pattern="^.$")],
    "str python": Annotated[str, Field(pattern=re.compile(r"^\W\S\D\Z"))],
    "str words": Annotated[str, Field(pattern=r"\bfoo\b")],
    "str no words": Annotated[str, Field(pattern=r"^\b.\B.\b")],
    "str of any case": Annotated[str, Field(pattern="^(?i)straße[a-k]$")],
    "str of any case in python": Annotated[str, Field(pattern=re.compile("^İ[a-k]$", re.I))],
    "str of lines": Annotated[str, Field(pattern="(?m)^a.$")],
    "str by python": WithPython,
    "str trimmed": constr(strip_whitespace=True, min_length=2, max_length=6),
    "str upper": constr(to_upper=True, pattern="^[a-z]{2}$"),
    "trimmed model": Trimmed,
    "bytes": bytes,
    "bytes bounds": conbytes(min_length=1, max_length=3),
    "bytes base64": Encoded,
    "bytes hex": Hexadecimal,
    "date": date,
    "date ge le": condate(ge=DAY, le=date(2025, 3, 1)),
    "date gt lt": condate(gt=DAY, lt=date(2024, 3, 2)),
    "past": PastDate,
    "future": FutureDate,
    "datetime": datetime,
    "aware": AwareDatetime,
    "naive": NaiveDatetime,
    "past moment": PastDatetime,
    "future moment": FutureDatetime,
    "datetime bounds": Annotated[datetime, Gt(NOON), Lt(NOON + timedelta(minutes=3))],
    "datetime aware bounds": Annotated[datetime, Ge(NOON.replace(tzinfo=EAST))],
    "datetime naive bounds": Annotated[NaiveDatetime, Ge(NOON.replace(tzinfo=EAST))],
    "datetime utc bounds": Annotated[AwareDatetime, Le(NOON.replace(tzinfo=UTC))],
    "time": time,
    "time bounds": Annotated[time, Ge(time(9)), Lt(time(17, 30))],
    "time aware": Annotated[time, Ge(time(9, tzinfo=UTC))],
    "timedelta": timedelta,
    "timedelta bounds": Annotated[timedelta, Gt(timedelta(0)), Le(timedelta(hours=2))],
    "timedelta long": Annotated[timedelta, Ge(timedelta(days=50_000))],
    "timedelta negative": Annotated[timedelta, Lt(timedelta(0)), Ge(timedelta(seconds=-9))],
    "timedelta seconds": Seconds,
    "uuid": UUID,
    "uuid1": UUID1,
    "uuid3": UUID3,
    "uuid4": UUID4,
    "uuid5": UUID5,
    "url": AnyUrl,
    "http": HttpUrl,
    "websocket": WebsocketUrl,
    "file": FileUrl,
    "postgres": PostgresDsn,
    "redis": RedisDsn,
    "email": EmailStr,
    "name and email": NameEmail,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "ip": IPvAnyAddress,
    "ipv4 network": IPv4Network,
    "ipv6 network": IPv6Network,
    "ip network": IPvAnyNetwork,
    "ipv4 interface": IPv4Interface,
    "ipv6 interface": IPv6Interface,
    "ip interface": IPvAnyInterface,
    "path": Path,
    "pattern": re.Pattern[str],
    "zone": ZoneInfo,
    "byte size": ByteSize,
    "secret": SecretStr,
    "secret bounds": Annotated[SecretStr, Field(min_length=2, max_length=3)],
    "secret bytes": Annotated[SecretBytes, Field(max_length=3)],
    "base64 bytes": Base64Bytes,
    "base64 text": Base64Str,
    "base64 url": Base64UrlBytes,
    "base64 three bytes": Annotated[Base64Bytes, Len(3, 3)],
    "base64 text bounds": Annotated[Base64Str, Len(2, 5)],
    "base64 url bounds": Annotated[Base64UrlBytes, Len(1)],
    "base64 of a length": Annotated[bytes, Len(6, 9), EncodedBytes(encoder=Base64Encoder)],
    "json": Json,
    "json int": Json[conint(ge=-3, lt=50)],  # type: ignore[misc]
    "json list": Json[list[bool | None]],
    "json conlist": Json[conlist(float, min_length=1, max_length=3)],  # type: ignore[misc]
    "json model": Json[Plain],
    "json union": Json[Literal["a.b", 2] | dict[str, str] | float],  # type: ignore[misc]
    "any": Any,
    "json value": JsonValue,
    "optional": int | None,
    "optional bound": Annotated[int | None, Field(gt=0)],
    "optional date": condate(ge=DAY) | None,
    "union": int | str | list[float],
    "literal": Literal["a", 1, True, None],
    "enum": Colour,
    "int enum": Rank,
    "mixed enum": Mixed,
    "values": Values,
    "literal of large": Literal[10**20],
    "literal of too large": Literal[10**20, 3],
    "literal of bytes and text": Literal[b"x", "x"],
    "literal of text enum": Literal[Letter.A],
    "discriminated by enum": Annotated[First | Second, Field(discriminator="kind")],
    "list": list[int],
    "conlist": conlist(int, min_length=2, max_length=3),
    "sequence": Annotated[Sequence[int], Len(1, 2)],
    "deque": collections.deque[int],
    "set": set[int],
    "set any": set,
    "set bounds": conset(int, min_length=2, max_length=3),
    "set text": conset(str, min_length=2),
    "set enum": conset(Colour, min_length=2),
    "set floats": conset(float, min_length=3),
    "set moments": conset(datetime, min_length=2),
    "set decimals": conset(Decimal, min_length=3),
    "set unions": Annotated[set[bool | int], Len(2)],
    "frozenset": confrozenset(date, max_length=3),
    "set of sets": set[frozenset[int]],
    "set of tuples": set[tuple[int, str]],
    "set of frozen": set[Frozen],
    "sequence twice": Annotated[Annotated[Sequence[int], Len(3)], Len(1)],
    "tuple": tuple[int, str, bool],
    "tuple variadic": tuple[int, ...],
    "tuple none": tuple[()],
    "named tuple": Point,
    "dict": dict[str, int],
    "dict bounds": Annotated[dict[str, int], Len(1, 2)],
    "dict keys pattern": dict[Annotated[str, Field(pattern="^[a-z]{2}$")], int],
    "dict keys bounds": dict[constr(min_length=2, max_length=3), int],  # type: ignore[misc]
    "dict int": dict[int, str],
    "dict int bounds": Annotated[dict[conint(ge=-3, lt=120), str], Len(1)],  # type: ignore[misc]
    "dict float": Annotated[dict[float, str], Len(2)],
    "dict decimal": dict[Decimal, int],
    "dict bool": Annotated[dict[bool, int], Len(1)],
    "dict date": dict[condate(ge=DAY), int],  # type: ignore[misc]
    "dict uuid": dict[UUID, int],
    "dict enum": Annotated[dict[Colour, int], Len(1)],
    "dict int enum": dict[Rank, int],
    "dict mixed": dict[Mixed, int],
    "dict literal": Annotated[dict[Literal["a", "b"], int], Len(2)],
    "dict int literal": dict[Literal[1, 2], int],
    "dict optional": dict[int | None, int],
    "dict union": dict[Annotated[int, Ge(0)] | Literal["x"], Any],
    "counter": collections.Counter[str],
    "defaultdict": collections.defaultdict[str, list[int]],
    "defaultdict bounds": Annotated[collections.defaultdict[str, int], Len(1, 2)],
    "ordered dict": collections.OrderedDict[str, int],
    "model": Owner,
    "union of models": Cat | Dog | Tree,
    "discriminated": Pet,
    "discriminated by function": Annotated[
        Annotated[str, Tag("text")] | Annotated[int, Tag("other")], Discriminator(_kind)
    ],
    "recursive": Tree,
    "generic": Page[Pet],
    "extra typed": Open,
    "extra": OpenToAll,
    "extra by name": OpenByName,
    "strict": Strict,
    "alias choices": Choosy,
    "dataclass": Plain,
    "pydantic dataclass": Checked,
    "open dataclass": OpenClass,
    "unwritable defaults": Unwritable,
    "validated defaults": Validated,
    "typed dict": Movie,
    "partial typed dict": Partly,
    "root": Root,
}


@pytest.mark.parametrize("model", TYPES.values(), ids=TYPES.keys())
def test_every_document_of_the_schema_is_accepted(model: Any) -> None:
    adapter = adapter_of(model)
    schema = json.loads(schema_of_adapter(adapter))
    for seed in range(60):
        adapter.validate_json(draw_document(schema, seed))
