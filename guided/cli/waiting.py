"""Telling on standard error what a command waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

__all__ = ["telling_of_compilation"]

_WHAT = "compiling kernels for this processor, which is done once and takes a minute or two"


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Say so when machine code has to be compiled first; in a terminal, how many kernels were."""
    # Loaded here, so that commands without a compiler need none.
    from guided.runtime.kernel_events import telling_of_kernels

    console = Console(stderr=True, soft_wrap=True)
    status = console.status("")

    def tell(number: int) -> None:
        if console.is_terminal:
            status.start()
            status.update(f"{_WHAT}: number {number}")
        elif number == 1:
            console.print(_WHAT, highlight=False)

    try:
        with telling_of_kernels(tell):
            yield
    finally:
        status.stop()
