"""The cost curve is measured on the model itself."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from guided.decoding import CostCurve
from guided.engine import call_costs
from guided.engine.call_costs import measure_costs
from guided.kv.layer_groups import LayerShape
from guided.model.batch import StepBatch, StepOutput
from guided.model.runner import ModelRunner
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import make_model

SIZES = [1, 2, 4, 8, 9, 12, 16, 24, 32, 64, 128]


def test_a_rising_curve_is_measured_inside_the_context_window() -> None:
    runner = ModelRunner(make_model(), vocabulary_size=len(TOKEN_BYTES))
    wide, narrow = (measure_costs(runner, window) for window in (512, 100))
    assert [tokens for tokens, _ in wide.points] == SIZES
    assert [tokens for tokens, _ in narrow.points] == SIZES[:-2]
    for curve in (wide, narrow):
        assert 0 < curve.seconds(1) <= curve.seconds(32) < 60


class Busy(ModelRunner):
    """A runner on a machine that does other work, with its clock and its processor time.

    A call takes up to half as much more processor time when another process has emptied the caches,
    and the clock runs on while the call waits for a processor.
    """

    ranks = 1

    def __init__(self, seed: int) -> None:
        super().__init__(make_model(), vocabulary_size=len(TOKEN_BYTES))
        self.chance = Random(seed)
        self.clock = self.processor = 0.0

    @property
    def layers_by_rank(self) -> tuple[tuple[LayerShape, ...], ...]:
        return super().layers_by_rank * self.ranks

    def forward(self, batch: StepBatch) -> StepOutput:
        took = true_seconds(len(batch.tokens)) * self.chance.choice((1.0,) * 6 + (1.1, 1.5))
        self.processor += took
        self.clock += took * self.chance.choice((0.5, 1.0, 2.0, 8.0))  # at best on two threads
        return super().forward(batch)

    def processor_time(self) -> float:
        self.processor += 1e-9
        return self.processor

    def curve(self, monkeypatch: pytest.MonkeyPatch) -> CostCurve:
        clocks = {"perf_counter": lambda: self.clock, "process_time": self.processor_time}
        monkeypatch.setattr(call_costs, "time", SimpleNamespace(**clocks))
        return measure_costs(self, 512)


def true_seconds(tokens: int) -> float:
    """The seconds that one thread would take."""
    return 0.001 + 0.00002 * tokens


@pytest.mark.parametrize("seed", range(10))
def test_what_others_do_is_not_taken_for_what_a_call_costs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = Busy(seed).curve(monkeypatch)
    for tokens, seconds in curve.points:
        assert seconds == pytest.approx(true_seconds(tokens) / 2, rel=0.15)


def test_a_call_that_other_processes_have_a_part_in_is_timed_by_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = Busy(0)
    runner.ranks = 2
    monkeypatch.setattr(runner, "chance", SimpleNamespace(choice=lambda of: of[2]))
    curve = runner.curve(monkeypatch)
    for tokens, seconds in curve.points:
        assert seconds == pytest.approx(2 * true_seconds(tokens))


def test_calls_are_timed_by_the_clock_where_the_processors_time_goes_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = Busy(0)
    monkeypatch.setattr(runner, "chance", SimpleNamespace(choice=lambda of: of[1]))
    monkeypatch.setattr(runner, "processor_time", lambda: runner.processor // 0.01 * 0.01)
    for tokens, seconds in runner.curve(monkeypatch).points:
        assert seconds == pytest.approx(true_seconds(tokens))


def test_slow_calls_are_made_twice_but_for_the_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of each is often the slowest."""
    runner = Busy(0)
    first = [5000.0, 1.0] * (1 + len(SIZES))  # the first call reads the others' prefix
    factors = iter([*first, *[100.0, 1.0] * len([size for size in SIZES if size <= 16])])
    monkeypatch.setattr(runner, "chance", SimpleNamespace(choice=lambda _: next(factors)))
    curve = runner.curve(monkeypatch)
    for tokens, seconds in curve.points:
        factor = 100 if tokens <= 16 else 5000
        assert seconds == pytest.approx(factor * true_seconds(tokens))
    assert next(factors, None) is None
