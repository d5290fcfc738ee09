"""What the schema of a type allows and what it forbids, beyond the schema that pydantic emits."""

from __future__ import annotations

import enum
import json
import re
import sys
import typing
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import pydantic
import pytest
from annotated_types import Ge, Gt, Le, Len, Lt
from pydantic import (
    UUID4,
    AliasChoices,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Encoder,
    BaseModel,
    ByteSize,
    ConfigDict,
    EmailStr,
    EncodedBytes,
    Field,
    HttpUrl,
    Json,
    NaiveDatetime,
    NameEmail,
    PastDate,
    Strict,
    StrictInt,
    StringConstraints,
    TypeAdapter,
)
from pydantic_core import core_schema
from typing_extensions import TypedDict

from guided.errors import RequestError
from guided.response_types import adapter_of, schema_of_adapter
from guided.spec import Spelling
from tests.unit.response_types.classes import Validated


class Colour(enum.Enum):
    RED = "red"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


class OpenByOtherNames(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    a: int = Field(default=1, validation_alias=AliasChoices("b", "c", AliasPath("d", 0)))


class Closed(TypedDict, total=False):
    a: int


class Bounded(BaseModel):
    model_config = ConfigDict(str_max_length=2, str_strip_whitespace=True)
    a: str


class Unbounded(TypedDict):
    """It has the settings of the model that it is in."""

    a: str


@dataclass
class UnboundedToo:
    inner: Unbounded


class BoundsAround(BaseModel):
    model_config = ConfigDict(str_max_length=2, allow_inf_nan=False)
    direct: Unbounded | None = None
    listed: list[Unbounded] = []
    deep: UnboundedToo | None = None


class Middle:
    """A tuple of an integer, any number of strings, and a boolean."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        parts: list[core_schema.CoreSchema] = [
            core_schema.int_schema(),
            core_schema.str_schema(),
            core_schema.bool_schema(),
        ]
        return core_schema.tuple_schema(parts, variadic_item_index=1)


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Money = Annotated[Decimal, Field(max_digits=5, decimal_places=2)]
Tiny = Annotated[Decimal, Field(multiple_of=Decimal("1e-30"))]
TinyCents = Annotated[Decimal, Field(decimal_places=2, multiple_of=Decimal("1e-20"))]
Day = Annotated[date, Ge(date(2024, 2, 28)), Lt(date(2024, 3, 2))]
Office = Annotated[time, Ge(time(9)), Le(time(17))]
Short = Annotated[timedelta, Gt(timedelta(0)), Le(timedelta(minutes=90))]


def allows(model: Any, document: str) -> bool:
    schema = json.loads(schema_of_adapter(adapter_of(model)))
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    return bool(validator.is_valid(json.loads(document)))


class Plain(enum.Enum):
    A = "a"


class Cases(enum.Enum):
    A = b"a"
    B = (1, 2)


class Tagged(BaseModel):
    kind: Literal[Plain.A]


class Encoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: Base64Bytes


class Count(BaseModel):
    """A member whose name and default look like keywords."""

    type: int = 3
    properties: dict[str, str] = {"type": "integer"}


@pydantic.dataclasses.dataclass
class StrictMoment:
    """Known to the schema by its name."""

    at: Annotated[datetime, Strict()]
    next: StrictMoment | None = None


class Old(typing.TypedDict):
    """From ``typing``, which pydantic accepts from Python 3.12 on."""

    a: int


ACCEPTS: list[tuple[Any, str]] = [
    (float, "1.5e300"),
    (Annotated[float, Gt(0)], "0.001"),
    (Annotated[float, Field(multiple_of=0.05)], "1999.95"),
    (Decimal, "12.5"),
    (Money, "999.99"),
    (Money, "-0.01"),
    (Annotated[Decimal, Field(max_digits=3)], "0.001"),
    (Annotated[Decimal, Field(max_digits=3)], "12.5"),
    (Annotated[Decimal, Field(max_digits=20)], "12345678901234567890"),
    (date, '"2024-02-29"'),
    (Day, '"2024-02-29"'),
    (Day, '"2024-02-28"'),
    (Day, '"2024-03-01"'),
    (PastDate, '"2020-01-01"'),
    (datetime, '"2024-02-29T23:59:59.123456+05:30"'),
    (AwareDatetime, '"2024-02-29T23:59:59Z"'),
    (NaiveDatetime, '"2024-02-29T23:59:59.5"'),
    (time, '"23:59:59.000001Z"'),
    (Office, '"17:00:00Z"'),
    (timedelta, '"P1Y2M3DT4H5M6S"'),
    (timedelta, '"P3W"'),
    (Short, '"PT5400S"'),
    (UUID, '"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"'),
    (UUID4, '"f81d4fae-7dec-41d0-a765-00a0c91e6bf6"'),
    (HttpUrl, '"https://www.example.com:8080/a/b-c?d=e&f=g#h"'),
    (AnyUrl, '"ftp://files.example.org/x"'),
    (EmailStr, '"ada.lovelace+math@mail.example.co.uk"'),
    (IPv4Address, '"192.168.0.255"'),
    (IPv4Network, '"192.168.0.0/16"'),
    (IPv6Address, '"2001:db8::8a2e:370:7334"'),
    (IPv6Address, '"::1"'),
    (IPv6Address, '"::"'),
    (Base64Bytes, '"aGVsbG8="'),
    (ByteSize, "1024"),
    (Pet, '{"kind": "dog"}'),
    (dict[int, str], '{"-12": "x", "0": "y"}'),
    (dict[float, str], '{"1.5": "x"}'),
    (dict[bool, int], '{"true": 1}'),
    (dict[Colour, int], '{"red": 1}'),
    (dict[Annotated[str, Field(pattern="^a")], int], '{"ab": 1}'),
    (Annotated[set[float], Len(2)], "[0.25, 3]"),
    (Middle, '[1, "a", "b", true]'),
    (Open, '{"a": 1, "b": null}'),
    (OpenByOtherNames, '{"b": 1, "e": "x"}'),
    (Closed, "{}"),
    (Json[list[int]], '"[1,-2]"'),
    (Json[Cat], r'"{\"kind\":\"cat\"}"'),
    (Bounded, '{"a": "xy"}'),
    (BoundsAround, '{"direct": {"a": "xy"}, "deep": {"inner": {"a": "x"}}}'),
    (Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)], '"a b"'),
    (Annotated[bytes, Len(0, 3)], '"abc"'),
    (Annotated[str, Field(pattern=r"^\w+$")], '"w_1"'),
    (Annotated[Decimal, Field(ge=0.1, multiple_of=0.1)], "0.3"),
    (Tiny, "-0.000999"),
    (TinyCents, "9999999.99"),
    (Annotated[Base64Bytes, Len(3, 3)], '"YWJj"'),
    (Annotated[bytes, Len(8, 8), EncodedBytes(encoder=Base64Encoder)], '"YWJjZGVm"'),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=2)], "0.07"),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=3)], "0.07"),
    (Literal[10**20], "1" + "0" * 20),
    (Annotated[set[frozenset[int]], Len(1)], "[[1], []]"),
]

REJECTS: list[tuple[Any, str]] = [
    (Annotated[float, Gt(0.1)], "0.1"),
    (Annotated[float, Field(allow_inf_nan=False)], "1" + "0" * 309),
    (Annotated[float, Field(multiple_of=0.1)], "26713442159858.2"),
    (Decimal, '"1.5"'),
    (Decimal, '"word"'),
    (Decimal, "1" + "0" * 309),
    (Money, "1000"),
    (Money, "0.001"),
    (Tiny, "0.5"),
    (Tiny, "-1"),
    (TinyCents, "123456789.25"),
    (Annotated[Decimal, Field(max_digits=3)], "0.0001"),
    (Annotated[Decimal, Field(max_digits=3)], "1234"),
    (date, '"0000-01-01"'),
    (date, '"2023-02-29"'),
    (Day, '"2024-02-27"'),
    (Day, '"2024-03-02"'),
    (PastDate, '"2999-01-01"'),
    (datetime, '"2016-12-31T23:59:60Z"'),
    (datetime, '"0000-12-31T23:59:59Z"'),
    (AwareDatetime, '"2024-02-29T23:59:59"'),
    (NaiveDatetime, '"2024-02-29T23:59:59Z"'),
    (time, '"23:59:60Z"'),
    (Office, '"17:00:01Z"'),
    (Office, '"08:59:59Z"'),
    (timedelta, '"P1000000000D"'),
    (timedelta, '"PT99999999999S"'),
    (Short, '"PT0S"'),
    (Short, '"PT2H"'),
    (Short, '"PT5401S"'),
    (UUID4, '"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"'),
    (UUID4, '"f81d4fae-7dec-41d0-0765-00a0c91e6bf6"'),
    (HttpUrl, '"ftp://example.org"'),
    (HttpUrl, '"https://"'),
    (HttpUrl, '"https://a.b:65536/"'),
    (HttpUrl, '"https://300.1"'),
    (EmailStr, '"a@b"'),
    (EmailStr, '"a@mail.test"'),
    (EmailStr, '"a..b@example.org"'),
    (IPv4Address, '"1.2.3.04"'),
    (IPv4Network, '"192.168.0.1/16"'),
    (IPv6Address, '"1::2::3"'),
    (IPv6Address, '"1:2:3:4:5:6:7:8:9"'),
    (Base64Bytes, '"aGVsbG8"'),
    (Base64Bytes, '"aGVsbG9="'),
    (ByteSize, "-1"),
    (Pet, "{}"),
    (Pet, '{"kind": "bird"}'),
    (dict[int, str], '{"a": "x"}'),
    (dict[int, str], '{"01": "x"}'),
    (Annotated[dict[Annotated[int, Ge(0)], str], Len(1)], '{"-1": "x"}'),
    (dict[bool, int], '{"yes": 1}'),
    (dict[Colour, int], '{"blue": 1}'),
    (dict[Annotated[str, Field(pattern="^a")], int], '{"b": 1}'),
    (set[int], "[1, 1]"),
    (set[int], "[1, 1.0]"),
    (set, "[[]]"),
    (Annotated[set[bool | int], Len(2)], "[1, true]"),
    (Annotated[set[Literal[1, True]], Len(2)], "[1, true]"),
    (Annotated[set[Literal[1, True, 2]], Len(2)], "[1, true]"),
    (Annotated[set[Literal["a", True] | int], Len(2)], "[1, true]"),
    (Annotated[set[Literal["a", True] | Literal["b", 1]], Len(2)], "[1, true]"),
    (Annotated[set[float], Len(2)], "[0.1, 0.10000001]"),
    (Annotated[set[datetime], Len(2)], '["2024-01-01T00:00:00+01:00", "2024-01-01T00:00:00Z"]'),
    (Middle, '[1, "a", 2]'),
    (Cat, '{"kind": "cat", "other": 1}'),
    (Closed, '{"b": 1}'),
    *((OpenByOtherNames, f'{{"{name}": "x"}}') for name in ("a", "c", "d")),
    (Json[list[int]], '"[1,"'),
    (Json[Annotated[int, Le(5)]], '"6"'),
    (Bounded, '{"a": "xyz"}'),
    (Bounded, '{"a": " x"}'),
    (BoundsAround, '{"direct": {"a": "xyz"}}'),
    (BoundsAround, '{"listed": [{"a": "xyz"}]}'),
    (BoundsAround, '{"deep": {"inner": {"a": "xyz"}}}'),
    (Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)], '"a\\u0085"'),
    (Annotated[bytes, Len(0, 3)], '"éé"'),
    (Annotated[str, Field(pattern=r"^\D$")], '"٣"'),
    (Annotated[Base64Bytes, Len(3, 3)], '"YWI="'),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=2)], "0"),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=2)], "1"),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=3)], "0.042"),
    (Literal[10**20, 3], "1" + "0" * 20),
]


@pytest.mark.parametrize(("model", "document"), ACCEPTS)
def test_ordinary_values_are_allowed(model: Any, document: str) -> None:
    assert allows(model, document)
    adapter_of(model).validate_json(document)


@pytest.mark.parametrize(("model", "document"), REJECTS)
def test_what_pydantic_refuses_or_drops_is_not_allowed(model: Any, document: str) -> None:
    assert not allows(model, document)


@pytest.mark.parametrize("model", [StrictInt, int, Literal[2**53 + 1], Count])
def test_integers_are_written_as_digits_where_spelling_is_free(model: Any) -> None:
    """Pydantic reads ``5.0`` as a float, which a strict type refuses and a large one rounds."""
    schema = json.loads(schema_of_adapter(adapter_of(model), Spelling.ANY))
    assert schema["$defs"]["integer-by-spelling"]["$schema"].endswith("draft-04/schema#")
    assert '"$ref": "#/$defs/integer-by-spelling"' in json.dumps(schema)
    assert "integer-by-spelling" not in schema_of_adapter(adapter_of(model))


@pytest.mark.parametrize("model", [float, set[str | None], Literal["a", 3], Decimal])
def test_what_has_no_integers_is_the_same_however_it_is_spelled(model: Any) -> None:
    adapter = adapter_of(model)
    assert schema_of_adapter(adapter, Spelling.ANY) == schema_of_adapter(adapter)


def test_members_whose_defaults_would_be_refused_are_needed() -> None:
    schema = json.loads(schema_of_adapter(adapter_of(Validated)))
    assert schema["required"] == ["a", "d"]


def test_standard_keywords_stay_beside_the_patterns() -> None:
    """They explain the pattern to the model, and to people."""
    for model, name in ((date, "date"), (UUID4, "uuid"), (HttpUrl, "uri"), (EmailStr, "email")):
        schema = json.loads(schema_of_adapter(TypeAdapter(model)))
        assert (schema["type"], schema["format"]) == ("string", name)


class Deep(BaseModel):
    a: int = Field(validation_alias=AliasPath("b", 0))


class Node(BaseModel):
    children: list[Node]


class InUnion(BaseModel):
    a: int | Annotated[str, Field(pattern=re.compile(r"(a)\1"))]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Json[Node], "JSON inside a string, of a type that"),
        (Json[date], "JSON inside a string, with 'format', 'pattern'"),
        (Deep, "field 'a' is read from inside other members"),
        (InUnion, r"a: the pattern '(a)\\1' has a back reference at character 4"),
        (Annotated[str, Field(pattern="(?R)a$")], "the flag 'R'"),
        (dict[Annotated[int, Field(multiple_of=2)], int], "keys that are multiples of 2"),
        (Literal[Plain.A], "pydantic reads no value of [<Plain.A: 'a'>] from JSON"),
        (list[Tagged], "kind: pydantic reads no value of [<Plain.A: 'a'>]"),
        (dict[str, Cases], "{}: pydantic reads no value of <enum 'Cases'>"),
        (Literal[b"x"], "pydantic reads no value of [b'x']"),
        (tuple[int, set[list[int]]], "[1]: the items of the set have no hash"),
        (set[Cat], "the items of the set have no hash (say list, or freeze them)"),
        (frozenset[NameEmail], "the items of the set have no hash"),
        (set[tuple[set[int], int]], "the items of the set have no hash"),
        (defaultdict[str, list[Annotated[Decimal, Strict()]]], "a defaultdict with strict types"),
        (defaultdict[str, list[StrictMoment]], "a defaultdict with strict types (say dict)"),
        (type[int], "no class is read from JSON, nor <class 'int'>"),
        (Encoded, "a: bytes that are encoded by their type and by val_json_bytes"),
        (Annotated[str, Field(pattern="(a")], "unclosed group"),
        (Annotated[Literal[1], Strict()], "Unable to apply constraint 'strict'"),
    ],
)
def test_what_no_schema_can_say_is_refused(model: Any, reason: str) -> None:
    with pytest.raises(RequestError, match="has no JSON Schema: ") as caught:
        schema_of_adapter(adapter_of(model))
    assert reason in str(caught.value)
    assert caught.value.field == "response_model"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes it")
def test_a_typed_dict_of_typing_is_refused_with_the_way_out() -> None:
    with pytest.raises(RequestError, match="import TypedDict from typing_extensions"):
        adapter_of(Old)
