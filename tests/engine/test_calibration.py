"""The cost curve is measured on the model itself."""

from __future__ import annotations

from guided.engine.calibration import measure_costs
from guided.model.runner import ModelRunner
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import make_model


def test_a_rising_curve_is_measured_inside_the_context_window() -> None:
    runner = ModelRunner(make_model(), vocabulary_size=len(TOKEN_BYTES))
    wide, narrow = (measure_costs(runner, window) for window in (512, 100))
    assert [tokens for tokens, _ in wide.points] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert [tokens for tokens, _ in narrow.points] == [1, 2, 4, 8, 16, 32]
    for curve in (wide, narrow):
        assert 0 < curve.seconds(1) <= curve.seconds(32) < 60
