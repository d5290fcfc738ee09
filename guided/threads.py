"""How the threads of a model call wait for each other; has to be said before torch is loaded."""

from __future__ import annotations

import os

__all__ = ["let_threads_sleep"]


def let_threads_sleep() -> None:
    """Make threads that wait for others sleep soon, unless the environment says how they wait.

    They wait by spinning, which makes a call many times slower when something else wants a core.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
