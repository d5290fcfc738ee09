"""The metaschemas of all drafts, as the specification publishes them."""

from __future__ import annotations

from jsonschema_specifications import REGISTRY

from guided.json_schema.reader.reader import Json

__all__ = ["metaschema"]

_HOSTS = ("http://json-schema.org/", "https://json-schema.org/")


def metaschema(uri: str) -> Json | None:
    """The metaschema of a URI without fragment; ``None`` for any other URI."""
    if not uri.startswith(_HOSTS):
        return None
    for spelled in (uri, uri + "#"):
        if spelled in REGISTRY:
            return REGISTRY.contents(spelled)
    return None
