"""``$schema`` → the keywords that it gives a meaning to; and the published metaschemas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from jsonschema_specifications import REGISTRY

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.keywords import KEYWORDS, LATEST, Draft, Keyword
from guided.json_schema.reader.text import child

__all__ = ["Dialect", "Dialects", "metaschema", "standard"]

_MAX_METASCHEMAS: Final = 50
"""The most metaschemas of the caller, one of which may be written in another."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A draft, or the part of one that a metaschema of the caller chose."""

    draft: Draft
    keywords: Mapping[str, Keyword]
    asserts_format: bool = False
    """Whether the metaschema requires ``format`` to be enforced, whatever the options say."""

    @property
    def id_keyword(self) -> str:
        """The keyword that gives a schema its URI."""
        return "id" if self.draft is Draft.DRAFT_4 else "$id"

    @property
    def ref_is_alone(self) -> bool:
        """Whether ``$ref`` hides the keywords beside it."""
        return self.draft <= Draft.DRAFT_7


@functools.cache
def standard(draft: Draft) -> Dialect:
    """Return all keywords of a draft."""
    return Dialect(
        draft, {word.name: word for word in KEYWORDS if word.first <= draft <= word.last}
    )


@functools.cache
def _standards() -> dict[str, Dialect]:
    return {draft.uri: standard(draft) for draft in Draft}


class Dialects:
    """The dialects that a request may name: the drafts, and metaschemas among its documents."""

    def __init__(self, document: Callable[[str], Json | None]) -> None:
        """``document`` returns the caller's document of a URI, ``None`` if there is none."""
        self._document = document
        """The caller's document of a URI, where there is one."""
        self._known = _standards().copy()
        self._open: set[str] = set()
        """The caller's metaschemas that were begun: one that occurs again before it is known is
        written in itself."""

    def named(self, uri: str, pointer: str) -> Dialect:
        """Return the dialect that the ``$schema`` at ``pointer`` names.

        Raises UnsupportedFeatureError for one that is not known, or that is written in itself. Kept
        by URI, so schemas that name the same one share the dialect.
        """
        uri = uri.removesuffix("#")
        if uri not in self._known:
            metaschema = self._document(uri)
            if not isinstance(metaschema, dict) or uri in self._open:
                raise UnsupportedFeatureError(
                    f"the dialect {uri!r} is not known",
                    pointer=pointer,
                    hint="one of "
                    + ", ".join(draft.uri for draft in Draft)
                    + "; or a metaschema among the documents of the request",
                )
            self._open.add(uri)
            if len(self._open) > _MAX_METASCHEMAS:
                raise LimitExceededError(
                    f"the schema names more than {_MAX_METASCHEMAS} metaschemas",
                    limit=_MAX_METASCHEMAS,
                    pointer=pointer,
                )
            self._known[uri] = self._custom(uri, metaschema)
        return self._known[uri]

    def _custom(self, uri: str, metaschema: dict[str, Json]) -> Dialect:
        """Return the dialect of a metaschema of the caller: the vocabularies of its draft it lists.

        Only its own ``$vocabulary`` lists them (2020-12, core, section 8.1.2): ``$schema``, which
        says how the metaschema is read, determines the draft, and the dialect where none are
        listed.

        If it requires format-assertion, formats are asserted even if the options make them
        annotations. One that is not required may be ignored, so the options decide, as they do for
        2019-09, whose only vocabulary of ``format`` requires neither.
        """
        below = metaschema.get("$schema", LATEST.uri)
        if not isinstance(below, str):
            raise InvalidConstraintError("$schema is a string", pointer=f"{uri}#/$schema")
        base = self.named(below, f"{uri}#/$schema")
        chosen = metaschema.get("$vocabulary")
        if base.draft < Draft.DRAFT_2019_09 or not isinstance(chosen, dict):
            return base
        names = {"core"}
        for vocabulary, required in chosen.items():
            known = _vocabularies(base.draft, vocabulary)
            if known is not None:
                names |= known
            elif required is not False:
                raise UnsupportedFeatureError(
                    f"the vocabulary {vocabulary!r} is not known, and it is required",
                    pointer=child(f"{uri}#", "$vocabulary", vocabulary),
                )
        return Dialect(
            base.draft,
            {
                name: word
                for name, word in standard(base.draft).keywords.items()
                if word.vocabulary in names
            },
            asserts_format=bool(chosen.get(_FORMAT_ASSERTION)),
        )


_FORMAT_ASSERTION: Final = "https://json-schema.org/draft/2020-12/vocab/format-assertion"
_VOCABULARIES: Final = {word.vocabulary: {word.vocabulary} for word in KEYWORDS}
_PARTS: Final = {
    Draft.DRAFT_2019_09: {
        "applicator": {"applicator", "unevaluated"},
        "format": {"format-annotation"},
    },
    Draft.DRAFT_2020_12: {"format-assertion": {"format-annotation"}},
}
"""Where vocabularies were divided differently from ``Keyword.vocabulary``."""


def _vocabularies(draft: Draft, uri: str) -> set[str] | None:
    """Return the vocabularies of ``Keyword.vocabulary`` that a vocabulary's URI stands for.

    ``None`` for one that is not of this draft.
    """
    prefix = draft.uri.removesuffix("schema") + "vocab/"
    if not uri.startswith(prefix):
        return None
    name = uri.removeprefix(prefix)
    return (_VOCABULARIES | _PARTS[draft]).get(name)


_HOSTS = ("http://json-schema.org/", "https://json-schema.org/")


def metaschema(uri: str) -> Json | None:
    """Return the metaschema of a URI without fragment; ``None`` for any other URI.

    It belongs to the registry, which returns the same object each time, so it must not be changed.
    """
    if not uri.startswith(_HOSTS):
        return None
    for spelled in (uri, uri + "#"):  # up to draft 7 they are known by an empty fragment
        if spelled in REGISTRY:
            return REGISTRY.contents(spelled)
    return None
