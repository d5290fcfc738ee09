"""The model's own answers to tasks, free or under their constraints, by guided's engine.

They are written to a file as they come, so that an interrupted run continues there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from guided.engine.engine import Engine
from guided.engine.gc_freeze import collect_garbage
from guided.engine.load import load_engine
from guided.spec import GenerationRequest, GenerationResult, Sampling
from guided.train.reward_tune.tasks import Task

__all__ = ["Asking", "answers", "opened_engine"]

_AT_ONCE = 16
"""Tasks that are answered together; the file grows after each such batch."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How answers are drawn."""

    is_constrained: bool
    count: int = 1
    """Answers to each task."""
    temperature: float = 0.0
    """0 takes the likeliest token."""
    seed: int = 0

    def request(self, task: Task, number: int) -> GenerationRequest:
        """Make the request for the task of this number; each has a seed of its own."""
        seed = self.seed * 1_000_003 + number * self.count
        return GenerationRequest(
            prompt=task.messages,
            constraint=task.constraint if self.is_constrained else None,
            max_tokens=task.max_tokens,
            n=self.count,
            sampling=Sampling(self.temperature, seed=seed if self.temperature else None),
        )


@contextmanager
def opened_engine(model: Path | str) -> Iterator[Callable[[], Engine]]:
    """Yield a function that opens an engine on its first call; it is closed at the end."""
    opened: list[Engine] = []

    def engine() -> Engine:
        if not opened:
            # It does not draft: timing the cost of drafts takes longer than they would save here.
            threads = torch.get_num_threads()
            opened.append(
                load_engine(str(model), threads=threads, max_batch=_AT_ONCE, drafts=False)
            )
        return opened[0]

    try:
        yield engine
    finally:
        if opened:
            opened.clear()
            collect_garbage()


def answers(
    engine: Callable[[], Engine], tasks: Sequence[Task], asking: Asking, file: Path
) -> dict[str, tuple[str, ...]]:
    """Return the answers to each task by its name, from the file or newly made.

    ``engine`` is called only if something is missing.
    """
    found = _read(file)
    numbered = [(number, task) for number, task in enumerate(tasks) if task.name not in found]
    if not numbered:
        return found
    title = f"answering {'under the constraint' if asking.is_constrained else 'freely'}"
    with _counting(title, len(tasks)) as count, file.open("a", encoding="utf-8") as out:
        for first in range(0, len(numbered), _AT_ONCE):
            count(len(tasks) - len(numbered) + first)
            chunk = numbered[first : first + _AT_ONCE]
            requests = {task.name: asking.request(task, number) for number, task in chunk}
            for name, texts in _generate(engine(), requests).items():
                found[name] = texts
                out.write(json.dumps({"task": name, "texts": texts}, ensure_ascii=False) + "\n")
            out.flush()
        count(len(tasks))
    return found


def _generate(
    engine: Engine, requests: Mapping[str, GenerationRequest]
) -> dict[str, tuple[str, ...]]:
    for name, request in requests.items():
        engine.submit(name, request)
    found: dict[str, tuple[str, ...]] = {}
    while engine.has_work:
        for finished in engine.step():
            if not isinstance(finished.outcome, GenerationResult):
                raise finished.outcome
            outcome = finished.outcome
            texts = tuple(each.text for each in outcome.candidates) or (outcome.text,)
            found[finished.request_id] = texts
    return found


def _read(file: Path) -> dict[str, tuple[str, ...]]:
    """Read the answers in a file; removes a last line that was cut off."""
    if not file.exists():
        return {}
    text = file.read_text(encoding="utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole, encoding="utf-8")
    # Not at other characters that end a line for Python: a text may contain them.
    rows = map(json.loads, whole.split("\n")[:-1])
    return {row["task"]: tuple(row["texts"]) for row in rows}


@contextmanager
def _counting(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error; yields a function that takes how many are done."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        console.print(f"{title} ({total} tasks) ...", highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done: bars.update(task, completed=done)
