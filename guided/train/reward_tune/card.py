"""The card of a tuned model: what it was made from, how, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from guided.model.default_model import DEFAULT_MODEL
from guided.train.reward_tune.evaluation import Evaluation, evaluation_rows
from guided.train.reward_tune.settings import Settings, Stage

__all__ = ["write_card"]

_WHAT = {
    Stage.SFT: "supervised fine-tuning",
    Stage.DPO: "direct preference optimisation on its own best and worst free answers",
    Stage.GRPO: "group relative policy optimisation on rewards, answers drawn freely",
}


def write_card(
    folder: Path, settings: Settings, stage: Stage, tasks: int, found: Mapping[str, Evaluation]
) -> None:
    """Write the card (README.md) of the model that a stage has made; ``found`` may be empty."""
    base = DEFAULT_MODEL if settings.model == "default" else settings.model
    done = settings.stages[: settings.stages.index(stage) + 1]
    weights = ", ".join(f"{name} {weight:+g}" for name, weight in settings.weights.signed().items())
    lines = [
        "---",
        f"base_model: {base}",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        f"tags: [{', '.join(['structured-generation', *done])}]",
        "---",
        "",
        f"# {Path(base).name}, tuned to answer in a given structure",
        "",
        f"Made by `guided train reward-tune` on {tasks} tasks, in this order:",
        "",
        *(f"- {_WHAT[each]}, {_numbers(settings, each)}" for each in done),
        "",
        f"The reward of an answer: {weights}. Where answers were drawn, {settings.group} for each"
        f" task at temperature {settings.temperature:g}. Seed {settings.seed}.",
        "",
    ]
    if found:
        count = next(iter(found.values())).tasks
        heading, *rows = evaluation_rows(found)
        lines += [
            f"On {count} tasks held out, with the likeliest tokens:",
            "",
            f"| {' | '.join(heading)} |",
            f"|{'---|' * len(heading)}",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
        ]
    lines += ["It is served as any other: `guided serve --model FOLDER`.", ""]
    partial = folder / "README.md.partial"
    partial.write_text("\n".join(lines), encoding="utf-8")
    partial.replace(folder / "README.md")


def _numbers(settings: Settings, stage: Stage) -> str:
    steps, batch, rate = settings.steps(stage), settings.batch(stage), settings.rate(stage)
    return f"{steps} steps of {batch}, rate {rate:g}"
