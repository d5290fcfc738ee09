"""A tiny random target in a folder, with prompts for it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.kit.built_tokenizers import BUILT, loaded

__all__ = ["PROMPTS", "write_prompts", "write_target"]

PROMPTS = 64
_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def write_target(folder: Path) -> Path:
    """Save a Llama with eight layers, whose tokenizer has a chat template."""
    tokenizer = loaded(BUILT["built like GPT-2"]())
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def write_prompts(file: Path) -> Path:
    """Write prompts with short objects for answers, and a few with free answers."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "x": {"type": "boolean"}},
        "required": ["name", "x"],
        "additionalProperties": False,
    }
    rows = []
    for number in range(PROMPTS):
        row = {"prompt": f"the names of {number}", "max_tokens": 24}
        rows.append(row if number % 8 == 0 else row | {"schema": schema})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
