"""Heads are loaded beside a model, from folders, and draft for it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from guided.drafters.heads import (
    EagleShape,
    MedusaHeads,
    MedusaShape,
    save_eagle,
    save_medusa,
)
from guided.engine import load_engine
from guided.errors import ModelError, RequestError
from guided.model.progress import SilentProgress
from guided.spec import GenerationRequest
from tests.engine.test_devices import REQUESTS, make_config
from tests.engine.tiny_models import answers, from_config
from tests.kit.pages import run_blocks
from tests.kit.tokenizers import real_tokenizer
from tests.unit.drafters.heads import random_eagle

VOCABULARY = 49_152
CAN_DRAFT = {key: REQUESTS[key] for key in ("free", "constrained")}


class Notes(SilentProgress):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random heads of both kinds for it."""
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    from_config(make_config()).save_pretrained(path)
    real_tokenizer("smollm2").save_pretrained(path)
    module = MedusaHeads(MedusaShape(64, VOCABULARY, heads=2))
    save_medusa(path / "medusa", module, base_model=str(path))
    shape = EagleShape(
        hidden_size=64,
        intermediate_size=96,
        heads=4,
        kv_heads=2,
        head_dim=16,
        vocabulary_size=VOCABULARY,
        draft_vocabulary_size=1000,
        target_hidden_size=64,
        taps=(0, 1),
    )
    save_eagle(path / "eagle", random_eagle(shape), base_model=str(path))
    return path


def test_an_engine_drafts_with_the_heads_of_its_folders(folder: Path) -> None:
    notes = Notes()
    engine = load_engine(
        str(folder),
        dtype="float32",
        device="cpu",
        threads=1,
        heads=[str(folder / "eagle"), str(folder / "medusa")],
        progress=notes,
    )
    assert any("with caches" in text for text in notes.texts)
    found = {}
    for drafters in (("none",), (), ("eagle",), ("medusa",)):
        asked = {key: replace(one, drafters=drafters) for key, one in CAN_DRAFT.items()}
        results = answers(engine, asked)
        found[drafters] = {key: one.tokens for key, one in results.items()}
    assert all(tokens == found["none",] for tokens in found.values())
    with pytest.raises(RequestError, match="eagle"):
        engine.submit("typo", replace(REQUESTS["free"], drafters=("eagel",)))


def test_the_page_shows_code_that_runs(folder: Path) -> None:
    names = {
        "load_engine": partial(load_engine, str(folder), dtype="float32", device="cpu", threads=1),
        "GenerationRequest": GenerationRequest,
        "prompt": "Somebody",
    }
    folders = {
        "./medusa-smollm2": str(folder / "medusa"),
        "./eagle3-smollm2": str(folder / "eagle"),
    }
    engine = run_blocks("docs/heads.md", names, folders)["engine"]
    assert engine.has_work


def test_what_is_wrong_is_told_before_the_weights_are_read(folder: Path) -> None:
    with pytest.raises(RequestError, match="heads are named, but drafting is off"):
        load_engine(str(folder), heads=[str(folder / "eagle")], drafts=False)
    with pytest.raises(ModelError, match="is no folder of heads"):
        load_engine(str(folder), heads=[str(folder / "nowhere")])
