"""The costs of model calls are measured once for each machine and model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from guided.engine import call_costs
from guided.engine.cache_size import CacheRequest
from guided.engine.call_costs import load_or_measure_costs
from guided.engine.memory_plan import measure_footprint
from guided.model.device import CPU
from guided.model.model_files import ModelFiles, find_model
from guided.model.progress import SilentProgress
from guided.model.runner import ModelRunner
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import make_model

_IS_BUSY = call_costs._is_busy
SIZES = [1, 2, 4, 8, 9, 12, 16, 24, 32]
WINDOW = 100


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFiles:
    """A model, and a cache folder of its own."""
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(call_costs, "_is_busy", lambda: False)
    make_model(dtype=torch.float32).save_pretrained(tmp_path / "model")
    return find_model(str(tmp_path / "model"), SilentProgress())


class Counted(ModelRunner):
    """Counts its calls."""

    calls = 0

    def forward(self, batch: Any) -> Any:
        self.calls += 1
        return super().forward(batch)


def start(files: ModelFiles, dtype: str = "float32") -> tuple[Any, int]:
    """The curve of a starting engine, and the number of calls made for it."""
    model = make_model(dtype=getattr(torch, dtype))
    runner = Counted(model, vocabulary_size=len(TOKEN_BYTES))
    curve = load_or_measure_costs(
        runner, WINDOW, files, measure_footprint(files, dtype, CacheRequest(), CPU)
    )
    return curve, runner.calls


def kept_file(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache" / "costs").iterdir()
    return file


def test_a_second_start_makes_no_call(files: ModelFiles) -> None:
    measured, calls = start(files)
    assert calls > len(SIZES)
    assert [size for size, _ in measured.points] == SIZES
    assert start(files) == (measured, 0)


def test_another_model_format_or_machine_is_measured_by_itself(
    files: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(files)
    assert start(files, "float64")[1] > 0
    monkeypatch.setattr(call_costs, "_processor", lambda: ["model name: another"])
    assert start(files)[1] > 0
    assert len(list((tmp_path / "cache" / "costs").iterdir())) == 3


def test_what_was_kept_is_taken_as_it_is_however_old(files: ModelFiles, tmp_path: Path) -> None:
    start(files)
    file = kept_file(tmp_path)
    file.write_text(json.dumps({size: 1.0 + size for size in SIZES}))
    os.utime(file, (1e9, 1e9))
    curve, calls = start(files)
    assert calls == 0
    assert curve.points == tuple((size, 1.0 + size) for size in SIZES)


NEGATIVE = json.dumps(dict.fromkeys(SIZES, -1.0))


@pytest.mark.parametrize("text", ["", "[1]", '{"1": "x"}', '{"1": 1.0}', NEGATIVE])
def test_what_cannot_be_read_is_measured_again(
    files: ModelFiles, tmp_path: Path, text: str
) -> None:
    start(files)
    file = kept_file(tmp_path)
    file.write_text(text)
    assert start(files)[1] > len(SIZES)
    assert start(files)[1] == 0


def test_what_a_busy_machine_shows_is_not_kept(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1e9, 0.0, 0.0))
    monkeypatch.setattr(call_costs, "_is_busy", _IS_BUSY)
    start(files)
    assert start(files)[1] > len(SIZES)


def test_a_cache_that_cannot_be_written_to_is_no_error(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIDED_CACHE", "/dev/null/no")
    assert start(files)[1] > len(SIZES)
