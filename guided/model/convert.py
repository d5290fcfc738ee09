"""Unpacking the GGUF file of SmolLM2 into a model folder of transformers."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from guided.model.quiet import quiet_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["convert_smollm2", "save_model"]


def convert_smollm2(gguf: Path, folder: Path) -> None:
    """Write weights in bf16, tokenizer and chat template of the GGUF file into a new folder."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        # Of the kind "smollm", which the file names, transformers leaves out that digits stand
        # alone; without it "  12" becomes Ġ Ġ 1 2 where the model has learnt ĠĠ 1 2.
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
        )
        module = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            # As it is in the file, packed, a model cannot be saved.
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
        )
        save_model(module, tokenizer, folder)


def save_model(module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a model into a new folder; a full disk raises ``OSError``, whoever comes upon it."""
    folder.mkdir(parents=True)
    try:
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    # The writers of weights and tokenizer are foreign code; one of them raises no narrower class,
    # and neither has a number for what went wrong, only the text of the system.
    except Exception as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise
