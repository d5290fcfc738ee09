"""Arrays passed to kernels by their addresses, all in one array.

For the caller of a kernel, unpacking one array takes about a tenth of a microsecond, and walks read
a dozen of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

__all__ = ["addresses_of", "set_address", "table_at"]


def addresses_of(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the address and the length of each array, int64 ``[arrays, 2]``, for ``table_at``.

    The arrays must have one or two dimensions, in C order. The caller must keep them alive.
    """
    addresses = np.empty((len(arrays), 2), dtype=np.int64)
    for number, array in enumerate(arrays):
        set_address(addresses, number, array)
    return addresses


def set_address(addresses: NDArray[np.int64], number: int, array: NDArray[Any]) -> None:
    """Let row ``number`` of ``addresses`` stand for another array."""
    assert array.flags.c_contiguous
    addresses[number] = array.__array_interface__["data"][0], len(array)


def _table_at(_: Any, address: Any, length: Any, columns: Any, kind: Any) -> Any:
    """In a kernel, return the array at an address, given its length, columns and numpy type.

    If ``columns`` is ``None``, the array has one dimension.
    """
    sizes = (length,) if isinstance(columns, types.NoneType) else (length, columns)
    found = types.Array(kind.dtype, len(sizes), "C")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = make_array(signature.return_type)(context, builder)  # type: ignore[no-untyped-call]
        itemsize = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        item = context.get_constant(types.intp, itemsize)
        shape = [
            context.cast(builder, value, size, types.intp)
            for value, size in zip(values[1:], sizes, strict=False)
        ]
        populate_array(  # type: ignore[no-untyped-call]
            array,
            data=builder.inttoptr(values[0], array.data.type),
            shape=shape,
            strides=[item] if len(shape) == 1 else [builder.mul(shape[1], item), item],
            itemsize=item,
            meminfo=None,
        )
        return array._getvalue()

    return found(address, length, columns, kind), generate


table_at: Callable[..., Any] = intrinsic(_table_at)
