"""Shows how far a training is: bars in a terminal, occasional lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console

from guided.model.progress import RichProgress, counting_bars

__all__ = ["TrainingProgress"]

_SECONDS_BETWEEN_LINES: Final = 10.0


class TrainingProgress(RichProgress):
    """Steps of a model's loading, and things that are counted; on standard error.

    Of several processes of a launcher, only the first reports.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, soft_wrap=True)
        self.is_first = os.environ.get("RANK", "0") == "0"

    @contextmanager
    def step(
        self, title: str, *, total_bytes: int | None = None
    ) -> Iterator[Callable[[int], None]]:
        if self.is_first:
            with super().step(title, total_bytes=total_bytes) as report:
                yield report
        else:
            yield lambda _done: None

    def note(self, text: str) -> None:
        if self.is_first:
            self._console.print(text, highlight=False, markup=False)

    @contextmanager
    def counting(self, title: str) -> Iterator[Callable[[int, int], None]]:
        """Yield a function that takes how many are done, and of how many."""
        began = last = time.monotonic()
        bars = counting_bars(self._console, is_shown=self.is_first)
        with bars:
            task = bars.add_task(title, total=None)

            def tell(done: int, total: int) -> None:
                nonlocal last
                now = time.monotonic()
                bars.update(task, completed=done, total=total)
                is_due = now - last >= _SECONDS_BETWEEN_LINES or done in (0, total)
                if bars.disable and is_due:
                    last = now
                    self.note(f"{title}: {done} of {total}, after {now - began:.0f} s")

            yield tell
