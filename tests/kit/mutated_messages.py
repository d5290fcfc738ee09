"""Mutations of messages for a server that has to withstand them."""

from __future__ import annotations

import math
import random
import struct
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["broken", "twist"]

_NUMBERS: Final = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32 - 1)
_FLOATS: Final = (0.0, -0.0, 1e-300, -1.0, 1e300, math.nan, math.inf, -math.inf)
_TEXTS: Final = ("", "x", "\0", "é\U0001f600", "x" * 5000, "{" * 300, "<|im_end|>")


def twist(rng: random.Random, message: Message) -> None:
    """Set a random field of the message, or of one inside of it, to an extreme value."""
    fields: Any = message.DESCRIPTOR.fields
    known: FieldDescriptor = rng.choice(fields)
    if known.message_type is not None:
        if known.is_repeated:
            twist(rng, getattr(message, known.name).add())
        else:
            getattr(message, known.name).SetInParent()
            twist(rng, getattr(message, known.name))
        return
    value = _wild(rng, known)
    if value is None:
        return
    if known.is_repeated:
        getattr(message, known.name).extend([value] * rng.choice([1, 3, 200]))
    else:
        setattr(message, known.name, value)


def _wild(rng: random.Random, known: FieldDescriptor) -> Any:
    """An extreme value that the field can hold, or ``None`` if we have none for it."""
    if known.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return rng.choice(_FLOATS)
    if known.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if known.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = rng.choice(_TEXTS)
        return text if known.type == FieldDescriptor.TYPE_STRING else text.encode()
    low, high = _RANGES.get(known.cpp_type, (-(2**31), 2**31 - 1))
    return rng.choice([number for number in _NUMBERS if low <= number <= high])


_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def broken(rng: random.Random, packed: bytes) -> bytes:
    """The bytes of a message with some changed, lost, doubled or inserted."""
    first, last = sorted(rng.randrange(len(packed) + 1) for _ in range(2))
    match rng.randrange(6):
        case 0:
            return packed[:first] + packed[last:]
        case 1:
            return packed[:last] + packed[first:last] * rng.choice([1, 2, 20]) + packed[last:]
        case 2:
            return packed[:first] + rng.randbytes(rng.choice([1, 2, 9])) + packed[first:]
        case 3:
            # A key with the type of a field, and a length that is not there.
            key = bytes([rng.randrange(256)])
            return packed[:first] + key + struct.pack("<I", rng.getrandbits(31)) + packed[first:]
        case _:
            changed = bytearray(packed or b"\0")
            for _ in range(rng.choice([1, 1, 4])):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)
