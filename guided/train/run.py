"""A training from its beginning: prompts, answers of the target, the loop, the written drafter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from filelock import FileLock

from guided.engine import load_engine
from guided.engine.gc_freeze import collect_garbage
from guided.errors import ModelError
from guided.model.device import choose_device
from guided.model.load import LoadedModel, load_model, load_texts
from guided.model.model_files import find_model
from guided.model.prompt import render_prompt
from guided.runtime.cores import usable_cores
from guided.train.answers import AnswerFile, make_answers, wanted_answers
from guided.train.examples import Example, split
from guided.train.lesson import Lesson
from guided.train.loop import Schedule, Trained, train
from guided.train.progress import TrainingProgress
from guided.train.prompts import Prompts

if TYPE_CHECKING:
    from guided.model.load import ModelTexts
    from guided.model.model_files import ModelFiles

__all__ = ["AnswerSettings", "MakeLesson", "Place", "run_training"]

_LONGEST: Final = 1024
"""Tokens of a text that are trained on; the rest is cut off."""
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How the target's answers are made, and where they are kept."""

    file: Path
    prompts: Prompts
    temperature: float
    """Every other prompt is answered by drawing at this temperature; 0 answers all greedily."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is computed."""

    device: str
    """As for ``choose_device``; each process of a launcher takes the device with its number."""
    threads: int | None
    """Threads of a model call on the CPU; ``None``: ``usable_cores``."""


MakeLesson = Callable[[LoadedModel, Sequence[Example]], Lesson]
"""Makes a lesson of the target, and of the examples to be trained on."""


def run_training(
    model: str | None,
    answers: AnswerSettings,
    make_lesson: MakeLesson,
    folder: Path,
    schedule: Schedule,
    place: Place,
    progress: TrainingProgress,
) -> Trained:
    """Let the target answer, train on its answers, and write the drafter into the folder.

    A run that was killed continues where it stopped, with the answers and with the training.
    """
    torch.set_num_threads(place.threads or usable_cores())
    device = _device_here(place.device)
    files = find_model(model, progress)
    texts = load_texts(files, progress)
    answered = _answered(files, texts, answers, place, progress)
    training, held_out = split(answered, longest=min(_LONGEST, texts.context_window))
    loaded = load_model(files, device=device, progress=progress)
    chosen = sum(sum(example.chosen) for example in training)
    facts = (
        f"It was trained on {len(training):,} answers that {files.name} gave itself, with "
        f"{chosen:,} tokens that it chose; {len(held_out):,} answers were held out."
    )
    progress.note(facts)
    lesson = make_lesson(loaded, training)
    return train(
        lesson, training, held_out, folder, schedule, device=device, facts=facts, progress=progress
    )


def _answered(
    files: ModelFiles,
    texts: ModelTexts,
    settings: AnswerSettings,
    place: Place,
    progress: TrainingProgress,
) -> list[Example]:
    """Return the answers to all prompts; one process makes them, any others wait."""
    wanted = wanted_answers(settings.prompts, temperature=settings.temperature)
    settings.file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{settings.file}.lock"):
        file = AnswerFile(settings.file, model=files.name, vocabulary=texts.vocabulary.digest)
        if any(key not in file for key in wanted):
            engine = load_engine(
                str(files.folder),
                device=place.device,
                threads=place.threads,
                max_batch=_AT_ONCE,
                progress=progress,
            )
            render = partial(render_prompt, texts)
            with progress.counting("answers of the target") as tell:
                make_answers(engine, render, file, wanted, at_once=_AT_ONCE, tell=tell)
            del engine
            collect_garbage()
    answers, errors = file.answers(wanted), file.errors(wanted)
    if not answers:
        raise ModelError(f"{files.name} answered no prompt", hint=f"the first error: {errors[0]}")
    if errors:
        progress.note(f"{len(errors)} prompts were not answered; the first: {errors[0]}")
    return answers


def _device_here(name: str) -> torch.device:
    """Return the device of this process; a launcher numbers those of a machine."""
    device = choose_device(name)
    number = os.environ.get("LOCAL_RANK")
    if device.type == "cuda" and number is not None:
        return torch.device("cuda", int(number))
    return device
