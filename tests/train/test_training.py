"""Drafters are trained on a tiny target: the loss falls, and the saved files can be read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from guided.drafters.heads import load_eagle, load_medusa
from guided.errors import RequestError
from guided.model.device import CPU
from guided.model.load import LoadedModel, load_model
from guided.model.progress import SilentProgress
from guided.train.draft import DraftLesson, DraftShape, DraftTraining
from guided.train.eagle import EagleTraining, eagle_lesson
from guided.train.examples import Example
from guided.train.lesson import Lesson
from guided.train.loop import Schedule, Trained, last_checkpoint, trained_module
from guided.train.loop import train as run_loop
from guided.train.medusa import MedusaTraining, medusa_lesson
from guided.train.progress import TrainingProgress
from guided.train.prompts import read_prompts
from guided.train.run import AnswerSettings, Place, run_training
from guided.train.target import FrozenTarget
from tests.kit.effort import is_long
from tests.kit.forks import start_guided
from tests.kit.json_lines import lines_of
from tests.train.tiny_target import PROMPTS, write_prompts, write_target

_STEPS = 40
_ROOT = Path(__file__).parents[2]
Make = Callable[[LoadedModel, Sequence[Example]], Lesson]


def _medusa(loaded: LoadedModel, examples: Sequence[Example]) -> Lesson:
    return medusa_lesson(loaded, examples, heads=3, layers=1, places=64)


def _eagle(loaded: LoadedModel, examples: Sequence[Example]) -> Lesson:
    return eagle_lesson(loaded, examples, vocabulary=120, intermediate=None, depth=2, places=16)


def _draft(loaded: LoadedModel, _: Sequence[Example]) -> Lesson:
    shape = DraftShape(layers=1, width=32, heads=2)
    return DraftLesson(FrozenTarget(loaded.module), loaded.name, loaded.tokenizer, shape, 64)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, prompts, and the answers once a test has requested them."""
    folder = tmp_path_factory.mktemp("training")
    write_target(folder / "target")
    write_prompts(folder / "prompts.jsonl")
    return folder


def _train(
    place: Path,
    out: Path,
    make: Make,
    *,
    steps: int = _STEPS,
    minutes: float | None = None,
) -> Trained:
    return run_training(
        str(place / "target"),
        AnswerSettings(place / "answers.jsonl", read_prompts(place / "prompts.jsonl"), 0.8),
        make,
        out,
        Schedule(steps, minutes, batch=8, learning_rate=2e-2, save_every=10, seed=0),
        Place("cpu", 1),
        TrainingProgress(),
    )


def _target(place: Path) -> LoadedModel:
    return load_model(str(place / "target"), dtype=torch.float32, progress=SilentProgress())


@pytest.mark.parametrize("make", [_medusa, _eagle, _draft])
def test_the_loss_falls_and_the_card_tells_the_accuracy(
    place: Path, tmp_path: Path, make: Make
) -> None:
    trained = _train(place, tmp_path, make)
    assert trained.steps == _STEPS
    (_, first), *_, (_, last) = trained.losses
    assert last < 0.9 * first
    depth = min(trained.accuracy.counts)
    assert 0 <= trained.accuracy.share(depth, 1) <= trained.accuracy.share(depth, 8) <= 1
    assert trained.accuracy.counts[depth] > 10
    card = (tmp_path / "README.md").read_text()
    assert f"{trained.accuracy.share(depth, 1):.3f}" in card
    assert f"trained for {_STEPS} steps" in card
    assert "base_model: " in card


def test_medusa_heads_are_read_as_they_were_trained(place: Path, tmp_path: Path) -> None:
    _train(place, tmp_path, _medusa, steps=4)
    module = trained_module(_lesson(place, _medusa), tmp_path)
    assert isinstance(module, MedusaTraining)
    states = torch.randn(5, 32)
    heads = load_medusa(tmp_path).float()
    with torch.no_grad():
        expected = torch.stack(module.float().logits(states))
    torch.testing.assert_close(heads(states), expected, atol=0.05, rtol=0.05)
    # They differ from their initial values, those of the target's own head.
    own = states @ FrozenTarget(_target(place).module).head.T
    assert (heads(states)[0] - own).abs().max() > 0.05


