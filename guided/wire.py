"""Converts frozen values to protobuf messages, and back.

A dataclass and its message have fields of the same names. The descriptor of a field determines how
its value is written, so an option added to both needs no code here:

==========================  =====================================================
in Python                   in the message
==========================  =====================================================
member of an enumeration    value of that name; UNSPECIFIED stands for the default
seconds                     ``google.protobuf.Duration``
bound, ``None`` lifts it    ``guided.v1.Bound``, without a number where it is lifted
dataclass                   message
tuple                       repeated field
tuple inside of a tuple     message that has these fields, in this order
==========================  =====================================================

A value equal to its field's default is left out, so that a server without the field accepts the
rest; what a message leaves out has the default.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from guided.errors import LimitExceededError, RequestError
from guided.v1.generation_pb2 import Bound

__all__ = [
    "duration_of",
    "encodable",
    "int32",
    "member_of",
    "number_of",
    "read",
    "refuse_unknown_fields",
    "seconds_of",
    "write",
]

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

Descriptor: TypeAlias = Any
"""A field's or an enumeration's descriptor; protobuf's stubs type it in two ways."""

_LARGEST_INT32 = 2**31 - 1


def write(value: Any, message: Message, path: str = "", *, without: Collection[str] = ()) -> None:
    """Set the fields of a message to those of a dataclass that have their names.

    ``path`` is the place of the value in a request, for errors: LimitExceededError for an integer
    that is too large, RequestError for text that is not Unicode.
    """
    for each in _shared_fields(type(value), type(message)):
        held = getattr(value, each.name)
        if each.name in without or held == each.default:
            continue
        # A bound is the only message with a meaning without a value.
        if held is not None or each.is_bound:
            _set(message, each, held, f"{path}.{each.name}" if path else each.name)


def _set(message: Message, shared: _SharedField, value: Any, path: str) -> None:
    # Not ``encodable``: a context manager for every field would take longer than setting it.
    try:
        if shared.is_message and shared.is_repeated:
            field = getattr(message, shared.name)
            for item in value:
                _fill(field.add(), item, path)
        elif shared.is_message:
            field = getattr(message, shared.name)
            field.SetInParent()
            _fill(field, value, path)
        elif shared.is_repeated:
            items = [_plain(item, shared.descriptor, path) for item in value]
            getattr(message, shared.name).extend(items)
        else:
            setattr(message, shared.name, _plain(value, shared.descriptor, path))
    except UnicodeEncodeError as error:
        raise _not_unicode(error, path) from error


def _fill(message: Message, value: Any, path: str) -> None:
    match message:
        case Duration():
            message.CopyFrom(duration_of(value))
        case Bound():
            if value is not None:
                message.at_most = int32(value, path)
        case _ if isinstance(value, tuple):
            descriptors: Sequence[Descriptor] = message.DESCRIPTOR.fields
            for descriptor, item in zip(descriptors, value, strict=True):
                setattr(message, descriptor.name, _plain(item, descriptor, path))
        case _:
            write(value, message, path)


def _plain(value: Any, descriptor: Descriptor, path: str) -> Any:
    if descriptor.enum_type is not None:
        return number_of(value, descriptor.enum_type)
    return int32(value, path) if descriptor.type == FieldDescriptor.TYPE_INT32 else value


def read(message: Message, kind: type[T], path: str = "", **others: Any) -> T:
    """Return the dataclass of a message; ``others`` are fields that it has in another form.

    Raises RequestError for an unknown member of an enumeration.
    """
    found = dict(others)
    for each in _shared_fields(kind, type(message)):
        if each.name in others or (each.has_presence and not message.HasField(each.name)):
            continue
        value = getattr(message, each.name)
        if each.has_default and not each.has_presence and not value:
            continue
        at = f"{path}.{each.name}" if path else each.name
        if each.is_enum:
            found[each.name] = _member(each.inner, each.descriptor.enum_type, value, at)
        elif each.is_repeated:
            found[each.name] = tuple([_value(item, each.inner, at) for item in value])
        else:
            found[each.name] = _value(value, each.inner, at)
    return kind(**found)


def _value(value: Any, kind: type | None, path: str) -> Any:
    match value:
        case Duration():
            return seconds_of(value)
        case Bound():
            return value.at_most if value.HasField("at_most") else None
        case Message():
            if kind is not None:
                return read(value, kind, path)
            return tuple(getattr(value, each.name) for each in value.DESCRIPTOR.fields)
    return value


@dataclass(frozen=True, slots=True)
class _SharedField:
    """A field that a dataclass and its message share; cached because descriptors are slow."""

    name: str
    default: Any
    """The dataclass's default; ``MISSING`` if it has none or a factory."""
    has_default: bool
    inner: type | None
    """The enumeration or dataclass that its type names."""
    descriptor: Descriptor
    has_presence: bool
    is_repeated: bool
    is_enum: bool
    is_message: bool
    is_bound: bool


