"""The documents that a request gives with its schema, parsed when they are first needed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.text import json_nbytes, read_schema
from guided.runtime.work_budget import spend

__all__ = ["Documents", "ParsedTexts"]

_CHARACTERS_PER_UNIT: Final = 10
"""Characters of a document that are read in a unit of work."""


class ParsedTexts:
    """Parsed documents, shared by the schemas of one constraint; never changed or dropped.

    Each member of a tool's arguments, for example, is a schema that refers to the same document.
    """

    def __init__(self) -> None:
        self._roots: Final[dict[tuple[str, str], Json]] = {}
        """By URI and text, as two documents of one schema are never the same object."""
        self._nbytes: Final[dict[int, int]] = {}
        """The size of each in memory, by identity."""

    def read(self, uri: str, text: str) -> Json:
        """Return the document of a text, the same object each time; raises what reading it does."""
        key = uri, text
        if key not in self._roots:
            spend(len(text) // _CHARACTERS_PER_UNIT)
            root = self._roots[key] = read_schema(text, f"{uri}#")
            self._nbytes[id(root)] = json_nbytes(root)
        return self._roots[key]

    def nbytes(self, root: Json) -> int:
        """Return about how many bytes a document takes, whether it is shared or not."""
        known = self._nbytes.get(id(root))
        return json_nbytes(root) if known is None else known


class Documents:
    """The request's documents by URI without fragment; parsed ones are never changed or dropped."""

    def __init__(self, texts: Iterable[tuple[str, str]], shared: ParsedTexts) -> None:
        self._shared: Final = shared
        self._texts: Final = {uri.removesuffix("#"): text for uri, text in texts}
        self._parsed: Final[dict[str, Json]] = {}

    @property
    def uris(self) -> Iterable[str]:
        """The URIs of all documents, parsed or not."""
        return self._texts.keys()

    @property
    def text_nbytes(self) -> int:
        """About how many bytes the texts take."""
        return sum([sys.getsizeof(text) for text in self._texts.values()])

    def find(self, uri: str) -> Json | None:
        """Return the document of a URI, the same object each time; ``None`` if there is none."""
        if uri not in self._parsed and uri in self._texts:
            self._parsed[uri] = self._shared.read(uri, self._texts[uri])
        return self._parsed.get(uri)

    def nbytes(self, root: Json) -> int:
        """Return about how many bytes a parsed document takes; it need not be one of these."""
        return self._shared.nbytes(root)
