"""Folders of heads: published formats are read and written, unfit heads are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from guided.drafters.heads import (
    EagleShape,
    MedusaHeads,
    MedusaShape,
    load_eagle,
    load_medusa,
    save_eagle,
    save_medusa,
)
from guided.drafters.heads.eagle_files import EagleLayout
from guided.drafters.heads.load import read_heads
from guided.drafters.heads.medusa_files import MEDUSA_FILES
from guided.errors import GuidedError, ModelError
from guided.model.device import CPU
from guided.model.model_files import ModelFiles, find_model
from tests.engine.right_heads import LAYERS
from tests.unit.drafters.heads import EAGLE_SHAPES, random_eagle, save_target

PLAIN = EAGLE_SHAPES["plain"]
REDUCED = EAGLE_SHAPES["reduced vocabulary"]


def random_medusa(shape: MedusaShape) -> MedusaHeads:
    torch.manual_seed(0)
    module = MedusaHeads(shape)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return module


@pytest.mark.parametrize("file", MEDUSA_FILES)
def test_medusa_heads_are_written_and_read(tmp_path: Path, file: str) -> None:
    module = random_medusa(MedusaShape(16, 40, heads=3, layers=2))
    save_medusa(tmp_path, module, base_model="some/model", about="Of a test.", file=file)
    read = load_medusa(tmp_path)
    states = torch.randn(5, 16)
    assert read.shape == module.shape
    assert torch.equal(read(states), module(states))
    assert "base_model: some/model" in (tmp_path / "README.md").read_text()


def test_medusa_heads_of_others_are_counted_in_their_weights(tmp_path: Path) -> None:
    """As FasterDecoding publishes them: five heads, but two according to the config."""
    torch.manual_seed(0)
    tensors = {}
    for head in range(5):
        tensors[f"{head}.0.linear.weight"] = torch.randn(8, 8)
        tensors[f"{head}.0.linear.bias"] = torch.randn(8)
        tensors[f"{head}.1.weight"] = torch.randn(30, 8)
    torch.save(tensors, tmp_path / "medusa_lm_head.pt")
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "a/b"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    states = torch.randn(4, 8)
    found = load_medusa(tmp_path)(states)
    assert found.shape == (5, 4, 30)
    for head in range(5):
        weight, bias = tensors[f"{head}.0.linear.weight"], tensors[f"{head}.0.linear.bias"]
        before = states @ weight.T + bias
        after = states + before * torch.sigmoid(before)
        torch.testing.assert_close(found[head], after @ tensors[f"{head}.1.weight"].T)


@pytest.mark.parametrize("layout", EagleLayout)
@pytest.mark.parametrize("name", EAGLE_SHAPES)
def test_eagle_heads_are_written_and_read(tmp_path: Path, name: str, layout: EagleLayout) -> None:
    head = random_eagle(EAGLE_SHAPES[name])
    save_eagle(tmp_path, head, base_model="some/model", layout=layout)
    read = load_eagle(tmp_path, target_layers=LAYERS)
    assert read.shape == head.shape
    assert torch.equal(read.draft_ids(), head.draft_ids())
    taps, tokens, embedding = text(head.shape)
    for one in (read, head):
        if not head.shape.has_embedding:
            one.use_embedding(embedding)
    assert torch.equal(read(taps, tokens, steps=3), head(taps, tokens, steps=3))


def text(shape: EagleShape) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    taps = torch.randn(2, 9, len(shape.taps) * shape.target_hidden_size)
    tokens = torch.randint(0, shape.vocabulary_size, (2, 9))
    return taps, tokens, torch.randn(shape.vocabulary_size, shape.hidden_size)


def test_an_eagle_head_of_others_is_read(tmp_path: Path) -> None:
    """As SafeAILab publishes them: a pickle, no taps in the config, unneeded tensors."""
    save_eagle(tmp_path, random_eagle(REDUCED), base_model="a/b", layout=EagleLayout.SAFEAILAB)
    tensors = load_file(tmp_path / "model.safetensors")
    assert "midlayer.self_attn.q_proj.weight" in tensors
    del tensors["t2d"]
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    change_config(tmp_path, eagle_aux_hidden_state_layer_ids=None, rope_parameters=None)
    read = load_eagle(tmp_path, target_layers=32)
    assert read.shape == replace(REDUCED, taps=(2, 16, 29))
    assert read.t2d.sum() == REDUCED.draft_vocabulary_size
    assert read.t2d[read.draft_ids()].all()


def change_config(folder: Path, **changed: Any) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changed
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def change_positions(folder: Path, rope: dict[str, Any]) -> None:
    layer = json.loads((folder / "config.json").read_text())["transformer_layer_config"]
    change_config(folder, transformer_layer_config=layer | {"rope_parameters": rope})


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    (file,) = folder.glob("*.safetensors")
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    folder = tmp_path_factory.mktemp("target")
    save_target(folder, PLAIN)
    return find_model(str(folder))


def read(target: ModelFiles, *folders: Path, drafts: bool = True) -> Any:
    return read_heads([str(folder) for folder in folders], target, cache_tokens=64, drafts=drafts)


def test_kinds_are_told_from_files(tmp_path: Path, target: ModelFiles) -> None:
    save_eagle(tmp_path / "eagle", random_eagle(REDUCED), base_model="a/b")
    module = random_medusa(MedusaShape(32, 60, heads=2))
    save_medusa(tmp_path / "medusa", module, base_model="a/b")
    found = read(target, tmp_path / "eagle", tmp_path / "medusa")
    assert found.medusa.shape == module.shape
    assert found.eagle.shape == REDUCED
    weights = [*found.medusa.parameters(), *found.eagle.parameters()]
    rows = 64 * 2 * PLAIN.kv_heads * PLAIN.head_dim
    assert found.nbytes(torch.float32, CPU) == 4 * (sum(map(torch.numel, weights)) + rows)
    assert read(target).nbytes(torch.float32, CPU) == 0


EAGLE_FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another hidden size": (
        lambda folder: save_eagle(
            folder, random_eagle(replace(PLAIN, target_hidden_size=40)), base_model="a/b"
        ),
        "are made for hidden states of size 40, and .* has 32",
    ),
    "no embedding": (
        lambda folder: save_eagle(
            folder, random_eagle(replace(PLAIN, hidden_size=40)), base_model="a/b"
        ),
        "has no embedding, and cannot read that of .*: its rows have 32 numbers, not 40",
    ),
    "another vocabulary": (
        lambda folder: save_eagle(
            folder, random_eagle(replace(REDUCED, vocabulary_size=70)), base_model="a/b"
        ),
        "are made for a vocabulary of size 70, and .* has 60",
    ),
    "deeper layers": (
        lambda folder: change_config(folder, eagle_aux_hidden_state_layer_ids=[2, 6, 9]),
        r"reads the layers \(2, 6, 9\) of its target, which has 6",
    ),
    "two layers": (
        lambda folder: change_config(
            folder, transformer_layer_config={"num_attention_heads": 4, "num_hidden_layers": 2}
        ),
        "has 2 layers, not one",
    ),
    "attention without heads": (
        lambda folder: change_config(
            folder, transformer_layer_config={"num_attention_heads": 0, "vocab_size": 60}
        ),
        "has queries of 32 numbers and keys of 16, which do not make 0 heads",
    ),
    "more heads than numbers": (
        lambda folder: change_config(
            folder, transformer_layer_config={"num_attention_heads": 64, "vocab_size": 60}
        ),
        "has queries of 32 numbers and keys of 16, which do not make 64 heads",
    ),
    "no keys": (
        lambda folder: change_weights(
            folder,
            lambda tensors: tensors.update(
                {"layers.0.self_attn.k_proj.weight": torch.zeros(0, 64)}
            ),
        ),
        "there is no matrix 'layers.0.self_attn.k_proj.weight'",
    ),
    "no layers to read": (
        lambda folder: change_config(
            folder,
            eagle_aux_hidden_state_layer_ids=None,
            eagle_config={"eagle_aux_hidden_state_layer_ids": []},
        ),
        r"reads the layers \(\) of its target, which has 6",
    ),
    "uneven positions": (
        lambda folder: change_config(
            folder,
            transformer_layer_config={
                "num_attention_heads": 4,
                "vocab_size": 60,
                "rope_scaling": {"type": "dynamic", "factor": 2.0},
            },
        ),
        "rotary positions of the head of .* are 'dynamic'",
    ),
    "positions of a kind that nobody knows": (
        lambda folder: change_positions(folder, {"type": "mrope"}),
        "cannot read the config of .*: 'mrope'",
    ),
    "positions without their factor": (
        lambda folder: change_positions(folder, {"rope_type": "linear", "rope_theta": 1e4}),
        "cannot read the config of .*Missing required keys",
    ),
    "positions by type of layer": (
        lambda folder: change_positions(
            folder, {"full_attention": {"rope_type": "dynamic", "rope_theta": 1e6}}
        ),
        "has rotary positions by type of layer, but one layer",
    ),
    "another kind": (
        lambda folder: change_config(folder, speculators_model_type="dflash"),
        "tells of neither Medusa nor EAGLE-3 heads",
    ),
    "a tensor too few": (
        lambda folder: change_weights(folder, lambda tensors: tensors.pop("norm.weight")),
        "are incomplete: 'norm.weight' is missing",
    ),
    "a tensor too many": (
        lambda folder: change_weights(
            folder, lambda tensors: tensors.update({"second.weight": torch.zeros(2)})
        ),
        "has a tensor 'second.weight' that EAGLE-3 does not know",
    ),
    "two norms of taps": (
        lambda folder: change_weights(
            folder,
            lambda tensors: tensors.update(
                {"input_norm.weight": torch.ones(2), "fc_norm.0.weight": torch.ones(2)}
            ),
        ),
        "has both norms of taps",
    ),
    "a matrix of another shape": (
        lambda folder: change_weights(
            folder,
            lambda tensors: tensors.update({"layers.0.mlp.up_proj.weight": torch.zeros(2, 2)}),
        ),
        r"'layers.0.mlp.up_proj.weight' of .* has the shape \(2, 2\), not \(48, 32\)",
    ),
    "an older EAGLE": (
        lambda folder: change_weights(folder, lambda tensors: tensors.pop("lm_head.weight")),
        "are no EAGLE-3 head: there is no matrix 'lm_head.weight'",
    ),
    "no config": (
        lambda folder: (folder / "config.json").unlink(),
        "is no folder of heads: there is no config.json",
    ),
    "broken weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"broken"),
        "cannot read the weights of",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "there is no model.safetensors and no pytorch_model.bin",
    ),
}


@pytest.mark.parametrize("name", EAGLE_FAULTS)
def test_an_eagle_head_that_does_not_fit_is_refused(
    tmp_path: Path, target: ModelFiles, name: str
) -> None:
    save_eagle(tmp_path, random_eagle(PLAIN), base_model="a/b")
    spoil, message = EAGLE_FAULTS[name]
    spoil(tmp_path)
    with pytest.raises(ModelError, match=message):
        read(target, tmp_path)


def test_draft_tokens_that_the_target_lacks_are_refused(tmp_path: Path) -> None:
    save_eagle(tmp_path, random_eagle(REDUCED), base_model="a/b")
    change_weights(tmp_path, lambda tensors: tensors["d2t"].add_(60))
    with pytest.raises(ModelError, match="names tokens twice, or others than the 60"):
        load_eagle(tmp_path, target_layers=LAYERS)


def test_medusa_heads_that_do_not_fit_are_refused(tmp_path: Path, target: ModelFiles) -> None:
    save_medusa(tmp_path / "a", random_medusa(MedusaShape(16, 60, heads=2)), base_model="a/b")
    with pytest.raises(ModelError, match=r"made for hidden states of size 16, and .* has 32"):
        read(target, tmp_path / "a")
    save_medusa(tmp_path / "b", random_medusa(MedusaShape(32, 60, heads=2)), base_model="a/b")
    change_weights(tmp_path / "b", lambda tensors: tensors.pop("1.0.linear.bias"))
    with pytest.raises(ModelError, match=r"there is no '1\.0\.linear\.bias'"):
        read(target, tmp_path / "b")
    bias = "1.0.linear.bias"
    change_weights(tmp_path / "b", lambda tensors: tensors.update({bias: torch.zeros(3)}))
    with pytest.raises(ModelError, match=r"linear\.bias' has the shape \(3,\), not \(32,\)"):
        read(target, tmp_path / "b")
    extra = {bias: torch.zeros(32), "1.0.linear.scale": torch.ones(1)}
    change_weights(tmp_path / "b", lambda tensors: tensors.update(extra))
    with pytest.raises(ModelError, match=r"'1\.0\.linear\.scale' belongs to none"):
        read(target, tmp_path / "b")
    change_weights(tmp_path / "b", lambda tensors: tensors.pop("0.1.weight"))
    with pytest.raises(ModelError, match=r"there is no matrix '0\.1\.weight'"):
        read(target, tmp_path / "b")


def test_medusa_heads_in_several_files_are_recognised(tmp_path: Path, target: ModelFiles) -> None:
    save_medusa(tmp_path, random_medusa(MedusaShape(32, 60, heads=2)), base_model="a/b")
    file = tmp_path / MEDUSA_FILES[0]
    part = file.rename(tmp_path / "part.safetensors")
    weight_map = dict.fromkeys(load_file(part), part.name)
    Path(f"{file}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert read(target, tmp_path).medusa is not None


def test_a_pickle_of_heads_and_more_is_refused(tmp_path: Path, target: ModelFiles) -> None:
    save_medusa(
        tmp_path,
        random_medusa(MedusaShape(32, 60, heads=1)),
        base_model="a/b",
        file=MEDUSA_FILES[1],
    )
    tensors = torch.load(tmp_path / MEDUSA_FILES[1])
    torch.save({**tensors, "epoch": 3}, tmp_path / MEDUSA_FILES[1])
    with pytest.raises(ModelError, match="must hold named tensors alone"):
        read(target, tmp_path)


def test_one_set_of_each_kind_where_something_drafts(tmp_path: Path, target: ModelFiles) -> None:
    for name in ("a", "b"):
        module = random_medusa(MedusaShape(32, 60, heads=2))
        save_medusa(tmp_path / name, module, base_model="a/b")
    with pytest.raises(GuidedError, match="a second set of their kind"):
        read(target, tmp_path / "a", tmp_path / "b")
    with pytest.raises(GuidedError, match="heads are named, but drafting is off"):
        read(target, tmp_path / "a", drafts=False)
