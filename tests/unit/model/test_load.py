"""Loading real folders, and the message for each error that a folder can have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BloomConfig,
    Gemma3TextConfig,
    GenerationConfig,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MptConfig,
    MptForCausalLM,
    PretrainedConfig,
    RecurrentGemmaConfig,
    T5Config,
)

from guided.errors import ModelError
from guided.model.cpu import why_not_by_config
from guided.model.device import CPU
from guided.model.load import load_model, load_texts, native_dtype, why_not_read
from guided.model.model_files import find_model, longest_text, read_config
from guided.model.plain_config import read_plain_config
from guided.model.progress import RichProgress, SilentProgress
from guided.model.resolve import resolve_model
from tests.kit.causal_types import tiny_config
from tests.kit.forks import forking
from tests.kit.tokenizers import real_tokenizer, real_vocabulary

CALL_IT = "name a model folder of transformers, a GGUF file, an id on the hub, or 'default'"
CHECK = "check that the folder is complete and was saved by transformers"


def load(name: Path | str, **options: Any) -> Any:
    return load_model(str(name), progress=SilentProgress(), **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a real tokenizer, some more logits than tokens, and two end tokens."""
    folder = tmp_path_factory.mktemp("tiny")
    config = LlamaConfig(
        vocab_size=49_200,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=77,
        eos_token_id=2,
    )
    module = LlamaForCausalLM(config)
    ends: Callable[..., GenerationConfig] = GenerationConfig
    module.generation_config = ends(eos_token_id=[2, 0])
    module.save_pretrained(folder)
    real_tokenizer("smollm2").save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_the_default_model_is_ready_to_answer() -> None:
    model = load("default")
    assert model.name == "SmolLM2-135M-Instruct"
    assert model.context_window == 8192
    assert model.has_chat_template
    assert not model.module.training
    assert model.module.dtype == native_dtype(CPU)
    assert model.vocabulary.digest == real_vocabulary("smollm2").digest


def test_a_folder_is_loaded_as_its_files_say(saved: Path) -> None:
    model = load(saved, dtype=torch.float32)
    assert model.name == str(saved)
    assert model.context_window == 77
    assert len(model.vocabulary) == 49_152
    assert model.vocabulary.end_ids == {0, 2}
    assert not model.module.training
    assert model.module.dtype == torch.float32


def test_weights_go_where_they_are_to_be(saved: Path) -> None:
    """A device without memory shows it on any machine; buffers go along with the weights."""
    model = load(saved, device=torch.device("meta"))
    assert {tensor.device.type for tensor in model.module.state_dict().values()} == {"meta"}
    assert {buffer.device.type for buffer in model.module.buffers()} == {"meta"}


def load_noisily(folder: Path, log: Path) -> None:
    os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY), sys.stderr.fileno())
    load_model(str(folder))


def test_loading_shows_no_bars_of_transformers(saved: Path, tmp_path: Path) -> None:
    """In a new process: this one may have them switched off."""
    log = tmp_path / "log"
    process = forking().Process(target=load_noisily, args=(saved, log))
    process.start()
    process.join()
    assert process.exitcode == 0
    lines = log.read_text().splitlines()
    assert lines[0] == f"loading {saved} ..."
    assert not [line for line in lines if "%" in line]


def message(name: Path | str) -> str:
    with pytest.raises(ModelError) as caught:
        load(name)
    return str(caught.value)


def test_no_such_folder(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for name in (str(missing), "./missing", "a/b/c", "missing.gguf", "folder/missing.gguf"):
        assert message(name) == f"there is no model folder or file {name!r}; {CALL_IT}"


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    no_config = f"{tmp_path} is not a model folder: it has no config.json"
    assert message(tmp_path) == f"{no_config}; {CALL_IT}"
    (tmp_path / "b.gguf").touch()
    (tmp_path / "a.gguf").touch()
    assert message(tmp_path) == f"{no_config}; name the file: {tmp_path / 'a.gguf'}"


def test_an_unreadable_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    assert message(folder).startswith(f"cannot read the config of {folder}: ")
    assert message(folder).endswith(CHECK)


def test_an_unknown_kind_of_model(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "nothing_known"}')
    assert message(folder).startswith(f"cannot read the config of {folder}: ")
    assert "nothing_known" in message(folder)


def test_code_in_a_folder_is_not_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('was run')")
    assert message(folder).startswith(f"cannot read the config of {folder}: ")


def test_missing_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"], weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert message(folder) == (
        f"the weights of {folder} are incomplete: model.layers.0.mlp.up_proj.weight and 1 more are "
        "missing; fetch or save the model again"
    )


