"""The three ways to train, each of which makes one of TRL's trainers of a model and tasks.

GRPO draws its answers unconstrained: it rewards the model for following the format unaided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from datasets import Dataset
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from guided.errors import RequestError
from guided.model.load import LoadedModel
from guided.model.model_files import ModelFiles
from guided.train.reward_tune.rewards import TERMS, Judge, Scores, Weights
from guided.train.reward_tune.settings import Settings, Stage
from guided.train.reward_tune.tasks import Task
from guided.train.reward_tune.trainers import arguments, load_policy

__all__ = ["best_answers", "dpo_trainer", "grpo_trainer", "preferences", "sft_trainer"]

_LEAST_GAP: Final = 0.1
"""The least difference in reward between the answers of a pair; nearer ones say little."""

Answers = Mapping[str, tuple[str, ...]]
"""Several for each task, by its name."""


def best_answers(
    tasks: Iterable[Task], answers: Answers, judge: Judge, weights: Weights
) -> dict[str, str]:
    """Return the answer of highest reward to each task."""
    return {task.name: _ranked(task, answers, judge, weights)[-1][1] for task in tasks}


def preferences(
    tasks: Sequence[Task], answers: Answers, judge: Judge, weights: Weights
) -> list[dict[str, Any]]:
    """Return pairs of the best and the worst answer, for tasks where they differ enough.

    Raises ``RequestError`` if there is no such task.
    """
    pairs = []
    for task in tasks:
        (worst, rejected), *_, (best, chosen) = _ranked(task, answers, judge, weights)
        if best - worst >= _LEAST_GAP:
            pair = {"chosen": _said(chosen), "rejected": _said(rejected)}
            pairs.append({"prompt": task.turns, **pair})
    if not pairs:
        raise RequestError(
            f"the answers to each of {len(tasks)} tasks are equally good, so none is preferred",
            hint="take more tasks, a larger group or a higher temperature",
        )
    return pairs


def _ranked(
    task: Task, answers: Answers, judge: Judge, weights: Weights
) -> list[tuple[float, str]]:
    """Return rewards and texts, the worst first; equal ones as they were drawn."""
    rated = [(judge.scores(task, text).reward(weights), text) for text in answers[task.name]]
    return sorted(rated, key=lambda pair: pair[0])


def _said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def sft_trainer(
    files: ModelFiles,
    tasks: Sequence[Task],
    answers: Mapping[str, str],
    settings: Settings,
    work: Path,
) -> Any:
    """Make the trainer that imitates an answer to each task; the loss is on the answer only."""
    policy = load_policy(files)
    rows = [{"prompt": task.turns, "completion": _said(answers[task.name])} for task in tasks]
    config = SFTConfig(**arguments(settings, Stage.SFT, work), max_length=None)
    return _made(SFTTrainer, policy, config, rows)


def dpo_trainer(
    files: ModelFiles, pairs: Sequence[dict[str, Any]], settings: Settings, work: Path
) -> Any:
    """Make the trainer that prefers chosen answers to rejected ones, against the old model."""
    policy = load_policy(files)
    config = DPOConfig(**arguments(settings, Stage.DPO, work), max_length=None)
    reference = load_policy(files).module
    return _made(DPOTrainer, policy, config, pairs, ref_model=reference)


def grpo_trainer(
    files: ModelFiles, tasks: Sequence[Task], judge: Judge, settings: Settings, work: Path
) -> Any:
    """Make the trainer that draws groups of free answers and reinforces the better of each."""
    policy = load_policy(files)
    rows = [{"prompt": task.turns, "task": number} for number, task in enumerate(tasks)]
    signed = settings.weights.signed()
    config = GRPOConfig(
        **arguments(settings, Stage.GRPO, work),
        num_generations=settings.group,
        max_completion_length=max(task.max_tokens for task in tasks),
        temperature=settings.temperature,
        reward_weights=[signed[term] for term in TERMS],
    )
    rewards = _reward_functions(tasks, judge)
    return _made(GRPOTrainer, policy, config, rows, reward_funcs=rewards)


def _made(
    kind: Callable[..., Any],
    policy: LoadedModel,
    config: Any,
    rows: Sequence[dict[str, Any]],
    **others: Any,
) -> Any:
    dataset = Dataset.from_list(list(rows))
    return kind(
        model=policy.module,
        args=config,
        train_dataset=dataset,
        processing_class=policy.tokenizer,
        **others,
    )


def _reward_functions(tasks: Sequence[Task], judge: Judge) -> list[Callable[..., Any]]:
    """Return a function for each term, as TRL calls and logs them: over a batch of answers."""
    last: tuple[list[tuple[int, str]], list[Scores]] = ([], [])

    def judged(task: Sequence[int], completions: Sequence[Any]) -> list[Scores]:
        nonlocal last
        batch = [
            (number, said[0]["content"]) for number, said in zip(task, completions, strict=True)
        ]
        # TRL calls each term for the same batch, one after the other.
        if batch != last[0]:
            last = (batch, [judge.scores(tasks[number], text) for number, text in batch])
        return last[1]

    def function_of(term: str) -> Callable[..., Any]:
        def reward(completions: Sequence[Any], task: Sequence[int], **_: Any) -> list[float | None]:
            return [getattr(scores, term) for scores in judged(task, completions)]

        reward.__name__ = term
        return reward

    return [function_of(term) for term in TERMS]
