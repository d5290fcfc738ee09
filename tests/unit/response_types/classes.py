"""Models, enumerations and other classes that answers may have as their types."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import pydantic
from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    computed_field,
)
from typing_extensions import TypedDict

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
