"""What the libraries of a model call read from the environment; must be set before torch loads."""

from __future__ import annotations

import os

__all__ = ["prepare_environment"]

_PRIMITIVES = 256
"""Primitives that oneDNN keeps: one for each shape that a module of transformers multiplies."""


def prepare_environment() -> None:
    """Set how threads wait and what oneDNN keeps, unless the environment already says so.

    Threads wait for others by spinning, which makes a call many times slower when something else
    needs a core. oneDNN keeps about half a MiB for each shape of a matrix product, by default 1,024
    of them.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_PRIMITIVES))
