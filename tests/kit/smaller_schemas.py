"""JSON documents made smaller, for schemas that fail a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["smaller_documents"]


def smaller_documents(document: Any) -> Iterator[Any]:
    """The document without a part of it, and each part alone; large parts first."""
    if isinstance(document, dict):
        yield from [inner for inner in document.values() if isinstance(inner, dict | bool)]
        for inner in document.values():
            if isinstance(inner, list):
                yield from [each for each in inner if isinstance(each, dict)]
        for name in document:
            yield {other: inner for other, inner in document.items() if other != name}
        for name, inner in document.items():
            for smaller in smaller_documents(inner):
                yield {**document, name: smaller}
    elif isinstance(document, list):
        for place, inner in enumerate(document):
            yield document[:place] + document[place + 1 :]
            for smaller in smaller_documents(inner):
                yield [*document[:place], smaller, *document[place + 1 :]]
    elif isinstance(document, int) and not isinstance(document, bool) and document > 1:
        yield document - 1
