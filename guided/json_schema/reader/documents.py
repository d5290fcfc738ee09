"""The documents that a request gives with its schema, parsed when they are first needed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.text import read_schema

__all__ = ["Documents"]


class Documents:
    """The request's documents by URI without fragment; parsed ones are never changed or dropped."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
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
            self._parsed[uri] = read_schema(self._texts[uri], f"{uri}#")
        return self._parsed.get(uri)
