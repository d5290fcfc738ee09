"""Windows are small for a while, in all places where a model reads them, and then restored."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from guided.model.small_windows import SMALLEST, large_windows, small_windows
from tests.engine.tiny_models import make_model


def windows_of(model: torch.nn.Module) -> list[int | None]:
    return [getattr(part, "sliding_window", None) for part in model.modules()]


def test_layers_and_config_have_the_same_small_window_and_then_their_own() -> None:
    model = make_model("gemma3_sliding")
    before = windows_of(model)
    assert 6 in before
    with small_windows(model, 512) as real:
        assert real == {SMALLEST: 6}
        assert model.config.sliding_window == SMALLEST
        assert windows_of(model) == [SMALLEST if window == 6 else window for window in before]
    assert windows_of(model) == before
    assert model.config.sliding_window == 6


def test_windows_of_several_sizes_stay_apart() -> None:
    model = make_model("mistral_sliding")
    model.model.layers[1].self_attn.sliding_window = 9
    with small_windows(model, 512) as real:
        assert real == {SMALLEST: 7, SMALLEST + 1: 9}
    assert model.config.sliding_window == 7


def test_a_window_that_never_closes_is_left_alone() -> None:
    model = make_model("mistral_sliding")
    with small_windows(model, 7) as real:
        assert real == {}
        assert model.config.sliding_window == 7


def test_windows_are_set_back_where_a_trial_fails() -> None:
    model = make_model("mistral_sliding")
    with pytest.raises(RuntimeError), small_windows(model, 512):
        raise RuntimeError
    assert model.config.sliding_window == 7


def test_no_tokens_are_no_window() -> None:
    model = make_model("mistral_sliding")
    model.config.sliding_window = 0
    with small_windows(model, 512) as real:
        assert real == {}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"window_size": 256}, {"window_size": 256}),
        ({"local_attention_window_len": 30}, {"local_attention_window_len": 30}),
        ({"sliding_window": 4096}, {}),  # is made small
        ({"max_window_layers": 28, "sliding_window_pattern": 26}, {}),  # these count layers
        ({"window_size": 8}, {}),  # a trial is longer
        ({"window_size": 1024}, {}),  # no text is longer
        ({"use_sliding_window": True, "window_sizes": [300]}, {}),
    ],
)
def test_other_windows_are_found_by_name(
    settings: dict[str, object], found: dict[str, int]
) -> None:
    assert large_windows(SimpleNamespace(**settings), tried=12, limit=512) == found
