"""The cost curve is measured on the model itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from guided.engine import call_costs
from guided.engine.call_costs import measure_costs
from guided.model.batch import StepBatch, StepOutput
from guided.model.runner import ModelRunner
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import make_model


def test_a_rising_curve_is_measured_inside_the_context_window() -> None:
    runner = ModelRunner(make_model(), vocabulary_size=len(TOKEN_BYTES))
    few = [1, 2, 4, 8, 9, 12, 16, 24]
    wide, narrow = (measure_costs(runner, window) for window in (512, 100))
    assert [tokens for tokens, _ in wide.points] == [*few, 32, 64, 128]
    assert [tokens for tokens, _ in narrow.points] == [*few, 32]
    for curve in (wide, narrow):
        assert 0 < curve.seconds(1) <= curve.seconds(32) < 60


class BusyAtFirst(ModelRunner):
    """A runner on a machine that has less and less else to do for three rounds, and its clock."""

    calls = 0
    seconds = 0.0

    def forward(self, batch: StepBatch) -> StepOutput:
        rounds = self.calls // 9
        self.calls += 1
        self.seconds += 0.001 + max(0, 3 - rounds) * 0.02
        return super().forward(batch)


def test_a_busy_spell_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = BusyAtFirst(make_model(), vocabulary_size=len(TOKEN_BYTES))
    clock = SimpleNamespace(perf_counter=lambda: runner.seconds)
    monkeypatch.setattr(call_costs, "time", clock)
    assert measure_costs(runner, 100).seconds(1) == pytest.approx(0.001)
