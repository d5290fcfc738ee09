"""Which schemas are drawn, and in which order."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from benchmarks.peers import maskbench
from benchmarks.peers.judging import Document
from benchmarks.peers.maskbench import Schema, schemas

NAMES = [f"s{number}" for number in range(9)]
ENTRY = {"schema": {"type": "null"}, "tests": [{"data": None, "valid": True, "description": "-"}]}


def packed(folder: Path) -> Path:
    file = folder / "packed.jsonl.gz"
    lines = (json.dumps({"name": name, **ENTRY}) for name in NAMES)
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    return file


def test_a_seed_draws_the_same_schemas_in_the_same_order(tmp_path: Path) -> None:
    file = packed(tmp_path)
    drawn = [schema.name for schema in schemas(file, sample=3, seed=1)]
    # As random.Random(1).sample has drawn since figures are kept.
    assert drawn == ["s2.json", "s1.json", "s8.json"]
    assert sorted(schema.name for schema in schemas(file, sample=0, seed=1)) == [
        f"{name}.json" for name in NAMES
    ]


def test_a_folder_and_a_packed_file_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder, listed = packed(tmp_path), tmp_path / "data", tmp_path / "names.txt"
    folder.mkdir()
    for name in [*NAMES, "another"]:
        Path(folder, f"{name}.json").write_text(json.dumps(ENTRY))
    listed.write_text("\n".join(NAMES))
    monkeypatch.setattr(maskbench, "_NAMES", listed)
    found = [*schemas(folder, sample=4, seed=2)]
    assert found == [*schemas(file, sample=4, seed=2)]
    assert found[0][1:] == ({"type": "null"}, [Document(None, True)])
    assert isinstance(found[0], Schema)


def test_the_open_part_is_listed() -> None:
    names = maskbench._NAMES.read_text().split()
    assert names == sorted(set(names))
    assert len(names) == 2000
    assert all(hashlib.sha256(f"{name}.json".encode()).digest()[0] < 128 for name in names)
