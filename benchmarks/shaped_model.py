"""Writes random weights in a known shape as GGUF: `python -m benchmarks.shaped_model ...`.

The cost of a call depends on the shape and the block format of the weights, not on their values, so
files that cannot be downloaded everywhere can be replaced. Both guided and llama.cpp read what is
written here: blocks of Q4_0, norms of ones, and the tokens of a tokenizer of the same family.

    python -m benchmarks.shaped_model llama-1b 1b.gguf --tokenizer LLAMA3
    python -m benchmarks.forward 1b.gguf --threads 2 --widest 16 --formats 'own as stored'
    llama-bench -m 1b.gguf -t 2 -d 200 -p 1,4,8,16 -n 0
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer

_BLOCK: Final = 32
"""Numbers in a block of Q4_0: a scale of two bytes, and four bits for each number."""
_NIBBLE_STD: Final = 4.61
"""Standard deviation of a random nibble."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a published decoder."""

    architecture: str
    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    head: int
    rows: int
    """Rows of the embedding; in some models more than there are tokens."""
    is_tied: bool
    rope_base: float
    tokens: str
    """How llama.cpp splits texts before it looks for tokens."""

    @property
    def has_head_norms(self) -> bool:
        return self.architecture == "qwen3"


SHAPES: Final = {
    "llama-1b": Shape("llama", 16, 2048, 8192, 32, 8, 64, 128256, True, 500000.0, "llama-bpe"),
    "qwen3-1.7b": Shape("qwen3", 28, 2048, 6144, 16, 8, 128, 151936, True, 1000000.0, "qwen2"),
    "llama-8b": Shape("llama", 32, 4096, 14336, 32, 8, 128, 128256, False, 500000.0, "llama-bpe"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="A GGUF file of random weights.")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokenizer", required=True, help="folder or hub id")
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    writer = gguf.GGUFWriter(options.file, shape.architecture)
    _add_sizes(writer, shape, options.shape)
    _add_tokens(writer, shape, AutoTokenizer.from_pretrained(options.tokenizer))
    for name, data in _weights(shape):
        kind = gguf.GGMLQuantizationType.Q4_0 if data.dtype == np.uint8 else None
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=True)
    writer.close()


def _add_sizes(writer: gguf.GGUFWriter, shape: Shape, name: str) -> None:
    writer.add_name(f"{name}, random")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_block_count(shape.layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.rows)


def _add_tokens(writer: gguf.GGUFWriter, shape: Shape, tokenizer: Any) -> None:
    told = json.loads(tokenizer.backend_tokenizer.to_str())
    texts = [f"[unused {index}]" for index in range(shape.rows)]
    kinds = [gguf.TokenType.UNUSED] * shape.rows
    for text, index in told["model"]["vocab"].items():
        texts[index], kinds[index] = text, gguf.TokenType.NORMAL
    for added in told["added_tokens"]:
        is_control = added["special"]
        texts[added["id"]] = added["content"]
        kinds[added["id"]] = gguf.TokenType.CONTROL if is_control else gguf.TokenType.USER_DEFINED
    pairs = told["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(shape.tokens)
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in pairs])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.bos_token_id is not None:
        writer.add_bos_token_id(tokenizer.bos_token_id)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _weights(shape: Shape) -> Iterator[tuple[str, NDArray[Any]]]:
    random = np.random.default_rng(0)
    query, key = shape.heads * shape.head, shape.key_heads * shape.head

    def blocks(rows: int, columns: int) -> NDArray[np.uint8]:
        return _blocks(random, rows, columns)

    def ones(size: int) -> NDArray[np.float32]:
        return np.ones(size, dtype=np.float32)

    yield "token_embd.weight", blocks(shape.rows, shape.hidden)
    for layer in range(shape.layers):
        start = f"blk.{layer}."
        yield start + "attn_norm.weight", ones(shape.hidden)
        yield start + "attn_q.weight", blocks(query, shape.hidden)
        yield start + "attn_k.weight", blocks(key, shape.hidden)
        yield start + "attn_v.weight", blocks(key, shape.hidden)
        yield start + "attn_output.weight", blocks(shape.hidden, query)
        if shape.has_head_norms:
            yield start + "attn_q_norm.weight", ones(shape.head)
            yield start + "attn_k_norm.weight", ones(shape.head)
        yield start + "ffn_norm.weight", ones(shape.hidden)
        yield start + "ffn_gate.weight", blocks(shape.inner, shape.hidden)
        yield start + "ffn_up.weight", blocks(shape.inner, shape.hidden)
        yield start + "ffn_down.weight", blocks(shape.hidden, shape.inner)
    yield "output_norm.weight", ones(shape.hidden)
    if not shape.is_tied:
        yield "output.weight", blocks(shape.rows, shape.hidden)


def _blocks(random: np.random.Generator, rows: int, columns: int) -> NDArray[np.uint8]:
    """Return blocks of Q4_0 with the usual initial standard deviation of a layer's weights."""
    count = columns // _BLOCK
    made = np.empty((rows, count, 2 + _BLOCK // 2), dtype=np.uint8)
    scale = np.float16(columns**-0.5 / _NIBBLE_STD)
    made[:, :, :2] = np.frombuffer(scale.tobytes(), dtype=np.uint8)
    made[:, :, 2:] = random.integers(0, 256, (rows, count, _BLOCK // 2), dtype=np.uint8)
    return made.reshape(rows, -1)


if __name__ == "__main__":
    main()
