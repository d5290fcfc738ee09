"""Code that pydantic runs on an answer is found, with its place; pydantic's own is not."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Gt, Le, Lt, MinLen, MultipleOf, Predicate
from pydantic import (
    AfterValidator,
    Base64Bytes,
    Base64Str,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    EmailStr,
    EncodedBytes,
    EncoderProtocol,
    Field,
    FilePath,
    HttpUrl,
    ImportString,
    Json,
    PlainValidator,
    SecretStr,
    Tag,
    TypeAdapter,
    WrapValidator,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from guided.response_types import unenforced_validators
from guided.spec import UnenforcedValidator


def even(value: int) -> int:
    return value


def either(value: Any, handler: Any) -> Any:
    return handler(value)


def tag(value: Any) -> str:
    return "a" if isinstance(value, str) else "b"


class Line(BaseModel):
    price: Annotated[int, AfterValidator(even)]
    tags: list[Annotated[str, BeforeValidator(str.strip)]] = []


class Invoice(BaseModel):
    lines: list[Line]
    by_day: dict[date, Line | None] = {}
    pair: tuple[int, Annotated[int, PlainValidator(even)]] = (0, 0)
    code: Annotated[str, Predicate(str.isupper)] = "A"
    parent: Invoice | None = None

    @field_validator("lines")
    @classmethod
    def some(cls, lines: list[Line]) -> list[Line]:
        return lines

    @model_validator(mode="after")
    def adds_up(self) -> Invoice:
        return self


class Hooked(BaseModel):
    a: int

    def model_post_init(self, context: Any) -> None:
        pass


class Made(BaseModel):
    a: int

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


@dataclasses.dataclass
class Posted:
    a: int

    def __post_init__(self) -> None:
        pass


class Movie(TypedDict):
    year: Annotated[int, WrapValidator(either)]


class Quiet(BaseModel):
    """Types whose code a schema stands for."""

    mail: EmailStr
    url: HttpUrl
    secret: Annotated[SecretStr, Field(min_length=2)]
    many: Annotated[int | None, Field(gt=3)]
    kind: Literal["a"]
    _cache: int = 0


class Rotated(EncoderProtocol):
    """An encoder that pydantic knows nothing about."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        return data[1:] + data[:1]

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value[-1:] + value[:-1]

    @classmethod
    def get_json_format(cls) -> str:
        return "rotated"


class Lowered(BaseModel):
    """Base64 in lower case is another text, or none."""

    model_config = ConfigDict(str_to_lower=True)

    note: list[Base64Str]
    image: Base64Bytes
    plain: str


LOCALHOST = IPv4Address("127.0.0.1")
DAY = timedelta(days=1)

CASES: list[tuple[Any, list[tuple[str, str, str]]]] = [
    (
        Invoice,
        [
            ("", "Invoice.adds_up", "after"),
            ("lines", "Invoice.some", "after"),
            ("lines[].price", "even", "after"),
            ("lines[].tags[]", "str.strip", "before"),
            ("pair[1]", "even", "plain"),
            ("code", "str.isupper", "after"),
        ],
    ),
    (list[Annotated[int, AfterValidator(even)]], [("[]", "even", "after")]),
    (dict[str, Annotated[int, AfterValidator(even)]], [("{}", "even", "after")]),
    (dict[Annotated[str, AfterValidator(even)], int], [("{key}", "even", "after")]),
    (Hooked, [("", "Hooked.model_post_init", "model_post_init")]),
    (Made, [("", "Made.__init__", "__init__")]),
    (Posted, [("", "Posted.__post_init__", "__post_init__")]),
    (Movie, [("year", "either", "wrap")]),
    (FilePath, [("", "PathType.validate_file", "after")]),
    (
        Annotated[Annotated[str, Tag("a")] | Annotated[int, Tag("b")], Discriminator(tag)],
        [("", "tag", "discriminator")],
    ),
    (Quiet, []),
    (Path | int, []),
    (Annotated[str, Gt("b")], [("", "gt='b'", "after")]),
    (Annotated[bool, Le(False)], [("", "le=False", "after")]),
    (list[Annotated[tuple[int, int], Gt((1, 2))]], [("[]", "gt=(1, 2)", "after")]),
    (Annotated[IPv4Address, Lt(LOCALHOST)], [("", f"lt={LOCALHOST!r}", "after")]),
    (Annotated[bytes, Gt(b"a")], [("", "gt=b'a'", "after")]),
    (Annotated[int | str, MultipleOf(3)], [("", "multiple_of=3", "after")]),
    (Annotated[timedelta, MultipleOf(DAY)], [("", f"multiple_of={DAY!r}", "timedelta")]),
    (Annotated[float | str, Field(allow_inf_nan=False)], [("", "allow_inf_nan=False", "after")]),
    (Annotated[Json[list[int]], MinLen(2)], [("", "min_length=2", "after")]),
    (Annotated[Movie, MinLen(1)], [("", "min_length=1", "after"), ("year", "either", "wrap")]),
    (Annotated[set[HttpUrl], MinLen(2)], [("", "min_length=2", "set")]),
    (Annotated[set[frozenset[int]], MinLen(2)], [("", "min_length=2", "set")]),
    (Annotated[dict[HttpUrl, int], MinLen(2)], [("", "min_length=2", "dict")]),
    (Annotated[set[int | str | None], MinLen(2)], []),
    (Annotated[Base64Bytes, MinLen(2)], []),
    (Annotated[defaultdict[str, int], MinLen(2)], []),
    (Annotated[Sequence[int], MinLen(2)], []),
    (ImportString, [("", "import_string", "plain")]),
    (Annotated[bytes, EncodedBytes(encoder=Rotated)], [("", "Rotated.decode", "after")]),
    (Lowered, [("note[]", "Base64Encoder.decode", "after")]),
]


@pytest.mark.parametrize(("model", "expected"), CASES)
def test_validators_are_found_with_their_places(
    model: Any, expected: list[tuple[str, str, str]]
) -> None:
    found = unenforced_validators(TypeAdapter(model))
    assert found == tuple(UnenforcedValidator(*case) for case in expected)
