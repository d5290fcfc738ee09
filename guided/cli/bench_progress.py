"""How far ``guided bench`` is, on standard error."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from guided.bench import Way

__all__ = ["BenchProgress"]


class BenchProgress:
    """A bar in a terminal, a line for each part of the workload elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, soft_wrap=True)
        self._began = time.monotonic()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bars.add_task("warming up", total=None)

    def __enter__(self) -> Self:
        self._bars.start()
        self._line("warming up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def tell(self, way: Way, done: int, total: int) -> None:
        """Say which part of the workload begins, and how many are done of how many."""
        self._bars.update(self._task, description=way.value, completed=done, total=total)
        seconds = time.monotonic() - self._began
        self._line(f"{way.value}: part {done + 1} of {total}, after {seconds:.0f} s")

    def _line(self, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(text, highlight=False)