def test_a_truncated_file_of_weights(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1000)
    assert message(folder).startswith(f"cannot read the weights of {folder}: ")


def test_no_file_of_weights(folder: Path) -> None:
    """Pickled weights do not count: reading them may run code."""
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert message(folder) == (
        f"cannot read the weights of {folder}: there is no model.safetensors; save the model "
        "again, as safetensors"
    )


def test_weights_in_several_files(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    half = len(weights) // 2
    places: dict[str, str] = {}
    for number, names in enumerate((sorted(weights)[:half], sorted(weights)[half:])):
        file = f"model-{number}.safetensors"
        save_file({n: weights[n] for n in names}, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(names, file)
    index = json.dumps({"metadata": {}, "weight_map": places})
    (folder / "model.safetensors.index.json").write_text(index)
    files = find_model(str(folder), SilentProgress())
    assert files.checkpoint.types == {"F32": sum(w.numel() for w in weights.values())}
    assert load(folder).context_window == 77
    (folder / "model-1.safetensors").unlink()
    assert message(folder) == (
        f"cannot read the weights of {folder}: there is no model-1.safetensors; fetch the rest of "
        "it"
    )


def test_an_unreadable_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    assert message(folder).startswith(f"cannot read the tokenizer of {folder}: ")


def test_a_tokenizer_of_a_kind_that_is_not_known(folder: Path) -> None:
    """As of a newer version of the library that reads it."""
    file = folder / "tokenizer.json"
    told = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(told | {"model": {"type": "Later", "vocab": {}}}), "utf-8")
    assert message(folder).startswith(f"cannot read the tokenizer of {folder}: data did not match")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"merges": [["zzq", "a"]]}, "Token `zzq` out of vocabulary"),
        ({"continuing_subword_prefix": "####"}, "range end index "),
    ],
)
def test_a_tokenizer_that_contradicts_itself(
    folder: Path, model: dict[str, object], told: str
) -> None:
    file = folder / "tokenizer.json"
    description = json.loads(file.read_text("utf-8"))
    description["model"] |= model
    file.write_text(json.dumps(description), "utf-8")
    assert message(folder).startswith(f"cannot read the tokenizer of {folder}: {told}")


def test_a_wrong_value_in_a_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = None
    (folder / "config.json").write_text(json.dumps(config))
    assert message(folder) == (
        f"cannot read the config of {folder}: Validation error for field "
        "'max_position_embeddings': TypeError: Field 'max_position_embeddings' expected int, got "
        f"NoneType (value: None); {CHECK}"
    )


def test_no_context_window(folder: Path) -> None:
    """MPT without its positions has no limit to them either."""
    config = MptConfig(d_model=8, n_layers=1, n_heads=1, attn_config={"alibi": False})
    MptForCausalLM(config).save_pretrained(folder)
    assert message(folder) == (
        f"the config of {folder} does not say how long a text may be; set max_position_embeddings "
        "in its config.json"
    )


NOT_A_DECODER = "choose a model that continues a text (a causal language model)"
NOT_ATTENTION = "choose a decoder all of whose layers are attention"
NO_ALIBI = "choose a model with rotary or learned positions"
REFUSED = [
    (BertConfig(), "BertForMaskedLM", "is not a decoder but a BertForMaskedLM", NOT_A_DECODER),
    (
        T5Config(),
        "T5ForConditionalGeneration",
        "is not a decoder but a T5ForConditionalGeneration",
        NOT_A_DECODER,
    ),
    (
        RecurrentGemmaConfig(num_hidden_layers=3),
        "RecurrentGemmaForCausalLM",
        "is a RecurrentGemmaForCausalLM, which keeps the state of its layers in a way of its own, "
        "so it cannot be taken back when a guess was wrong",
        NOT_ATTENTION,
    ),
    (
        Llama4TextConfig(num_hidden_layers=2),
        "Llama4ForCausalLM",
        "is a Llama4ForCausalLM with layers of type 'chunked_attention', which are not supported",
        NOT_ATTENTION,
    ),
    (
        BloomConfig(),
        "BloomForCausalLM",
        "is a BloomForCausalLM, which adds positions to its attention scores (ALiBi); that is not "
        "supported",
        NO_ALIBI,
    ),
    (
        MptConfig(),
        "MptForCausalLM",
        "is a MptForCausalLM, which adds positions to its attention scores (ALiBi); that is not "
        "supported",
        NO_ALIBI,
    ),
]