def test_an_eagle_head_is_read_as_it_was_trained(place: Path, tmp_path: Path) -> None:
    _train(place, tmp_path, _eagle, steps=4)
    lesson = _lesson(place, _eagle)
    module = trained_module(lesson, tmp_path)
    assert isinstance(module, EagleTraining)
    head = load_eagle(tmp_path, target_layers=8).float()
    head.use_embedding(FrozenTarget(_target(place).module).embedding)
    assert torch.equal(head.draft_ids(), module.head.draft_ids())
    taps, tokens = torch.randn(2, 7, 96), torch.randint(0, 200, (2, 7))
    with torch.no_grad():
        found, expected = head(taps, tokens, steps=2), module.head(taps, tokens, steps=2)
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0.1)


@torch.no_grad()
def test_an_eagle_head_walks_from_some_places_as_from_all(place: Path) -> None:
    module = _lesson(place, _eagle).make_module()
    assert isinstance(module, EagleTraining)
    taps, tokens = torch.randn(2, 9, 96), torch.randint(0, 200, (2, 9))
    places = torch.tensor([[5, 0, 3], [6, 1, 5]])
    whole = module.head(taps, tokens, steps=2)
    for step, logits in enumerate(module.walk(taps, tokens, places)):
        for text in range(2):
            torch.testing.assert_close(logits[text], whole[step, text, places[text]])


