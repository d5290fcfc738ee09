"""What the libraries of a model call read from the environment; has to be said before torch."""

from __future__ import annotations

import os

__all__ = ["prepare_environment"]

_KERNELS = 256
"""Enough for the shapes that the own forward pass, in whole tiles of rows, mostly comes to."""


def prepare_environment() -> None:
    """Say how threads wait and what oneDNN keeps, unless the environment already does.

    Threads wait for others by spinning, which makes a call many times slower when something else
    wants a core. oneDNN keeps about half a MiB for each shape of a matrix product, 1,024 of them.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS))
