"""How many arenas the C library's allocator has in this process."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Final

__all__ = ["arenas_of_threads"]

_THREADS: Final = 4
_BYTES: Final = 4096
"""More than Python allots by itself."""


def arenas_of_threads() -> int | None:
    """The arenas there are after some threads have allotted memory at once; ``None`` where the
    allocator does not tell."""
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "malloc_info"):
        return None
    together = threading.Barrier(_THREADS)

    def allot() -> None:
        kept = bytearray(_BYTES)
        together.wait()
        del kept

    threads = [threading.Thread(target=allot) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _told(library).count("<heap nr=")


def _told(library: Any) -> str:
    library.fdopen.restype = ctypes.c_void_p
    reading, writing = os.pipe()
    file = ctypes.c_void_p(library.fdopen(writing, b"w"))
    library.malloc_info(0, file)
    library.fclose(file)
    with os.fdopen(reading) as told:
        return told.read()
