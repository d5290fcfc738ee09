"""The commands ``guided train``: train drafters for a model on the model's own answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console

from guided.cli.common import DeviceFlag, shown_with
from guided.cli.flags import flag, with_flags
from guided.errors import RequestError
from guided.extras import needing
from guided.runtime.environment import prepare_environment

if TYPE_CHECKING:
    from guided.train.run import MakeLesson

__all__ = ["draft", "eagle", "medusa"]

ModelArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="Hub id or folder of the model. Default: SmolLM2-135M-Instruct."),
]
OutFlag: TypeAlias = Annotated[
    Path, typer.Option("--out", help="Folder for the trained weights and for checkpoints.")
]
_DATA = "Training data"


def _common(*, steps: int, learning_rate: float) -> tuple[Any, ...]:
    """Return the flags that all three commands share, with each command's own defaults."""
    return (
        flag(
            "model_flag",
            str | None,
            None,
            "The model, which may stand without the flag as well.",
            spelled="--model",
        ),
        flag(
            "data",
            Path | None,
            None,
            "File or folder of JSON lines with prompt or messages, schema or grammar, and"
            " max_tokens. Default: generated prompts.",
            group=_DATA,
        ),
        flag("prompts", int, 2000, "Number of prompts to generate.", group=_DATA),
        flag(
            "answers",
            Path | None,
            None,
            "File that keeps the model's answers for later runs. Default: answers.jsonl in --out.",
            group=_DATA,
        ),
        flag(
            "temperature",
            float,
            0.7,
            "Temperature of every other answer; the rest are greedy.",
            group=_DATA,
        ),
        flag("steps", int, steps, "Number of training steps."),
        flag("minutes", float | None, None, "Stop training after this many minutes of this run."),
        flag("batch", int, 8, "Texts per step, in each process."),
        flag("learning_rate", float, learning_rate, "Peak learning rate of Adam."),
        flag("save_every", int, 100, "Steps between checkpoints."),
        flag("seed", int, 0, "Seed of the prompts and of all randomness in training."),
        flag("threads", int | None, None, "Threads of a model call on the CPU."),
    )


@shown_with(
    "guided train medusa --out heads",
    "guided train medusa --model Qwen/Qwen3-0.6B --out heads --data prompts --steps 2000",
    "accelerate launch --config_file ddp.yaml -m guided.cli train medusa --out heads",
)
@with_flags(*_common(steps=1500, learning_rate=2e-3))
def medusa(
    out: OutFlag,
    model: ModelArgument = None,
    heads: Annotated[int, typer.Option(min=1, help="Number of heads, one token each.")] = 4,
    layers: Annotated[int, typer.Option(min=1, help="Residual blocks per head.")] = 1,
    places: Annotated[int, typer.Option(min=1, help="Positions per step to train on.")] = 256,
    device: DeviceFlag = "auto",
    **flags: Any,
) -> None:
    """Train Medusa heads, each of which guesses one later token from the last hidden state.

    Resumes an interrupted run. For the default model this takes less than half an hour on two
    cores, including its answers.
    """
    prepare_environment()
    with needing("guided train", "train"):
        from guided.train.medusa import medusa_lesson

    _run(
        lambda loaded, examples: medusa_lesson(
            loaded, examples, heads=heads, layers=layers, places=places
        ),
        *(model, out, device, flags),
    )


@shown_with(
    "guided train eagle --out head",
    "guided train eagle --out head --answers heads/answers.jsonl --minutes 15",
)
@with_flags(*_common(steps=1200, learning_rate=5e-4))
def eagle(
    out: OutFlag,
    model: ModelArgument = None,
    vocabulary: Annotated[
        int, typer.Option(min=2, help="Size of the head's vocabulary, of the most frequent tokens.")
    ] = 8192,
    intermediate: Annotated[
        int | None, typer.Option(min=1, help="Width of the MLP. Default: the model's.")
    ] = None,
    depth: Annotated[
        int, typer.Option(min=1, help="Number of steps on its own features to train.")
    ] = 4,
    places: Annotated[int, typer.Option(min=1, help="Positions per text to train on.")] = 32,
    device: DeviceFlag = "auto",
    **flags: Any,
) -> None:
    """Train an EAGLE-3 head: one layer that drafts from the model's hidden states, then its own.

    Resumes an interrupted run.
    """
    prepare_environment()
    with needing("guided train", "train"):
        from guided.train.eagle import eagle_lesson

    _run(
        lambda loaded, examples: eagle_lesson(
            loaded,
            examples,
            vocabulary=vocabulary,
            intermediate=intermediate,
            depth=depth,
            places=places,
        ),
        *(model, out, device, flags),
    )


@shown_with(
    "guided train draft --out small --from-layer 0 --from-layer 1 --from-layer 29",
    "guided train draft Qwen/Qwen3-8B --out small --layers 4 --width 512 --heads 8 --steps 20000",
)
@with_flags(*_common(steps=600, learning_rate=5e-4))
def draft(
    out: OutFlag,
    model: ModelArgument = None,
    layers: Annotated[int, typer.Option(min=1, help="Number of layers of the small model.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Width of its hidden states.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="Number of attention heads.")] = 4,
    from_layer: Annotated[
        list[int] | None,
        typer.Option(
            help="Layer of the model to start from instead, counted from 0; may be repeated."
        ),
    ] = None,
    places: Annotated[int, typer.Option(min=1, help="Positions per step to train on.")] = 256,
    device: DeviceFlag = "auto",
    **flags: Any,
) -> None:
    """Distil a small model with the same tokenizer, for guided serve --draft-model.

    Resumes an interrupted run.
    """
    prepare_environment()
    with needing("guided train", "train"):
        from guided.train.draft import DraftLesson, DraftShape
        from guided.train.target import FrozenTarget

    shape = DraftShape(layers, width, heads, tuple(from_layer or ()))
    _run(
        lambda loaded, _: DraftLesson(
            FrozenTarget(loaded.module), loaded.name, loaded.tokenizer, shape, places
        ),
        *(model, out, device, flags),
    )


def _run(
    make_lesson: MakeLesson, model: str | None, out: Path, device: str, flags: dict[str, Any]
) -> None:
    from guided.train.loop import Schedule
    from guided.train.progress import TrainingProgress
    from guided.train.prompts import made_prompts, read_prompts
    from guided.train.run import AnswerSettings, Place, run_training

    flagged: str | None = flags["model_flag"]
    if model is not None and flagged is not None:
        raise typer.BadParameter(f"two models are given, {model!r} and --model {flagged!r}")
    for name in ("prompts", "steps", "batch", "save_every"):
        if flags[name] < 1:
            raise RequestError(f"--{name.replace('_', '-')} {flags[name]} is below 1", field=name)
    data: Path | None = flags["data"]
    prompts = read_prompts(data) if data else made_prompts(flags["prompts"], flags["seed"])
    progress = TrainingProgress()
    trained = run_training(
        flagged if model is None else model,
        AnswerSettings(flags["answers"] or out / "answers.jsonl", prompts, flags["temperature"]),
        make_lesson,
        out,
        Schedule(
            *(flags[name] for name in ("steps", "minutes", "batch", "learning_rate")),
            *(flags[name] for name in ("save_every", "seed")),
        ),
        Place(device, flags["threads"]),
        progress,
    )
    if progress.is_first:
        console = Console()
        console.print(trained.accuracy.table(trained.depth_name))
        console.print(
            f"{out}: {trained.steps} steps, this run's in {trained.seconds:.0f} s", highlight=False
        )
