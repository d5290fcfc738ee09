"""The default model in fp32: every drafter and every pair of them, on requests of the workload.

Heads and the draft model are not trained, so they are mostly wrong, which changes no token. Only in
the long form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from guided.bench.workload import read_workload
from guided.drafters.heads import EagleShape, MedusaHeads, MedusaShape, save_eagle, save_medusa
from guided.engine import Engine, load_engine
from guided.model.default_model import fetch_default_model
from guided.model.progress import SilentProgress
from guided.spec import GenerationRequest, GenerationResult
from tests.engine.tiny_models import answers
from tests.kit.effort import is_long
from tests.unit.drafters.heads import random_eagle

pytestmark = [
    pytest.mark.skipif(not is_long(), reason="some minutes: make test-long"),
    pytest.mark.timeout(3600),
]
NAMES = ("lookup", "suffix", "lookahead", "draft", "medusa", "eagle")
SETS = [names for size in (1, 2) for names in combinations(NAMES, size)]
KEPT_LAYERS = (0, 1, 28, 29)
LONGEST = 96


def asked(drafters: tuple[str, ...]) -> dict[str, GenerationRequest]:
    """Six requests of the included workload."""
    return {
        name: replace(request, drafters=drafters, max_tokens=min(request.most_tokens, LONGEST))
        for name, request in [*read_workload().items()][:6]
    }


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """In fp32: bf16 drifts with the shape of a call, and drafts change that shape."""
    folder = tmp_path_factory.mktemp("drafters")
    model = fetch_default_model(SilentProgress())
    target = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    save_heads(folder, target)
    save_draft_model(folder / "draft", target)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder / "draft")
    return load_engine(
        str(model),
        dtype="float32",
        device="cpu",
        threads=1,
        drafters=NAMES[:3],
        draft_models=[str(folder / "draft")],
        draft_widths=(2, 1, 1),
        heads=[str(folder / "medusa"), str(folder / "eagle")],
    )


def save_heads(folder: Path, target: Any) -> None:
    """Save Medusa heads that predict as the target's own head does, and a random EAGLE-3 head."""
    vocabulary, hidden = target.get_output_embeddings().weight.shape
    medusa = MedusaHeads(MedusaShape(hidden, vocabulary, heads=3))
    for head in range(3):
        medusa.vocabulary_matrix(head).data.copy_(target.get_output_embeddings().weight)
    save_medusa(folder / "medusa", medusa, base_model="the default model")
    shape = EagleShape(
        hidden_size=hidden,
        intermediate_size=96,
        heads=9,
        kv_heads=3,
        head_dim=64,
        vocabulary_size=vocabulary,
        draft_vocabulary_size=2000,
        target_hidden_size=hidden,
        taps=(2, 15, 27),
    )
    save_eagle(folder / "eagle", random_eagle(shape), base_model="the default model")


def save_draft_model(folder: Path, target: Any) -> None:
    """Save a draft model of some layers of the target, taken out of it."""
    layers = target.get_decoder().layers
    target.get_decoder().layers = torch.nn.ModuleList([layers[layer] for layer in KEPT_LAYERS])
    target.config.num_hidden_layers = len(KEPT_LAYERS)
    if getattr(target.config, "layer_types", None):
        target.config.layer_types = [target.config.layer_types[layer] for layer in KEPT_LAYERS]
    target.save_pretrained(folder)


@pytest.fixture(scope="module")
def without_drafts(engine: Engine) -> dict[str, GenerationResult]:
    found = answers(engine, asked(("none",)))
    assert sum(result.usage.drafted_tokens for result in found.values()) == 0
    return found


@pytest.mark.parametrize("names", SETS, ids="+".join)
def test_no_token_changes(
    engine: Engine,
    without_drafts: dict[str, GenerationResult],
    names: tuple[str, ...],
    record_property: Callable[[str, object], None],
) -> None:
    found = answers(engine, asked(names))
    if "suffix" in names:  # it drafts from earlier answers
        found = answers(engine, asked(names))
    for name, result in found.items():
        assert result.tokens == without_drafts[name].tokens, name
        assert result.finish_reason is without_drafts[name].finish_reason
    for told in ("drafted_tokens", "accepted_tokens", "model_calls", "output_tokens"):
        record_property(told, sum(getattr(result.usage, told) for result in found.values()))
    if names != ("lookahead",):  # its window rarely pays on a CPU
        assert sum(result.usage.drafted_tokens for result in found.values()) > 0
