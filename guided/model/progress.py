"""Reports what a long step is doing and how far it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

__all__ = ["Progress", "RichProgress", "SilentProgress", "counting_bars"]


class Progress(Protocol):
    """Where long steps are reported."""

    def step(
        self, title: str, *, total_bytes: int | None = None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Open a step; call what it yields with the number of bytes done so far."""

    def note(self, text: str) -> None:
        """Report something that takes no time."""


class RichProgress:
    """A bar for each step, or a spinner if its size is unknown, on standard error."""

    @contextmanager
    def step(
        self, title: str, *, total_bytes: int | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Show a step until the block ends; yields a function that takes the bytes done so far."""
        from rich import progress
        from rich.console import Console

        console = Console(file=sys.stderr)
        columns: list[progress.ProgressColumn] = [
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
        ]
        if total_bytes is not None:
            columns += [
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
            ]
        columns.append(progress.TimeElapsedColumn())
        if not console.is_terminal:
            # A bar shows in a log only when it is finished; the log should say what is running.
            console.print(f"{title} ...", highlight=False)
        with progress.Progress(*columns, console=console) as bars:
            task = bars.add_task(title, total=total_bytes)
            yield lambda done: bars.update(task, completed=done)
            if total_bytes is None:
                bars.update(task, total=1, completed=1)

    def note(self, text: str) -> None:
        from rich.console import Console

        Console(file=sys.stderr, soft_wrap=True).print(text, highlight=False, markup=False)


class SilentProgress:
    """Reports nothing."""

    @contextmanager
    def step(
        self,
        title: str,  # noqa: ARG002 - part of the protocol
        *,
        total_bytes: int | None = None,  # noqa: ARG002 - part of the protocol
    ) -> Iterator[Callable[[int], None]]:
        yield lambda _done: None

    def note(self, text: str) -> None:
        pass


def counting_bars(console: Console, *, is_shown: bool = True, transient: bool = False) -> Bars:
    """Return bars for things that are counted, which show only in a terminal."""
    from rich import progress

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=transient,
        disable=not (console.is_terminal and is_shown),
    )
