"""The stages of ``guided train reward-tune`` on a tiny random model; a run can be resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from safetensors.torch import load_file
from transformers import LlamaConfig, TrainerCallback

from guided.engine.engine import Engine
from guided.errors import RequestError
from guided.model.model_files import find_model
from guided.spec import JsonSchema, Lark, Message
from guided.train.loop import last_checkpoint
from guided.train.reward_tune.answers import Asking, answers, opened_engine
from guided.train.reward_tune.extraction import extraction_tasks
from guided.train.reward_tune.rewards import Judge, Weights
from guided.train.reward_tune.run import measure, tune
from guided.train.reward_tune.settings import Settings, SftAnswers, Stage
from guided.train.reward_tune.stages import (
    best_answers,
    dpo_trainer,
    grpo_trainer,
    preferences,
    sft_trainer,
)
from guided.train.reward_tune.tasks import Task
from guided.train.reward_tune.trainers import TRAINING_LOG, load_policy, train
from tests.engine.tiny_models import from_config
from tests.kit.built_tokenizers import BUILT, loaded
from tests.kit.effort import is_long
from tests.kit.json_lines import lines_of

pytestmark = [
    # Transformers 5.23 uses an old name of its own, and TRL warns of its own trainer.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
]

_TEMPLATE = (
    "{% for turn in messages %}{{ turn['role'] }}:\n{{ turn['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant:\n{% endif %}"
)
_JUDGE = Judge()
_SETTINGS = Settings(
    sft_steps=4,
    preference_steps=4,
    sft_batch=2,
    preference_batch=4,
    group=2,
    sft_rate=1e-2,
    preference_rate=1e-2,
    save_every=2,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random model with a chat template."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = loaded(BUILT["built with digits"]())
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[Engine]:
    with opened_engine(model) as engine:
        yield engine()


def _tasks(count: int = 6) -> tuple[Task, ...]:
    return tuple(replace(task, max_tokens=12) for task in extraction_tasks(count, 0, seed=2)[0])


def _ascii_tasks() -> list[Task]:
    """Some random bytes are ASCII, so that some beginnings are legal and others are not."""
    ascii_text = Lark("start: /[ -~]+/")
    return [Task(str(n), (Message("user", str(n)),), ascii_text, "a", 3) for n in range(8)]


def _expected(tasks: Sequence[Task]) -> dict[str, str]:
    return {task.name: str(task.expected) for task in tasks}


def _likelihood(folder: Path, task: Task, answer: str) -> float:
    """The log-probability of an answer, by the modules of transformers."""
    policy = load_policy(find_model(str(folder)))
    tokenizer: Any = policy.tokenizer
    prompt = tokenizer.apply_chat_template(task.turns, add_generation_prompt=True, tokenize=False)
    begun = len(tokenizer.encode(prompt))
    ids = torch.tensor([tokenizer.encode(f"{prompt}{answer}<|im_end|>")])
    module: Any = policy.module
    with torch.inference_mode():
        laws = module(ids).logits.log_softmax(-1)[0, begun - 1 : -1]  # [answer, vocabulary]
    return float(laws.gather(1, ids[0, begun:, None]).sum())


def _trained(trainer: Any, folder: Path, name: str) -> Path:
    train(trainer, folder / f"{name}.part", folder / name, PartialState())
    assert not (folder / f"{name}.part").exists()
    return folder / name


def test_sft_makes_the_expected_answers_likelier(model: Path, tmp_path: Path) -> None:
    tasks = _tasks()
    work = tmp_path / "sft.part"
    trainer = sft_trainer(find_model(str(model)), tasks, _expected(tasks), _SETTINGS, work)
    after = _trained(trainer, tmp_path, "sft")
    for task in tasks:
        answer = str(task.expected)
        assert _likelihood(after, task, answer) > _likelihood(model, task, answer) + 1


def test_dpo_prefers_what_was_chosen(model: Path, tmp_path: Path) -> None:
    tasks = _tasks(4)
    said = {task.name: ("no", str(task.expected), "never") for task in tasks}
    pairs = preferences(tasks, said, _JUDGE, Weights())
    trainer = dpo_trainer(find_model(str(model)), pairs, _SETTINGS, tmp_path / "dpo.part")
    after = _trained(trainer, tmp_path, "dpo")

    def margin(folder: Path) -> float:
        return sum(
            _likelihood(folder, task, pair["chosen"][0]["content"])
            - _likelihood(folder, task, pair["rejected"][0]["content"])
            for task, pair in zip(tasks, pairs, strict=True)
        )

    assert margin(after) > margin(model) + 1


def test_grpo_is_rewarded_by_our_terms(model: Path, tmp_path: Path) -> None:
    tasks = _ascii_tasks()
    settings = replace(_SETTINGS, weights=Weights(2.0, 0.5, 1.0, 0.25, 0.0))
    work = tmp_path / "grpo.part"
    trainer = grpo_trainer(find_model(str(model)), tasks, _JUDGE, settings, work)
    after = _trained(trainer, tmp_path, "grpo")
    logged = json.loads((after / TRAINING_LOG).read_text("utf-8"))
    steps = [entry for entry in logged if "reward" in entry]
    assert len(steps) == 4
    for entry in steps:
        means = {term: float(entry[f"rewards/{term}/mean"]) for term in settings.weights.signed()}
        weighted = sum(settings.weights.signed()[term] * mean for term, mean in means.items())
        assert float(entry["reward"]) == pytest.approx(weighted, abs=1e-5)
    assert any(float(entry["rewards/closeness/mean"]) > 0 for entry in steps)
    weights = [load_file(folder / "model.safetensors") for folder in (model, after)]
    assert not torch.equal(*(each["model.norm.weight"] for each in weights))


class _Killed(TrainerCallback):
    """Ends the training after a step, as if it were killed."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: object, state: Any, control: object, **_: Any) -> None:  # noqa: ARG002
        if state.global_step > self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("stage", Stage)
