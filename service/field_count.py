"""Counts the fields of a message in its bytes, before anything is made of them.

Making an object of each field takes a hundred times the memory of its bytes and blocks every other
thread: a message of 4 MiB may hold two million empty fields. Format: Protocol Buffers, Encoding.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from guided.errors import LimitExceededError

__all__ = ["counted_fields"]

Descriptor: TypeAlias = Any
"""The descriptor of a message; protobuf's stubs type it differently in two implementations."""

_VARINT, _FIXED64, _LENGTH, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_CONTINUES: Final = bytes(range(0x80, 0x100))
"""All but the last byte of a number."""
_FIXED_SIZES: Final = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which fields of a message hold more than one value."""

    messages: dict[int, _Layout] = field(default_factory=dict)
    packed: dict[int, int] = field(default_factory=dict)
    """Repeated numbers, with the bytes of each value; 0 where they vary in length."""


def counted_fields(message: bytes, descriptor: Descriptor, limit: int) -> int:
    """Return the number of fields on all levels; raises LimitExceededError above the limit.

    Each value of a repeated field counts. A malformed message is counted up to its fault, for the
    parser to refuse. Takes about a microsecond per field, up to the limit.
    """
    count = 0
    waiting = [(0, len(message), _cached_layout(descriptor))]
    while waiting and count <= limit:
        start, end, layout = waiting.pop()
        count += _count(message, start, end, layout, limit - count, waiting)
    if count > limit:
        raise LimitExceededError(
            f"the call's message has more than {limit} fields, each part of a list counted",
            limit=limit,
            hint="send less in one call, or raise the server's max_message_fields",
        )
    return count


def _count(
    message: bytes,
    at: int,
    end: int,
    layout: _Layout,
    most: int,
    waiting: list[tuple[int, int, _Layout]],
) -> int:
    """Count the fields of one message up to ``most + 1``; adds nested ones to ``waiting``."""
    count = 0
    messages, packed = layout.messages, layout.packed
    try:
        while at < end and count <= most:
            count += 1
            tag, at = _number(message, at)
            kind = tag & 7
            if kind == _LENGTH:
                size, at = _number(message, at)
                after = at + size
                if after > end:
                    return count
                if inner := messages.get(tag >> 3):
                    waiting.append((at, after, inner))
                elif (width := packed.get(tag >> 3)) is not None:
                    count += _values(message[at:after], width)
                at = after
            elif kind == _VARINT:
                _, at = _number(message, at)
            elif kind == _FIXED64:
                at += 8
            elif kind == _FIXED32:
                at += 4
            elif kind not in (_START_GROUP, _END_GROUP):
                return count
    except IndexError:
        pass  # the last number is cut off
    return count


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Read a number, base 128 with the lowest digit first, and the offset after it."""
    value = message[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            return value, at
        shift += 7


def _values(content: bytes, width: int) -> int:
    """Count the numbers in packed content, each of ``width`` bytes, or 0 where that varies."""
    return len(content) // width if width else len(content.translate(None, _CONTINUES))


@functools.cache
def _cached_layout(descriptor: Descriptor) -> _Layout:
    return _layout_of(descriptor, {})


def _layout_of(descriptor: Descriptor, known: dict[str, _Layout]) -> _Layout:
    """Return the layout of a message; a message type nested in itself gets the same object."""
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    layout = known[descriptor.full_name] = _Layout()
    for each in descriptor.fields:
        if each.message_type is not None:
            layout.messages[each.number] = _layout_of(each.message_type, known)
        elif each.is_repeated and each.type not in (
            FieldDescriptor.TYPE_STRING,
            FieldDescriptor.TYPE_BYTES,
        ):
            layout.packed[each.number] = _FIXED_SIZES.get(each.type, 0)
    return layout
