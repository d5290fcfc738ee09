"""Heads that we write are read by speculators' own model code, with the same results.

It needs other versions of our dependencies: `make test-formats` installs it beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from guided.drafters.heads import EagleShape, load_eagle, save_eagle
from tests.engine.right_heads import LAYERS
from tests.unit.drafters.heads import EAGLE_SHAPES, random_eagle, save_target

eagle3: Any = pytest.importorskip("speculators.models.eagle3")


@pytest.mark.parametrize("name", EAGLE_SHAPES)
def test_an_eagle_head_that_we_write_says_the_same_there(tmp_path: Path, name: str) -> None:
    shape = EAGLE_SHAPES[name]
    ours = random_eagle(shape)
    target = save_target(tmp_path / "target", shape)
    save_eagle(tmp_path / "head", ours, base_model=str(tmp_path / "target"))
    theirs = load_theirs(tmp_path / "head", shape)
    if not shape.has_embedding:
        ours.use_embedding(target)
    taps, tokens = text(shape)
    found = their_logits(theirs, taps, tokens, steps=3)
    torch.testing.assert_close(ours(taps, tokens, steps=3), found, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", EAGLE_SHAPES)
def test_a_head_that_they_write_is_read(tmp_path: Path, name: str) -> None:
    shape = EAGLE_SHAPES[name]
    target = save_target(tmp_path / "target", shape)
    save_eagle(tmp_path / "ours", random_eagle(shape), base_model=str(tmp_path / "target"))
    theirs = load_theirs(tmp_path / "ours", shape)
    theirs.save_pretrained(tmp_path / "theirs")
    read = load_eagle(tmp_path / "theirs", target_layers=LAYERS)
    if not read.shape.has_embedding:
        read.use_embedding(target)
    taps, tokens = text(shape)
    found = their_logits(theirs, taps, tokens, steps=2)
    torch.testing.assert_close(read(taps, tokens, steps=2), found, rtol=0, atol=1e-4)


def text(shape: EagleShape) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    taps = torch.randn(1, 11, len(shape.taps) * shape.target_hidden_size)
    return taps, torch.randint(0, shape.vocabulary_size, (1, 11))


def load_theirs(folder: Path, shape: EagleShape) -> Any:
    config = eagle3.Eagle3SpeculatorConfig.from_pretrained(folder)
    config.transformer_layer_config._attn_implementation = "eager"
    model = eagle3.Eagle3DraftModel.from_pretrained(folder, config=config)
    # They recognise an unread embedding by NaN, which not all versions of transformers leave.
    model._load_verifier_weights(overwrite_embed_tokens=not shape.has_embedding)
    return model.train(mode=False)


@torch.no_grad()
def their_logits(
    model: Any, taps: torch.Tensor, tokens: torch.Tensor, *, steps: int
) -> torch.Tensor:
    """``[steps, 1, length - 1, draft]``, as many as they compute: caught at the last matrix."""
    found: list[torch.Tensor] = []
    model.lm_head.register_forward_hook(lambda _module, _rows, logits: found.append(logits))
    model(
        hidden_states=taps[:, :-1],
        input_ids=tokens[:, 1:],
        document_ids=torch.zeros(1, tokens.shape[1] - 1, dtype=torch.long),
        ttt_steps=steps,
    )
    return torch.stack(found)