def test_training_that_was_killed_goes_on_as_if_it_had_not_been(
    model: Path, tmp_path: Path, stage: Stage
) -> None:
    files, tasks = find_model(str(model)), _tasks()
    said = {task.name: ("no", str(task.expected)) for task in tasks}

    def trainer(name: str) -> Any:
        work = tmp_path / f"{name}.part"
        match stage:
            case Stage.SFT:
                return sft_trainer(files, tasks, _expected(tasks), _SETTINGS, work)
            case Stage.DPO:
                pairs = preferences(tasks, said, _JUDGE, Weights())
                return dpo_trainer(files, pairs, _SETTINGS, work)
            case Stage.GRPO:
                return grpo_trainer(files, _ascii_tasks(), _JUDGE, _SETTINGS, work)

    whole = _trained(trainer("whole"), tmp_path, "whole")
    killed = trainer("killed")
    killed.add_callback(_Killed(2))
    with pytest.raises(KeyboardInterrupt):
        _trained(killed, tmp_path, "killed")
    checkpoints = tmp_path / "killed.part" / "checkpoints"
    assert last_checkpoint(checkpoints) == checkpoints / "checkpoint-2"
    # A checkpoint whose writing was interrupted: weights, and half of the state.
    cut = checkpoints / "checkpoint-3"
    cut.mkdir()
    (cut / "model.safetensors").write_bytes(b"")
    (cut / "trainer_state.json").write_text('{"epoch": 1,')
    assert last_checkpoint(checkpoints) == checkpoints / "checkpoint-2"
    gone_on = _trained(trainer("killed"), tmp_path, "killed")
    one, other = (load_file(folder / "model.safetensors") for folder in (whole, gone_on))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    first = load_file(model / "model.safetensors")
    assert not torch.equal(first["model.norm.weight"], one["model.norm.weight"])


def test_no_preference_among_equal_answers() -> None:
    tasks = _tasks(2)
    same = {task.name: ("no", "no") for task in tasks}
    with pytest.raises(RequestError, match="equally good"):
        preferences(tasks, same, _JUDGE, Weights())
    second = tasks[1]
    mixed = same | {second.name: ("no", str(second.expected), "{")}
    (pair,) = preferences(tasks, mixed, _JUDGE, Weights())
    assert pair["prompt"] == second.turns
    assert pair["chosen"][0]["content"] == second.expected
    assert pair["rejected"][0]["content"] == "no"
    assert best_answers([second], mixed, _JUDGE, Weights()) == {second.name: second.expected}