def test_a_training_that_ran_out_of_time_goes_on(place: Path, tmp_path: Path) -> None:
    assert _train(place, tmp_path, _medusa, steps=6, minutes=0.0).steps == 1
    load_medusa(tmp_path)
    assert last_checkpoint(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "checkpoint-1"
    trained = _train(place, tmp_path, _medusa, steps=6)
    assert (trained.steps, trained.losses[0][0]) == (6, 1)


def test_a_draft_model_is_loaded_as_any_model(place: Path, tmp_path: Path) -> None:
    _train(place, tmp_path, _draft, steps=4)
    loaded, target = load_model(str(tmp_path)), _target(place)
    assert loaded.vocabulary.digest == target.vocabulary.digest
    config = loaded.module.config
    assert (config.num_hidden_layers, config.hidden_size) == (1, 32)


def test_a_draft_model_begins_with_layers_of_the_target(place: Path) -> None:
    shape = DraftShape(from_layers=(1, 4))
    loaded = _target(place)
    target = FrozenTarget(loaded.module)
    module = DraftLesson(target, loaded.name, loaded.tokenizer, shape, 8).make_module()
    assert isinstance(module, DraftTraining)
    own, its = loaded.module.state_dict(), module.model.state_dict()
    assert module.model.config.num_hidden_layers == 2
    for name, tensor in its.items():
        source = name.replace("layers.1.", "layers.4.").replace("layers.0.", "layers.1.")
        assert torch.equal(tensor, own[source]), name
    with pytest.raises(RequestError, match="layers 0 to 7, and no 8"):
        DraftLesson(
            target, loaded.name, loaded.tokenizer, DraftShape(from_layers=(8,)), 8
        ).make_module()


def _lesson(place: Path, make: Make) -> Lesson:
    """The lesson as in the loop: of the examples that are trained on."""
    found: list[Lesson] = []

    def keep(loaded: LoadedModel, examples: Sequence[Example]) -> Lesson:
        found.append(make(loaded, examples))
        raise _EnoughError

    with pytest.raises(_EnoughError):
        _train(place, place / "nowhere", keep)
    return found[0]


class _EnoughError(Exception):
    pass


def test_other_settings_do_not_go_on_from_a_checkpoint(place: Path, tmp_path: Path) -> None:
    lesson = _lesson(place, _medusa)
    (tmp_path / "training.json").write_text(json.dumps({**lesson.told(), "heads": 5}))
    schedule = Schedule(1, None, batch=1, learning_rate=1e-3, save_every=1, seed=0)
    with pytest.raises(RequestError, match=r"other settings \(heads\)"):
        run_loop(
            *(lesson, [], [], tmp_path, schedule),
            device=CPU,
            facts="",
            progress=TrainingProgress(),
        )


def test_a_checkpoint_that_was_being_written_is_not_gone_on_from(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    for step in (5, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    (tmp_path / "checkpoint-5" / "trainer_state.json").write_text("{}")
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-5"
    (tmp_path / "checkpoint-10" / "trainer_state.json").write_text('{"global')
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-5"


def _command(place: Path, out: Path, kind: str, steps: int) -> list[str]:
    return [
        *("train", kind, str(place / "target"), "--out", str(out), "--steps", str(steps)),
        *("--data", str(place / "prompts.jsonl"), "--answers", str(place / "answers.jsonl")),
        *("--temperature", "0.8", "--save-every", "20", "--threads", "1", "--device", "cpu"),
    ]


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_a_training_that_was_killed_goes_on(place: Path, tmp_path: Path) -> None:
    """The killed run is a fork; the one that continues is started as users do."""
    _answer(place)
    steps, log = 120, tmp_path / "log"
    command = _command(place, tmp_path, "medusa", steps)
    killed = start_guided(command, log)
    deadline = time.monotonic() + 200
    while last_checkpoint(tmp_path / "checkpoints") is None:
        assert killed.is_alive(), log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed.kill()
    killed.join()
    last = last_checkpoint(tmp_path / "checkpoints")
    assert last is not None
    assert not (tmp_path / "config.json").exists()
    assert 0 < int(last.name.partition("-")[2]) < steps
    done = _start([sys.executable, "-m", "guided.cli", *command])
    said = done.communicate(timeout=250)[0]
    assert done.returncode == 0, said
    assert f"going on from {last}" in said.replace("\n", "")
    assert f"step {steps} of {steps}" in said
    state = tmp_path / "checkpoints" / f"checkpoint-{steps}" / "trainer_state.json"
    assert json.loads(state.read_text())["global_step"] == steps
    load_medusa(tmp_path)


def _answer(place: Path) -> None:
    """Make the answers unless another test has done so."""
    if not (place / "answers.jsonl").exists():
        _lesson(place, _medusa)
    assert len(lines_of((place / "answers.jsonl").read_text("utf-8"))) == PROMPTS + 1


@pytest.mark.skipif(not is_long(), reason="starts two processes")
def test_what_is_sharded_is_trained_as_what_is_not() -> None:
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    done = _start([*launch, "-m", "tests.train.sharded"])
    said = done.communicate(timeout=290)[0]
    assert done.returncode == 0, said
    assert said.count("tensors are equal") == 3


@pytest.mark.skipif(not is_long(), reason="starts two processes for each kind")
@pytest.mark.parametrize("kind", ["medusa", "eagle", "draft"])
def test_two_processes_train_together(place: Path, tmp_path: Path, kind: str) -> None:
    _answer(place)
    launcher = shutil.which("accelerate", path=str(Path(sys.executable).parent))
    assert launcher is not None
    config = _ROOT / "examples" / "train" / "ddp-cpu.yaml"
    command = [
        *(launcher, "launch", "--config_file", str(config), "--main_process_port", "0"),
        *("-m", "guided.cli", *_command(place, tmp_path, kind, 20)),
    ]
    done = _start(command)
    said = done.communicate(timeout=290)[0]
    assert done.returncode == 0, said
    assert "step 20 of 20" in said
    # Only one process reports it.
    assert said.count("were held out") == said.count("loss") / 10 == 1
    if kind == "medusa":
        load_medusa(tmp_path)
    elif kind == "eagle":
        load_eagle(tmp_path, target_layers=8)
    else:
        load_model(str(tmp_path))
