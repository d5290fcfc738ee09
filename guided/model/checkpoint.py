"""The weights of a model folder, as the headers of its files describe them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from guided.errors import ModelError
from guided.model.transformers_calls import reading

__all__ = ["Checkpoint", "read_checkpoint", "weight_files"]

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_INTEGERS = {"I8": 1, "U8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8}
"""Bytes of each integer type, by its name in safetensors."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights that have not been read yet."""

    types: Mapping[str, int]
    """How many numbers there are of each type of safetensors: ``{"BF16": 123}``."""
    shapes: Mapping[str, tuple[int, ...]]
    """The shape of each tensor, by its name."""
    files: Mapping[str, Path]
    """The file of each tensor, by its name."""
    nbytes: int
    """Size of the files."""

    @property
    def packed(self) -> tuple[int, int]:
        """Integers, into which another program has packed weights, and their size in bytes."""
        counts = {kind: count for kind, count in self.types.items() if kind in _INTEGERS}
        return sum(counts.values()), sum(_INTEGERS[kind] * n for kind, n in counts.items())

    @property
    def numbers(self) -> int:
        """Weights in all; matrices that are used twice count once."""
        return sum(self.types.values())


def _index_of(folder: Path) -> Path | None:
    """Return the file that lists where each weight is, if there are several files of weights."""
    index = folder / _INDEX
    return index if index.is_file() and not (folder / _SINGLE).is_file() else None


def weight_files(folder: Path) -> list[str]:
    """Return the names of the files of weights that a folder has to have, sorted."""
    index = _index_of(folder)
    if index is None:
        return [_SINGLE]
    return sorted(set(json.loads(index.read_text())["weight_map"].values()))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the headers of a folder's weights; raises ``ModelError`` for missing or broken files."""
    from safetensors import safe_open

    types: Counter[str] = Counter()
    shapes: dict[str, tuple[int, ...]] = {}
    places: dict[str, Path] = {}
    files = _files(folder)
    with reading("weights", folder):
        for file in files:
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 - it is no dict
                    found = weights.get_slice(name)
                    shapes[name], places[name] = tuple(found.get_shape()), file
                    types[str(found.get_dtype())] += prod(shapes[name])
        return Checkpoint(types, shapes, places, sum(file.stat().st_size for file in files))


def _files(folder: Path) -> list[Path]:
    """Return the files of the weights in a folder, sorted; ModelError if one is missing."""
    with reading("weights", folder):
        names = weight_files(folder)
    for name in names:
        if not (folder / name).is_file():
            raise ModelError(
                f"cannot read the weights of {folder}: there is no {name}",
                hint="fetch the rest of it"
                if _index_of(folder)
                else "save the model again, as safetensors",
            )
    return [folder / name for name in names]