def _find_shared_fields(kind: Any, message: type[Message]) -> tuple[_SharedField, ...]:
    """Return the fields that a dataclass shares with its message, in the order of the dataclass."""
    hints, descriptors = get_type_hints(kind), message.DESCRIPTOR.fields_by_name
    return tuple(
        [
            _shared_field(each, hints[each.name], descriptors[each.name])
            for each in fields(kind)
            if each.name in descriptors
        ]
    )


def _shared_field(field: Field[Any], hint: Any, descriptor: Descriptor) -> _SharedField:
    return _SharedField(
        name=field.name,
        default=field.default,
        has_default=field.default is not MISSING or field.default_factory is not MISSING,
        inner=_kind_in(hint),
        descriptor=descriptor,
        has_presence=descriptor.has_presence,
        is_repeated=descriptor.is_repeated,
        is_enum=descriptor.enum_type is not None,
        is_message=descriptor.message_type is not None,
        is_bound=descriptor.message_type is Bound.DESCRIPTOR,
    )


_shared_fields: Callable[[Any, Any], tuple[_SharedField, ...]] = functools.cache(
    _find_shared_fields
)


def _kind_in(hint: Any) -> type | None:
    """Return the enumeration or dataclass in a type: ``Beams | None`` -> ``Beams``."""
    for each in (hint, *get_args(hint)):
        if isinstance(each, type) and (is_dataclass(each) or issubclass(each, Enum)):
            return each
    return None


def refuse_unknown_fields(message: Message, *, inside: bool = True) -> None:
    """Refuse options of a newer client, which would otherwise be silently ignored.

    With ``inside``, nested messages are checked as well.
    """
    unknown = UnknownFieldSet(message)
    if len(unknown):
        raise RequestError(
            f"field number {unknown[0].field_number} of {message.DESCRIPTOR.full_name} "
            "is unknown to this server",
            hint="use a client of the server's version",
        )
    # By name, as ``ListFields`` would decode all text.
    for name, is_repeated in _messages_in(message.DESCRIPTOR) if inside else ():
        if is_repeated or message.HasField(name):
            value = getattr(message, name)
            for part in value if is_repeated else (value,):
                refuse_unknown_fields(part)


@functools.cache
def _messages_in(descriptor: Any) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a message that contain messages, and whether each may have several."""
    return tuple([(each.name, each.is_repeated) for each in descriptor.fields if each.message_type])


# Enumerations: KeyOrder.ANY is KEY_ORDER_ANY, and KEY_ORDER_UNSPECIFIED is 0.


def number_of(member: StrEnum, enumeration: Descriptor) -> Any:
    """Return the number of a member in messages."""
    return enumeration.values_by_name[_prefix(enumeration) + member.name].number


def member_of(kind: type[Word], enumeration: Descriptor, number: int) -> Word | None:
    """Return the member of a number, ``None`` if it is unknown or UNSPECIFIED."""
    value = enumeration.values_by_number.get(number)
    name = "" if value is None else value.name.removeprefix(_prefix(enumeration))
    return kind.__members__.get(name)


def _member(kind: Any, enumeration: Descriptor, number: int, path: str) -> StrEnum:
    member: StrEnum | None = member_of(kind, enumeration, number)
    if member is None:
        known = ", ".join(value.name for value in enumeration.values)
        name = path.rpartition(".")[2]
        raise RequestError(f"{name} {number} is none of {known}", field=path)
    return member


def _prefix(enumeration: Descriptor) -> str:
    return str(enumeration.values[0].name).removesuffix("UNSPECIFIED")


# Plain values


def duration_of(seconds: float) -> Duration:
    """Return a time as a message."""
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration


def seconds_of(duration: Duration) -> float:
    """Return the time of a message."""
    # One division, which rounds once: 1.382286 s is read as it was sent.
    return (duration.seconds * 10**9 + duration.nanos) / 10**9


def int32(value: int, path: str) -> int:
    """Return the value; raises LimitExceededError if it does not fit into 32 bits."""
    if value > _LARGEST_INT32:
        raise LimitExceededError(
            f"{path} {value!r} is above {_LARGEST_INT32}", limit=_LARGEST_INT32, field=path
        )
    return value


@contextmanager
def encodable(path: str) -> Iterator[None]:
    """Raise RequestError for text with half a character, which protobuf would refuse too."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise _not_unicode(error, path) from error


def _not_unicode(error: UnicodeEncodeError, path: str) -> RequestError:
    found = error.object[error.start]
    return RequestError(
        f"{path} holds {found!r} at offset {error.start}, which is no character",
        field=path,
        hint="replace lone surrogates before sending",
    )
