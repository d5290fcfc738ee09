"""A model that a server loads as any other, fast to compute; its answers mean nothing."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import AutoConfig, AutoModelForCausalLM

from tests.kit.built_tokenizers import BUILT, loaded

__all__ = ["save_tiny_model"]

_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] }}\n{% endfor %}"
)
_THINKING = (
    "{% for message in messages %}{{ message['role'] + ': ' }}"
    "{% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}</think>\n\n"
    "{% endif %}{{ message['content'] }}{% for call in message.tool_calls or () %}[TOOL_CALLS]"
    "{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}\n"
    "{% endfor %}{{ tools | tojson if tools else '' }}"
)
"""A template that writes thoughts of all turns, and calls of tools as Mistral writes them."""


def save_tiny_model(folder: Path, architecture: str = "llama", *, thinks: bool = False) -> Path:
    """Save a model with two layers of random weights, 900 tokens and a context of 4,096.

    With ``thinks`` it has tokens around thoughts and calls, and a template that knows both.
    """
    built = BUILT["built like GPT-2"]()
    if thinks:
        built.add_special_tokens(["[TOOL_CALLS]", "[ARGS]"])
        signs = [AddedToken(name, normalized=False) for name in ("<think>", "</think>")]
        built.add_tokens(signs)
    tokenizer = loaded(built)
    tokenizer.chat_template = _THINKING if thinks else _TEMPLATE
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        architecture,
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        # Larger than usual, so that the model has clear favourites.
        initializer_range=0.5,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=None,
    )
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
