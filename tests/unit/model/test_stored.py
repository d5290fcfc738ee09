"""A GGUF file is used as it is stored: results are those of its numbers, nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from guided.engine.cache_size import CacheRequest, StepLimits
from guided.engine.find_files import find_files
from guided.engine.formats import compute_dtype
from guided.engine.memory_plan import measure_footprint
from guided.errors import ModelError
from guided.model.cpu import BLOCK_TYPES, CpuDecoder, WeightFormat, take_decoder
from guided.model.device import CPU
from guided.model.gguf_reader import read_once
from guided.model.load import load_stored_decoder, load_texts, load_tokenizer
from guided.model.model_files import ModelFiles, find_stored
from guided.model.progress import SilentProgress
from tests.kit.gguf_files import BYTE_TOKENS, rounded, write_gguf
from tests.unit.model.cpu.paging import Pages, Piece, Text

SHAPE: dict[str, Any] = {
    "vocab_size": len(BYTE_TOKENS),
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "rms_norm_eps": 3e-5,
    "eos_token_id": 0,
    "bos_token_id": None,
    "pad_token_id": 0,
}
MODELS: dict[str, tuple[str, PretrainedConfig, dict[str, Any]]] = {
    "llama": ("llama", LlamaConfig(**SHAPE), {}),
    "llama_tied": ("llama", LlamaConfig(**SHAPE, tie_word_embeddings=True), {}),
    "qwen2": ("qwen2", Qwen2Config(**SHAPE), {}),
    "qwen3": ("qwen3", Qwen3Config(**SHAPE, head_dim=64), {}),
    "gemma3": (
        "gemma3",
        Gemma3TextConfig(
            **SHAPE | {"num_hidden_layers": 7},
            head_dim=64,
            query_pre_attn_scalar=64,
            sliding_window=7,
        ),
        {"attention.sliding_window": 7},
    ),
}
TOKENS = [token * 7 % len(BYTE_TOKENS) for token in range(24)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def rounded_model(name: str, kind: str) -> PreTrainedModel:
    """A random model whose matrices are numbers of blocks, so that a file loses nothing."""
    torch.manual_seed(1)
    from_config: Callable[..., PreTrainedModel] = AutoModelForCausalLM.from_config
    model = from_config(MODELS[name][1])
    for weight in rounded(model, gguf.GGMLQuantizationType[kind]).parameters():
        if weight.ndim != 2:
            torch.nn.init.normal_(weight, mean=0.5, std=0.2)
    model.train(mode=False)
    return model


def written(folder: Path, name: str, kind: str | None) -> tuple[Path, PreTrainedModel]:
    architecture, _, settings = MODELS[name]
    model = rounded_model(name, kind or "Q8_0")
    file = folder / f"{name}.gguf"
    quantised = None if kind is None else gguf.GGMLQuantizationType[kind]
    write_gguf(file, model, architecture, settings=settings, quantised=quantised)
    return file, model


def found_stored(file: Path) -> ModelFiles:
    files = find_stored(str(file), SilentProgress())
    assert isinstance(files, ModelFiles), files
    return files


def logits(decoder: CpuDecoder, chunk: int = len(TOKENS)) -> torch.Tensor:
    shape, text = decoder.layers[0], Text()
    pages = Pages(decoder, kv_heads=shape.heads, size=shape.key_size)
    pieces = [np.array(TOKENS[start : start + chunk]) for start in range(0, len(TOKENS), chunk)]
    return torch.cat([pages.logits(Piece(text, piece))[0] for piece in pieces])


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_numbers_in_the_file(name: str, tmp_path: Path) -> None:
    file, model = written(tmp_path, name, "Q8_0")
    files = found_stored(file)
    found = logits(load_stored_decoder(files))
    expected = logits(take_decoder(model, WeightFormat.FP32))
    assert (found - expected).norm() / expected.norm() < 1e-3


@pytest.mark.parametrize("chunk", [1, 2, 5, 9])
def test_answers_are_the_same_to_the_last_bit_however_a_text_is_cut(
    chunk: int, tmp_path: Path
) -> None:
    file, _ = written(tmp_path, "llama", "Q4_1")
    decoder = load_stored_decoder(found_stored(file))
    assert torch.equal(logits(decoder, chunk), logits(decoder))


@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_each_type_is_loaded(kind: str, tmp_path: Path) -> None:
    file, model = written(tmp_path, "qwen3", kind)
    found = logits(load_stored_decoder(found_stored(file)))
    expected = logits(take_decoder(model, WeightFormat.FP32))
    # Rows are rounded to 8 bits, but with codes of 8 bits to 16.
    assert (found - expected).norm() / expected.norm() < (1e-3 if kind == "Q8_0" else 3e-2)


def test_a_file_that_is_written_over_changes_no_answer(tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama", "Q8_0")
    decoder = load_stored_decoder(found_stored(file))
    before = logits(decoder)
    file.write_bytes(bytes(file.stat().st_size))
    assert torch.equal(logits(decoder), before)


def test_nothing_but_texts_is_written(tmp_path: Path, cache: Path) -> None:
    file, _ = written(tmp_path, "llama", "Q8_0")
    files = found_stored(file)
    load_stored_decoder(files)
    assert load_texts(files, SilentProgress()).vocabulary.end_ids == {0, 1}
    assert not list(cache.rglob("*.safetensors"))
    assert not list(cache.rglob("*.gguf"))


def test_the_header_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = written(tmp_path, "llama", "Q8_0")
    begin: Callable[..., None] = gguf.GGUFReader.__init__
    read = []

    def counted(reader: gguf.GGUFReader, path: Any, *arguments: Any) -> None:
        read.append(Path(path))
        begin(reader, path, *arguments)

    monkeypatch.setattr(gguf.GGUFReader, "__init__", counted)
    found_stored(file)  # transformers reads its config and its tokenizer
    assert read == [file]


def test_a_header_says_what_gguf_reads_in_it(tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama", "Q4_1")
    foreign = gguf.GGUFReader(file)
    with read_once(file):
        ours = gguf.GGUFReader(file)
        assert gguf.GGUFReader(str(file)) is ours
    assert type(gguf.GGUFReader(file)) is type(foreign)
    assert {name: field.contents() for name, field in ours.fields.items()} == {
        name: field.contents() for name, field in foreign.fields.items()
    }
    for our, their in zip(ours.tensors, foreign.tensors, strict=True):
        assert (our.name, our.data_offset) == (their.name, their.data_offset)
        assert np.array_equal(our.data, their.data)


def test_the_plan_has_what_the_decoder_takes(tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama_tied", "Q5_1")
    files = found_stored(file)
    asked = CacheRequest(limits=StepLimits.for_device(CPU, widest_draft=8))
    plan = measure_footprint(files, None, asked, CPU)
    norms = sum(4 * shape[0] for shape in files.checkpoint.shapes.values() if len(shape) == 1)
    assert plan.weights == load_stored_decoder(files).nbytes + norms
    assert plan.bytes_per_call == plan.weights
    assert "blocks as they are stored, F32/Q5_1 in the files" in plan.weight_format
    assert compute_dtype(files, None, CPU) == plan.cache_dtype == torch.bfloat16


def test_a_matrix_that_is_embedding_and_head_is_there_once(tmp_path: Path) -> None:
    file, model = written(tmp_path, "llama_tied", "Q5_1")
    files = found_stored(file)
    assert files.stored is not None
    decoder = load_stored_decoder(files)
    matrices = [each for each in files.stored.tensors.values() if len(each.shape) == 2]
    padding = -len(BYTE_TOKENS) % 16 * (SHAPE["hidden_size"] // 32 * 24)
    assert decoder.nbytes == sum(each.nbytes for each in matrices) + padding
    numbers = model.get_input_embeddings().weight
    assert isinstance(numbers, torch.Tensor)
    assert torch.equal(decoder.embedding, numbers.to(torch.bfloat16))


def test_the_tokenizer_of_a_file_is_loaded_without_its_weights(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = written(tmp_path, "qwen3", "Q8_0")
    with monkeypatch.context() as patched:
        patched.setattr("guided.model.resolve.convert_gguf", None)
        tokenizer = load_tokenizer(str(file))
    assert tokenizer.encode("hello", add_special_tokens=False) == [BYTE_TOKENS.index("hello")]
    assert not [*cache.glob("*/*.safetensors")]
    plain, _ = written(tmp_path, "llama", None)
    converted = load_tokenizer(str(plain))
    assert converted.get_vocab() == tokenizer.get_vocab()
    assert len([*cache.glob("*/*.safetensors")]) == 1


def test_a_file_of_plain_numbers_is_converted(tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama", None)
    assert find_stored(str(file), SilentProgress()) == "it holds no blocks, only F32"
    assert find_files(str(file), None, CPU, SilentProgress()).stored is None
    with pytest.raises(ModelError, match="as they are stored: it holds no blocks, only F32"):
        find_files(str(file), "stored", CPU, SilentProgress())


@pytest.mark.parametrize(("dtype", "is_stored"), [(None, True), ("stored", True), ("int8", False)])
def test_the_dtype_decides(dtype: str | None, is_stored: bool, tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama", "Q8_0")
    assert (find_files(str(file), dtype, CPU, SilentProgress()).stored is not None) is is_stored


def test_what_is_noted_of_a_file_is_not_noted_of_a_folder(tmp_path: Path) -> None:
    file, model = written(tmp_path, "llama", None)
    model.save_pretrained(tmp_path / "folder")
    notes = {name: Notes() for name in (str(file), str(tmp_path / "folder"))}
    for name, progress in notes.items():
        find_files(name, None, CPU, progress)
    of_file, of_folder = (progress.noted for progress in notes.values())
    assert "weights cannot be used as they are stored: it holds no blocks, only F32" in of_file
    assert of_folder == []


class Notes(SilentProgress):
    """Progress that keeps its messages."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def note(self, text: str) -> None:
        self.noted.append(text)


def test_a_folder_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="as they are stored: it is no GGUF file"):
        find_files(str(tmp_path), "stored", CPU, SilentProgress())


@pytest.mark.parametrize(
    "tensor", ["model.layers.1.mlp.down_proj.weight", "model.embed_tokens.weight"]
)
def test_a_broken_scale_names_its_tensor(tensor: str, tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama", "Q8_0")
    files = found_stored(file)
    assert files.stored is not None
    told = files.stored.tensors[tensor]
    place = told.offset + 60 * told.nbytes // told.shape[0]  # a token that the trial does not have
    content = bytearray(file.read_bytes())
    content[place : place + 2] = np.array([np.nan], "<f2").tobytes()
    file.write_bytes(content)
    with pytest.raises(ModelError, match=f"{re.escape(tensor)} in .* a scale of output 60 is"):
        load_stored_decoder(files)


def test_a_file_that_was_cut_off_since_is_refused(tmp_path: Path) -> None:
    file, _ = written(tmp_path, "llama", "Q8_0")
    files = found_stored(file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert files.stored is not None
    with pytest.raises(ModelError, match="cut off"):
        find_stored(str(file), SilentProgress())
