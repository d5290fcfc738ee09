"""Unpacks a GGUF file into a model folder of transformers."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from guided.errors import ModelError
from guided.extras import needing
from guided.model.cache import require_space
from guided.model.free_memory import free_memory, size_text
from guided.model.gguf_config import (
    GgufHeader,
    end_ids,
    read_gguf_config,
    read_gguf_header,
    refuse_gguf,
)
from guided.model.gguf_reader import read_once
from guided.model.progress import Progress
from guided.model.transformers_calls import quiet_transformers, reading

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["TOKENIZER_FILES", "convert_gguf", "gguf_tokenizer", "save_model", "unpacked_dtype"]

_LONE_DIGITS = ("codeshell", "command-r", "refact", "smollm", "starcoder")
"""Byte-level tokenizers that split off single digits, which transformers leaves out; without it
"  12" becomes Ġ Ġ 1 2 where SmolLM2 has learnt ĠĠ 1 2."""
_PLAIN = ("gpt-2", "mpt", "olmo", "phi-2")
"""Tokenizers that split text as GPT-2 does."""
_COPIES = 2.5
"""Memory that converting takes, as a multiple of the result's size; measured."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""The tokenizer files of a folder; the first is the one that matters."""


def convert_gguf(file: Path, folder: Path, progress: Progress) -> None:
    """Write weights, tokenizer and chat template of a GGUF file into a new folder.

    Weights in blocks become bf16, others stay as they are. The tokenizer is the one beside the
    file if there is one. Raises ``ModelError`` for anything that would not convert exactly.
    """
    from transformers import AutoModelForCausalLM, GgufConfig

    with needing(f"reading {file.name}", "server"):
        import_module("gguf")  # without which transformers would report incomplete files
    from_pretrained: Callable[..., Any] = cast("Any", AutoModelForCausalLM.from_pretrained)
    with read_once(file):
        with progress.step(f"reading the header of {file.name}"):
            header = read_gguf_header(file)
        refuse_gguf(file, header)
        unpacked = header.numbers * unpacked_dtype(header).itemsize
        require_space(folder.parent, unpacked)
        _require_memory(file, int(_COPIES * unpacked))
        title = f"converting {file.name} to {_name(unpacked_dtype(header))}, once"
        with (
            progress.step(title, total_bytes=unpacked) as report,
            quiet_transformers(lambda share: report(int(share * unpacked))),
        ):
            with reading("tokenizer", file):
                tokenizer = gguf_tokenizer(file, header)
            with reading("config", file):
                config = read_gguf_config(file, header)
            with reading("weights", file):
                module, found = from_pretrained(
                    file.parent,
                    gguf_file=file.name,
                    config=config,
                    # A model cannot be saved with its weights packed as in the file.
                    quantization_config=GgufConfig(dequantize=True),
                    dtype=unpacked_dtype(header),
                    output_loading_info=True,
                )
            if missing := sorted(found["missing_keys"]):
                raise ModelError(
                    f"{file} is incomplete: it has nothing for {missing[0]}", hint="fetch it again"
                )
            module.generation_config.eos_token_id = end_ids(header)
            save_model(module, tokenizer, folder)


def unpacked_dtype(header: GgufHeader) -> torch.dtype:
    """Return the type the weights are unpacked to: their own if they are plain, else bf16."""
    import torch

    kinds = set(header.types)
    if kinds == {"F32"}:
        return torch.float32
    return torch.float16 if kinds <= {"F32", "F16"} else torch.bfloat16


def save_model(module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a model into a new folder; a full disk raises ``OSError`` in any case."""
    folder.mkdir(parents=True)
    try:
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    # The writers of weights and tokenizer are foreign code; one of them raises no narrower class,
    # and neither gives an error number, only the text of the system.
    except Exception as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise


def _require_memory(file: Path, needed: int) -> None:
    """Raise ModelError unless the bytes that a conversion takes are free."""
    import torch

    free = free_memory(torch.device("cpu"))
    if needed > free:
        raise ModelError(
            f"converting {file} takes {size_text(needed)} of memory, and {size_text(free)} are "
            "free",
            hint="convert it on a larger machine, or use the model's folder of transformers",
        )


def gguf_tokenizer(file: Path, header: GgufHeader) -> Any:
    """Return the tokenizer beside a file, else its own; ``ModelError`` for an unknown one."""
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoTokenizer
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    if (file.parent / TOKENIZER_FILES[0]).is_file():
        return AutoTokenizer.from_pretrained(file.parent)
    kind = header.tokenizer.get("ggml.model")
    cut = header.tokenizer.get("ggml.pre")
    if kind == "gpt2" and cut not in (*GGUF_PRE_TOKENIZER_SPLITS, *_LONE_DIGITS, *_PLAIN):
        raise ModelError(
            f"{file} has a tokenizer that cuts text in the way {cut!r}, which is not known",
            hint=f"put the model's {' and '.join(TOKENIZER_FILES[:2])} beside it",
        )
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if cut in _LONE_DIGITS:
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
        )
    return tokenizer


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
