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
    str | None, typer.Argument(help="Name or folder of the model; else the default model.")
]
OutFlag: TypeAlias = Annotated[
    Path, typer.Option("--out", help="Folder for what is trained, and for checkpoints.")
]
_DATA = "What is trained on"


def _common(*, steps: int, batch: int, learning_rate: float) -> tuple[Any, ...]:
    """Return the flags that all three commands share, with each command's own defaults."""
    return (
        flag(
            "data",
            Path | None,
            None,
            "File or folder of JSON lines with prompt or messages, schema or grammar, and"
            " max_tokens; else prompts that are made.",
            group=_DATA,
        ),
        flag("prompts", int, 2000, "How many prompts are made.", group=_DATA),
        flag(
            "answers",
            Path | None,
            None,
            "File where the answers are kept, to be used again; else in the folder --out.",
            group=_DATA,
        ),
        flag(
            "temperature",
            float,
            0.7,
            "Every other answer is drawn at this temperature, the others are greedy.",
            group=_DATA,
        ),
        flag("steps", int, steps, "Steps of training."),
        flag("minutes", float | None, None, "End the training after so many minutes of this run."),
        flag("batch", int, batch, "Texts of a step, in each process."),
        flag("learning_rate", float, learning_rate, "Of Adam, at its highest."),
        flag("save_every", int, 100, "Steps between checkpoints."),
        flag("seed", int, 0, "Of the prompts, and of all that is random in training."),
        flag("threads", int | None, None, "Threads of a model call on the CPU."),
    )


@shown_with(
    "guided train medusa --out heads",
    "guided train medusa Qwen/Qwen3-0.6B --out heads --data prompts --steps 2000",
    "accelerate launch --config_file ddp.yaml -m guided.cli train medusa --out heads",
)
@with_flags(*_common(steps=1500, batch=8, learning_rate=2e-3))
def medusa(
    out: OutFlag,
    model: ModelArgument = None,
    heads: Annotated[int, typer.Option(min=1, help="Tokens that are guessed at once.")] = 4,
    layers: Annotated[int, typer.Option(min=1, help="Residual blocks of a head.")] = 1,
    places: Annotated[int, typer.Option(min=1, help="Places of a step that are trained on.")] = 256,
    device: DeviceFlag = "auto",
    **flags: Any,
) -> None:
    """Train Medusa heads: each guesses a token further on, from the model's last hidden state.

    Takes up again what was interrupted. The default model's heads take less than half an hour on
    two cores, its answers included.
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
@with_flags(*_common(steps=1200, batch=8, learning_rate=5e-4))
def eagle(
    out: OutFlag,
    model: ModelArgument = None,
    vocabulary: Annotated[
        int, typer.Option(min=2, help="Tokens that the head can say, the most frequent ones.")
    ] = 8192,
    intermediate: Annotated[
        int | None, typer.Option(min=1, help="Width of the MLP; else that of the model.")
    ] = None,
    depth: Annotated[
        int, typer.Option(min=1, help="Steps on its own features that are trained.")
    ] = 4,
    places: Annotated[int, typer.Option(min=1, help="Places of a text that are trained on.")] = 32,
    device: DeviceFlag = "auto",
    **flags: Any,
) -> None:
    """Train an EAGLE-3 head: one layer that reads the model's hidden states and goes on by itself.

    Takes up again what was interrupted.
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
@with_flags(*_common(steps=600, batch=8, learning_rate=5e-4))
def draft(
    out: OutFlag,
    model: ModelArgument = None,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the small model.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Numbers in its hidden states.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="Heads of its attention.")] = 4,
    from_layer: Annotated[
        list[int] | None,
        typer.Option(
            help="Layer of the model that it begins with instead, from 0; may be repeated."
        ),
    ] = None,
    places: Annotated[int, typer.Option(min=1, help="Places of a step that are trained on.")] = 256,
    device: DeviceFlag = "auto",
    **flags: Any,
) -> None:
    """Distil a small model with the same tokenizer, which --draft-model of the server loads.

    Takes up again what was interrupted.
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

    for name in ("prompts", "steps", "batch", "save_every"):
        if flags[name] < 1:
            raise RequestError(f"--{name.replace('_', '-')} {flags[name]} is below 1", field=name)
    data: Path | None = flags["data"]
    prompts = read_prompts(data) if data else made_prompts(flags["prompts"], flags["seed"])
    progress = TrainingProgress()
    trained = run_training(
        model,
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
