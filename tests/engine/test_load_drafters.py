"""Draft models are named, counted in the memory, checked and loaded beside the model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig

from guided.engine import load_engine
from guided.errors import RequestError
from guided.model.progress import SilentProgress
from guided.spec import GenerationRequest, JsonSchema
from tests.engine.tiny_models import answers, from_config
from tests.kit.built_tokenizers import BUILT, loaded

REQUEST = GenerationRequest(
    "the names",
    constraint=JsonSchema('{"type": "object", "properties": {"a": {"enum": ["thing", "name"]}}}'),
    max_tokens=40,
)


def save(folder: Path, tokenizer: str = "built like GPT-2", width: int = 1000) -> str:
    torch.manual_seed(width)
    config = LlamaConfig(
        vocab_size=width,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    from_config(config).save_pretrained(folder)
    loaded(BUILT[tokenizer]()).save_pretrained(folder)
    return str(folder)


class Notes(SilentProgress):
    """Keeps the messages that it gets."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_draft_models_are_loaded_beside_the_model(tmp_path: Path) -> None:
    """One of them has wider logits, as often within a family."""
    target = save(tmp_path / "target")
    drafts = [save(tmp_path / "small"), save(tmp_path / "wide", width=1100)]
    notes = Notes()
    engine = load_engine(
        target,
        dtype="float32",
        device="cpu",
        threads=1,
        draft_models=drafts,
        draft_widths=(2, 1),
        cache_tokens=256,
        progress=notes,
    )
    first, second, _, memory, *_ = notes.texts
    assert re.fullmatch(rf"draft: {drafts[0]}, weights .* KiB, cache .* KiB \(256 tokens\)", first)
    assert second.startswith(f"draft-2: {drafts[1]}, weights ")
    assert re.search(r", beside it .* \(drafters with caches, adapters\), needed ", memory)
    alone = load_engine(target, dtype="float32", device="cpu", threads=1, drafts=False)
    plain = answers(alone, {"r": REQUEST})
    assert answers(engine, {"r": REQUEST})["r"].tokens == plain["r"].tokens
    with pytest.raises(
        RequestError, match="none of 'lookup', 'suffix', 'draft', 'draft-2', 'none'"
    ):
        engine.submit("x", GenerationRequest("a", drafters=("medusa",)))


def test_a_draft_model_of_other_tokens_is_told_of(tmp_path: Path) -> None:
    target, other = save(tmp_path / "target"), save(tmp_path / "other", "built without splits")
    notes = Notes()
    engine = load_engine(
        target, dtype="float32", device="cpu", threads=1, draft_models=[other], progress=notes
    )
    assert re.match(
        rf"draft has other tokens than {target} \(token \d+ is b'.*' and b'.*', .* more differ\): "
        r"it reads them spelled anew, and drafts the \d+ that both have",
        next(note for note in notes.texts if note.startswith("draft has")),
    )
    assert answers(engine, {"r": REQUEST})["r"].text


@pytest.mark.parametrize("widths", [(), (0,), (1, 9), (1,) * 17])
def test_widths_that_make_no_tree_are_refused(widths: tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match="are not 1 to 16 numbers from 1 to 8"):
        load_engine("./nowhere", draft_models=["./nowhere"], draft_widths=widths)


def test_widths_without_a_draft_model_are_refused() -> None:
    with pytest.raises(RequestError, match="draft models, and none is named") as raised:
        load_engine("./nowhere", draft_widths=[2, 1])
    assert raised.value.field == "draft_widths"


def test_drafters_without_drafting_are_a_contradiction() -> None:
    with pytest.raises(RequestError, match="drafters are named, but drafting is off") as raised:
        load_engine("./nowhere", drafters=["lookup"], drafts=False)
    assert raised.value.field == "drafters"


def test_draft_models_without_drafting_are_a_contradiction() -> None:
    with pytest.raises(RequestError, match="draft models are named, but drafting is off"):
        load_engine("./nowhere", draft_models=["./nowhere"], drafts=False)
