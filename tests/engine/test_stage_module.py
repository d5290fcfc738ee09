"""Every type of model with a plan gives the same logits in stages, or is refused with a reason."""

from __future__ import annotations

import copy
import random
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from guided.errors import ModelError
from guided.model.model_files import find_model
from guided.model.parallel.pipeline_plan import pipeline_plan, split_evenly
from guided.model.parallel.stage_module import keep_stage
from tests.engine.tiny_models import from_config
from tests.kit.causal_types import CAUSAL_TYPES, tiny_config
from tests.kit.effort import is_long, times

SPLIT = ("gemma3_text", "deepseek_v3", "llama", "smollm3")
REFUSED = {
    "gemma4_text": "has layers that read the keys of others (num_kv_shared_layers)",
    "gpt2": "has no plan for it in transformers (base_model_pp_plan)",
}
_TRIED = (
    CAUSAL_TYPES if is_long() else (*SPLIT, *REFUSED, *random.Random(5).sample(CAUSAL_TYPES, 6))
)


class InMemory:
    """A line of stages in one process, which compute one after the other."""

    def __init__(self) -> None:
        self.sent: deque[torch.Tensor] = deque()

    def receive(self, into: torch.Tensor) -> None:
        into.copy_(self.sent.popleft())

    def send(self, states: torch.Tensor) -> None:
        self.sent.append(states.clone())


def in_stages(whole: Any, folder: Path, tokens: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The logits of a saved model in two stages, and the weights of the second."""
    plan = pipeline_plan(find_model(str(folder)), whole.config, 2)
    line = InMemory()
    first, last = copy.deepcopy(whole), copy.deepcopy(whole)
    keep_stage(first, plan.stages[0], line, torch.float32)
    keep_stage(last, plan.stages[1], line, torch.float32)
    with torch.inference_mode():
        first(input_ids=tokens, use_cache=False)
        found = last(input_ids=tokens, use_cache=False).logits
    assert not line.sent
    return found, numbers(last)


def numbers(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("model_type", sorted(set(_TRIED)))
@pytest.mark.filterwarnings("ignore")  # transformers warns of settings that tiny configs leave out
def test_stages_compute_what_the_whole_does(model_type: str, tmp_path: Path) -> None:
    tokens = torch.arange(5, 25).reshape(2, 10)
    try:
        torch.manual_seed(0)
        whole: Any = from_config(tiny_config(model_type))
        whole.float()
        whole.save_pretrained(tmp_path)
        find_model(str(tmp_path))
        with torch.inference_mode():
            expected = whole(input_ids=tokens, use_cache=False).logits
    except Exception as error:
        pytest.skip(f"no model of texts as small as this: {error}")
    try:
        found, held = in_stages(whole, tmp_path, tokens)
    except ModelError as error:
        refusal = str(error)
        found, held = expected, 0
    else:
        refusal = ""
    assert torch.allclose(found, expected, atol=1e-4)
    assert held < 0.9 * numbers(whole)
    if model_type in REFUSED:
        assert REFUSED[model_type] in refusal
    if model_type in SPLIT:
        assert not refusal


def test_layers_that_hand_on_more_than_hidden_states_are_refused(tmp_path: Path) -> None:
    whole: Any = from_config(tiny_config("llama"))
    whole.save_pretrained(tmp_path)
    whole.model.layers[1].register_forward_hook(lambda _, __, states: (states, None))
    with pytest.raises(ModelError) as caught:
        in_stages(whole, tmp_path, torch.arange(5, 15)[None])
    assert str(caught.value) == (
        "a LlamaDecoderLayer hands more to the next than hidden states of torch.float32, so layers "
        "cannot be in different processes; leave pipeline_parallel out"
    )


def _largest(sizes: list[int], cuts: tuple[int, ...]) -> int:
    edges = [0, *cuts, len(sizes)]
    return max(sum(sizes[a:b]) for a, b in pairwise(edges))


def test_no_other_parts_are_more_even() -> None:
    """Compared with all cuts into three."""
    chance = random.Random(1)
    for _ in range(times(40)):
        sizes = [chance.randint(1, 50) for _ in range(chance.randint(3, 9))]
        count = len(sizes)
        parts = split_evenly(sizes, 3)
        assert [n for part in parts for n in part] == list(range(count))
        assert all(parts)
        cuts = [(a, b) for a in range(1, count - 1) for b in range(a + 1, count)]
        best = min(_largest(sizes, cut) for cut in cuts)
        assert max(sum(sizes[n] for n in part) for part in parts) == best
