"""The schemas of MaskBench that figures are made of, with their documents."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.judging import Document

__all__ = ["Schema", "schemas"]

_NAMES = Path(__file__).with_name("maskbench_open.txt")
"""The names of the open part: 2,000 schemas of the half of MaskBench whose file names have a
SHA-256 that begins with a byte below 128; the other half is kept for final figures."""


class Schema(NamedTuple):
    """A parsed schema with its documents."""

    name: str
    schema: Any
    documents: list[Document]


def schemas(place: Path, *, sample: int, seed: int) -> Iterator[Schema]:
    """Yield ``sample`` schemas of the open part in random order; all of them for 0.

    ``place`` is MaskBench's folder of data, or a file of gzipped JSON lines with the ``name`` too.
    Any beginning of the order is a sample as well.
    """
    packed: dict[str, Any] = {} if place.is_dir() else _unpacked(place)
    names = sorted(f"{name}.json" for name in packed) or _listed(place)
    draw = random.Random(seed)
    if 0 < sample < len(names):
        names = draw.sample(names, sample)
    else:
        draw.shuffle(names)
    for name in names:
        read = packed.get(name.removesuffix(".json")) or json.loads((place / name).read_bytes())
        documents = [Document(test["data"], test["valid"]) for test in read["tests"]]
        yield Schema(name, read["schema"], documents)


def _unpacked(file: Path) -> dict[str, Any]:
    lines = gzip.decompress(file.read_bytes()).splitlines()
    return {row["name"]: row for row in map(json.loads, lines)}


def _listed(folder: Path) -> list[str]:
    names = sorted(f"{name}.json" for name in _NAMES.read_text().splitlines())
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise SystemExit(f"{folder} lacks {len(missing)} schemas, such as {missing[0]}")
    return names
