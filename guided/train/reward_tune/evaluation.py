"""How well a model answers tasks that it was not trained on, free and under their constraints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from guided.train.reward_tune.answers import Asking, answers, opened_engine
from guided.train.reward_tune.rewards import Judge, Scores, Weights
from guided.train.reward_tune.tasks import Task, write_lines

__all__ = ["Evaluation", "evaluate", "evaluation_rows", "evaluation_table"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Shares of held-out tasks, each answered with the likeliest tokens."""

    tasks: int
    parses: float
    """Free answers that the constraint accepts whole."""
    right: float | None
    """Free answers that are the expected one; ``None`` if none is expected."""
    right_constrained: float | None
    """Answers under the constraint that are the expected one."""
    reward: float
    """The mean over the free answers."""


def evaluate(
    model: Path, tasks: Sequence[Task], judge: Judge, weights: Weights, kept: Path
) -> Evaluation:
    """Measure a model; keeps its answers and figures in files whose names begin with ``kept``."""
    file = kept.with_name(f"{kept.name}.jsonl")
    if file.exists():
        return Evaluation(**json.loads(file.read_text(encoding="utf-8")))
    with opened_engine(model) as engine:
        free, constrained = (
            _scored(
                tasks,
                answers(engine, tasks, asking, kept.with_name(f"{kept.name}-{name}.jsonl")),
                judge,
            )
            for name, asking in (("free", Asking(False)), ("constrained", Asking(True)))
        )
    found = Evaluation(
        tasks=len(tasks),
        parses=sum(scores.parses for scores in free) / len(tasks),
        right=_right(free),
        right_constrained=_right(constrained),
        reward=sum(scores.reward(weights) for scores in free) / len(tasks),
    )
    write_lines(file, [asdict(found)])
    return found


def _scored(
    tasks: Iterable[Task], said: Mapping[str, tuple[str, ...]], judge: Judge
) -> list[Scores]:
    return [judge.scores(task, said[task.name][0]) for task in tasks]


def _right(scores: Iterable[Scores]) -> float | None:
    """Return the share of answers with every field right, of those with an expected answer."""
    known = [each.right for each in scores if each.right is not None]
    return sum(each == 1 for each in known) / len(known) if known else None


_HEADINGS = ("free: parses", "free: right", "constrained: right", "free: reward")


def evaluation_rows(found: Mapping[str, Evaluation]) -> list[tuple[str, ...]]:
    """Return a heading, and the figures of each model, as texts."""
    rows: list[tuple[str, ...]] = [("model", *_HEADINGS)]
    for name, each in found.items():
        shares = (each.parses, each.right, each.right_constrained)
        told = ("-" if share is None else f"{share:.1%}" for share in shares)
        rows.append((name, *told, f"{each.reward:.3f}"))
    return rows


def evaluation_table(found: Mapping[str, Evaluation]) -> Table:
    """Return a table of each model's figures, before and after, to be printed."""
    tasks = next(iter(found.values())).tasks
    heading, *rows = evaluation_rows(found)
    table = Table(title=f"{tasks} held-out tasks, likeliest tokens")
    for name in heading:
        table.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        table.add_row(*row)
    return table