def test_answers_are_kept_and_only_those_missing_are_drawn(engine: Engine, tmp_path: Path) -> None:
    tasks = [replace(task, max_tokens=60) for task in _tasks(5)]
    file = tmp_path / "answers.jsonl"
    asking = Asking(is_constrained=True, count=2, temperature=1.0, seed=3)
    drawn = answers(lambda: engine, tasks, asking, file)
    assert {len(texts) for texts in drawn.values()} == {2}
    assert all(_JUDGE.scores(task, text).parses for task in tasks for text in drawn[task.name])
    whole = file.read_text("utf-8")
    # Killed in the middle of the third line.
    lines = lines_of(whole)
    file.write_text("".join(lines[:2]) + lines[2][:9], encoding="utf-8")
    before = engine.stats().ended
    assert answers(lambda: engine, tasks, asking, file) == drawn
    assert engine.stats().ended - before == 3
    # They are in the order in which they ended, which differs on a busy machine.
    assert sorted(lines_of(file.read_text("utf-8"))) == sorted(lines)

    def unasked() -> Engine:
        raise AssertionError("there is nothing to answer")

    assert answers(unasked, tasks, asking, file) == drawn


def test_a_whole_run_from_own_answers(model: Path, tmp_path: Path) -> None:
    """Tasks without expected answers, so that the model imitates the best of its own."""
    schema = JsonSchema('{"enum": ["red", "green", "blue"]}')
    tasks = [Task(str(n), (Message("user", f"Colour {n}"),), schema, None, 8) for n in range(4)]
    held_out = [replace(task, expected='"red"') for task in tasks[:2]]
    stages = (Stage.SFT, Stage.GRPO)
    settings = replace(
        _SETTINGS, model=str(model), stages=stages, sft_answers=SftAnswers.BEST, sft_steps=40
    )
    out = tmp_path / "out"
    last = tune(settings, tasks, held_out, out)
    assert last == out / "grpo"
    assert not [file.name for file in last.iterdir() if file.suffix in (".bin", ".pt")]
    found = measure(settings, held_out, out)
    assert list(found) == ["before", "after sft", "after grpo"]
    # Unconstrained answers of a random model are no colours before imitation, but are after it.
    assert found["before"].parses == 0
    assert found["after sft"].parses == 1
    for name, each in found.items():
        said = (out / "evaluation" / f"{name.replace(' ', '-')}-free.jsonl").read_text("utf-8")
        texts = [json.loads(line)["texts"][0] for line in lines_of(said)]
        assert each.parses == sum(text in ('"red"', '"green"', '"blue"') for text in texts) / 2
        assert each.right == sum(text == '"red"' for text in texts) / 2
    card = (last / "README.md").read_text("utf-8")
    assert "| after grpo |" in card
    assert "supervised fine-tuning, 40 steps of 2" in card
    # Nothing is made again, and nothing new is used.
    assert tune(settings, tasks, held_out, out) == last
    with pytest.raises(RequestError, match="of a run with sft_steps 40, not 9"):
        tune(replace(settings, sft_steps=9), tasks, held_out, out)
    with pytest.raises(RequestError, match="holds other tasks"):
        tune(settings, tasks[:3], held_out, out)


@pytest.mark.skipif(not is_long(), reason="starts two processes, each of which imports all")
def test_two_processes_draw_answers_once_and_train_together(model: Path, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
        *(str(Path(sys.executable).with_name("guided")), "train", "reward-tune"),
        *("--model", str(model), "--out", str(tmp_path), "--make", "8", "--make-held-out", "2"),
        *("--sft-answers", "best", "--sft-steps", "2", "--preference-steps", "2", "--group", "2"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    drawn = lines_of((tmp_path / "answers-sft.jsonl").read_text("utf-8"))
    assert len(drawn) == 8
    assert load_policy(find_model(str(tmp_path / "grpo"))).has_chat_template


def test_tasks_without_answers_cannot_be_imitated(model: Path, tmp_path: Path) -> None:
    settings = replace(_SETTINGS, model=str(model), stages=(Stage.SFT,))
    tasks = [replace(task, expected=None) for task in _tasks(2)]
    with pytest.raises(RequestError, match="brings no expected answer"):
        tune(settings, tasks, _tasks(1), tmp_path / "out")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stages": ()}, "at least one stage"),
        ({"stages": (Stage.SFT, Stage.SFT)}, "none twice"),
        ({"sft_steps": 0}, "sft_steps 0 is below 1"),
        ({"group": 1}, "group 1 is below 2"),
        ({"temperature": 0.0}, "temperature 0.0 is not above 0"),
        ({"preference_batch": 6, "group": 4}, "a batch of 6 does not hold whole groups of 4"),
    ],
)
def test_settings_that_contradict_themselves(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        replace(Settings(), **changed)
