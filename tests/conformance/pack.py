"""Packs a checkout of the official suite: `python -m tests.conformance.pack CHECKOUT`.

One gzipped file of minified JSON for each draft, and one for the documents that tests refer to.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from tests.conformance.suite import DIALECTS, FOLDER, Part

_FOLDERS = {Part.REQUIRED: "", Part.OPTIONAL: "optional", Part.FORMAT: "optional/format"}


def pack(checkout: Path) -> None:
    """Writes the packed files of a checkout, the same bytes for the same content."""
    for draft in DIALECTS:
        parts = {
            part: {
                file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))
            }
            for part, name in _FOLDERS.items()
            if (folder := checkout / "tests" / draft / name).is_dir()
        }
        _write(FOLDER / f"{draft}.json.gz", parts)
    remotes = checkout / "remotes"
    documents = {
        file.relative_to(remotes).as_posix(): json.loads(file.read_text())
        for file in sorted(remotes.rglob("*.json"))
        if not file.is_relative_to(remotes / "v1")
    }
    _write(FOLDER / "remotes.json.gz", documents)


def _write(file: Path, value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))
    # Without the time of packing, so that equal content gives equal files.
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