_SEES_BOTH = Gemma3TextConfig(num_hidden_layers=2)
_SEES_BOTH.use_bidirectional_attention = True
REFUSED += [
    (
        _SEES_BOTH,
        "Gemma3ForCausalLM",
        "is a Gemma3ForCausalLM whose tokens see those after them (use_bidirectional_attention in "
        "its config), so it does not continue a text",
        NOT_A_DECODER,
    ),
    (
        tiny_config("gemma4_assistant"),
        "Gemma4AssistantForCausalLM",
        "is a Gemma4AssistantForCausalLM, all of whose layers read the keys of another model",
        "choose that model; such an assistant answers nothing alone",
    ),
]


@pytest.mark.parametrize(
    ("config", "kind", "reason", "hint"), REFUSED, ids=[kind for _, kind, *_ in REFUSED]
)
def test_a_model_is_refused_by_its_config_alone(
    config: PretrainedConfig, kind: str, reason: str, hint: str, tmp_path: Path
) -> None:
    """There are no weights in the folder."""
    config.architectures = [kind]
    config.save_pretrained(tmp_path)
    assert message(tmp_path) == f"{tmp_path} {reason}; {hint}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("models/mine", "there is no folder 'models/mine' here; asking the hub for that id"),
        ("a/b/c.gguf", "there is no file a/b/c.gguf here; asking the hub for it"),
    ],
)
def test_a_name_of_no_folder_is_said_to_be_asked_of_the_hub(
    name: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"^cannot read the "):
        resolve_model(name, RichProgress())
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out


def test_an_unknown_hub_id_or_no_network() -> None:
    """Offline, the hub knows only what was fetched before; the setting is read at import."""
    program = """
from guided.errors import ModelError
from guided.model.load import load_model
from guided.model.progress import SilentProgress
try:
    load_model("nobody/no-such-model", progress=SilentProgress())
except ModelError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("cannot read the config of nobody/no-such-model: ")
    assert done.stdout.strip().endswith(
        "; check the id and the network, or name a model folder instead"
    )


def test_a_plain_config_says_what_transformers_reads(saved: Path) -> None:
    for folder in (saved, find_model(None, SilentProgress()).folder):
        plain = read_plain_config(folder)
        assert plain is not None
        config = read_config(folder)
        for name in ("hidden_act", "head_dim", "rms_norm_eps", "rope_parameters", "vocab_size"):
            assert getattr(plain, name) == getattr(config, name)
        for name in json.loads(plain.to_json_string()).keys() - {"dtype", "_model_name_or_path"}:
            assert getattr(plain, name) == getattr(config, name), name
        assert why_not_by_config(plain) is why_not_by_config(config) is None
        assert longest_text(plain) is longest_text(config) is None


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window": 8},
        {"quantization_config": {"quant_method": "awq"}},
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
        {"rope_parameters": None},
        {"head_dim": None},
        {"model_type": "mistral"},
        {"architectures": ["LlamaForSequenceClassification"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_config_that_is_not_plain_is_left_to_transformers(
    change: dict[str, object], folder: Path
) -> None:
    file = folder / "config.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps(told | change))
    assert read_plain_config(folder) is None
    for name in ("vocab_size", "mlp_bias", "tie_word_embeddings"):
        file.write_text(json.dumps({key: value for key, value in told.items() if key != name}))
        assert read_plain_config(folder) is None, name
    file.write_text(json.dumps(told))
    assert read_plain_config(folder) is not None


def test_texts_of_a_model_that_is_read_are_those_of_one_that_is_loaded(saved: Path) -> None:
    files = find_model(str(saved), SilentProgress())
    assert why_not_read(files) is None
    texts, loaded = load_texts(files, SilentProgress()), load(saved)
    assert texts.vocabulary.digest == loaded.vocabulary.digest
    assert texts.vocabulary.end_ids == loaded.vocabulary.end_ids == {0, 2}
    assert texts.tokenizer.backend_tokenizer.to_str() == loaded.tokenizer.backend_tokenizer.to_str()
    for name in ("name", "context_window", "has_chat_template"):
        assert getattr(texts, name) == getattr(loaded, name)


def test_our_own_forward_pass_needs_no_modules_of_transformers(saved: Path) -> None:
    """Importing them takes longer than the rest of a start."""
    program = f"""
import sys, torch
from guided.engine import load_engine
from guided.model.cpu import WeightFormat
from guided.model.load import load_decoder, load_texts
from guided.model.model_files import find_model
from guided.model.progress import SilentProgress

files = find_model({str(saved)!r}, SilentProgress())
load_texts(files, SilentProgress())
load_decoder(files, WeightFormat.FP32, dtype=torch.float32)
for name in ("transformers.modeling_utils", "transformers.activations", "torch._dynamo"):
    assert name not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", program], check=True)
