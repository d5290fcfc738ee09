"""The official JSON Schema test suite, as packed beside this file."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

__all__ = ["DIALECTS", "FOLDER", "Case", "Group", "Part", "groups", "remote_documents"]

FOLDER: Final = Path(__file__).parent / "packed"

DIALECTS: Final = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}
"""The drafts, each with the URI of its metaschema."""

_REMOTE: Final = "http://localhost:1234/"
"""The address at which the suite's schemas expect the documents that they refer to."""


class Part(StrEnum):
    """The parts of the suite: the specification itself, its optional parts, and formats."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORMAT = "format"


@dataclass(frozen=True, slots=True)
class Case:
    """A document and the suite's verdict on it."""

    description: str
    document: Any
    valid: bool

    @property
    def text(self) -> bytes:
        """The document as JSON, with a blank after commas and colons."""
        try:
            return json.dumps(self.document, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate
            return json.dumps(self.document).encode()


@dataclass(frozen=True, slots=True)
class Group:
    """A schema and the documents that test it."""

    draft: str
    part: Part
    file: str
    description: str
    schema: Any
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        """The name under which an exception is listed."""
        return f"{self.draft}/{self.file}: {self.description}"

    @property
    def text(self) -> str:
        """The schema, which names its draft even if the suite leaves that to the folder."""
        schema = self.schema
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": DIALECTS[self.draft], **schema}
        return json.dumps(schema)

    @property
    def documents(self) -> tuple[tuple[str, str], ...]:
        """The documents that the schema may refer to; none if it names no such address."""
        return remote_documents() if _REMOTE in self.text else ()


@cache
def remote_documents() -> tuple[tuple[str, str], ...]:
    """The suite's documents: the URI and the text of each."""
    unpacked = _read("remotes")
    return tuple((_REMOTE + path, json.dumps(value)) for path, value in unpacked.items())


@cache
def groups(part: Part, draft: str) -> tuple[Group, ...]:
    """All groups of one part of a draft."""
    return tuple(
        Group(
            draft,
            part,
            file,
            group["description"],
            group["schema"],
            tuple(
                Case(test["description"], test["data"], test["valid"]) for test in group["tests"]
            ),
        )
        for file, found in _read(draft).get(part, {}).items()
        for group in found
    )


@cache
def _read(name: str) -> dict[str, Any]:
    text = gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())
    unpacked: dict[str, Any] = json.loads(text)
    return unpacked
