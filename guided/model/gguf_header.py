"""What a GGUF file says about its model, read without its weights."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guided.errors import ModelError

__all__ = ["GgufHeader", "read_gguf_header"]

_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata and the kinds of tensors."""

    architecture: str
    """As llama.cpp calls it."""
    settings: Mapping[str, Any]
    """Of the architecture, without its name in front: ``block_count``, ``rope.freq_base`` ..."""
    tokenizer: Mapping[str, Any]
    """Its scalars, and its chat template: ``ggml.model``, ``ggml.pre``, ``chat_template`` ..."""
    types: Mapping[str, int]
    """How many numbers there are of each type of ggml: ``{"Q4_K": 123, "F32": 45}``."""
    rope_factors: tuple[float, ...]
    """By what rotary frequencies are divided; empty where nothing is said."""
    special_tensors: tuple[str, ...]
    """Other tensors that are no weights."""
    files: int
    """Over how many files the model is spread."""

    @property
    def numbers(self) -> int:
        """Weights in all."""
        return sum(self.types.values())


def read_gguf_header(file: Path) -> GgufHeader:
    """Read the header of a file; raises ``ModelError`` for one that is no GGUF or is cut off."""
    from gguf import GGUFReader

    with file.open("rb") as stream:
        if stream.read(4) != _MAGIC:
            raise ModelError(
                f"{file} is not a GGUF file: it does not begin with {_MAGIC.decode()}",
                hint="name a GGUF file, or a model folder of transformers",
            )
    try:
        reader = GGUFReader(file)
    except (ValueError, IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise ModelError(
            f"the GGUF file {file} is cut off or broken: {error}", hint="fetch it again"
        ) from error
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        # Vocabulary, scores and merges are long, and nothing here asks for them.
        if len(field.data) == 1 or not name.startswith("tokenizer.")
    }
    architecture = str(fields.get("general.architecture"))
    types: Counter[str] = Counter()
    rope_factors: tuple[float, ...] = ()
    special = []
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            rope_factors = tuple(map(float, tensor.data))
        elif tensor.name.startswith("rope_"):
            special.append(str(tensor.name))
        else:
            types[tensor.tensor_type.name] += int(tensor.n_elements)
    return GgufHeader(
        architecture,
        _below(architecture, fields),
        _below("tokenizer", fields),
        types,
        rope_factors,
        tuple(special),
        int(fields.get("split.count", 1)),
    )


def _below(start: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{start}."
    return {
        name.removeprefix(prefix): value
        for name, value in fields.items()
        if name.startswith(prefix)
    }
