"""The dialects that ``$schema`` may name, each with its keywords, and the published metaschemas."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jsonschema_specifications import REGISTRY

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.documents import Documents
from guided.json_schema.reader.keywords import KEYWORDS, LATEST, Draft, Keyword
from guided.json_schema.reader.text import child_pointer
from guided.spec import FormatMode, JsonOptions

__all__ = ["Dialect", "Dialects", "draft_dialect", "metaschema"]

_MAX_METASCHEMAS: Final = 50
"""The most metaschemas of a request; one may name another as its ``$schema``."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A draft, or the vocabularies of one that a metaschema of the caller lists."""

    draft: Draft
    keywords: Mapping[str, Keyword]
    asserts_format: bool = False
    """Whether the metaschema requires ``format`` to be enforced, whatever the options say."""

    def enforces_format(self, options: JsonOptions) -> bool:
        """Return whether ``format`` is enforced under these options."""
        return self.asserts_format or options.format is FormatMode.ASSERT

    @property
    def id_keyword(self) -> str:
        """The keyword that gives a schema its URI."""
        return "id" if self.draft is Draft.DRAFT_4 else "$id"

    @property
    def ref_is_alone(self) -> bool:
        """Whether a schema with ``$ref`` has no other keywords."""
        return self.draft <= Draft.DRAFT_7


@functools.cache
def draft_dialect(draft: Draft) -> Dialect:
    """Return the dialect with all keywords of a draft."""
    return Dialect(
        draft, {each.name: each for each in KEYWORDS if each.first <= draft <= each.last}
    )


@functools.cache
def _draft_dialects() -> dict[str, Dialect]:
    """Return the dialects of all drafts, by URI, with ``http`` or ``https``: many confuse them."""
    return {
        scheme + draft.uri.partition(":")[2]: draft_dialect(draft)
        for draft in Draft
        for scheme in ("http:", "https:")
    }


class Dialects:
    """The dialects that a request may name: the drafts, and metaschemas among its documents."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._by_uri = _draft_dialects().copy()
        self._started: set[str] = set()
        """URIs of the caller's metaschemas of which reading has started. One that is needed again
        before it is in ``_by_uri`` leads back to itself by ``$schema``."""

    def find(self, uri: str, pointer: str) -> Dialect:
        """Return the dialect of a URI, the same object each time; ``pointer`` is for errors.

        A metaschema is known by the URI that it is given by, not by its ``$id``. Raises
        UnsupportedFeatureError for an unknown one, and for one that leads back to itself.
        """
        uri = uri.removesuffix("#")
        if uri not in self._by_uri:
            metaschema = self._documents.find(uri)
            if uri in self._started:
                raise UnsupportedFeatureError(
                    f"the metaschema {uri[:80]!r} leads back to itself by $schema",
                    pointer=pointer,
                    hint="let it name one of the drafts",
                )
            if not isinstance(metaschema, dict):
                raise UnsupportedFeatureError(
                    f"the dialect {uri[:80]!r} is not known",
                    pointer=pointer,
                    hint="one of "
                    + ", ".join(draft.uri for draft in Draft)
                    + "; or a metaschema among the documents of the request",
                )
            self._started.add(uri)
            if len(self._started) > _MAX_METASCHEMAS:
                raise LimitExceededError(
                    f"the schema names more than {_MAX_METASCHEMAS} metaschemas",
                    limit=_MAX_METASCHEMAS,
                    pointer=pointer,
                )
            self._by_uri[uri] = self._read_metaschema(uri, metaschema)
        return self._by_uri[uri]

    def _read_metaschema(self, uri: str, metaschema: dict[str, Json]) -> Dialect:
        """Return the dialect of a metaschema of the caller.

        Its ``$schema`` determines the draft, and its own ``$vocabulary`` lists the vocabularies
        (2020-12, core, section 8.1.2); without a list, or before 2019-09, it is the dialect of its
        ``$schema``.

        If it requires format-assertion, formats are asserted even if the options make them
        annotations. Otherwise the options decide, as they do for 2019-09, which has no such
        vocabulary.
        """
        base_uri = metaschema.get("$schema", LATEST.uri)
        if not isinstance(base_uri, str):
            raise InvalidConstraintError("$schema is a string", pointer=f"{uri}#/$schema")
        base = self.find(base_uri, f"{uri}#/$schema")
        listed = metaschema.get("$vocabulary")
        if base.draft < Draft.DRAFT_2019_09 or not isinstance(listed, dict):
            return base
        names = {"core"}
        for vocabulary, required in listed.items():
            included = _vocabularies(base.draft, vocabulary)
            if included is not None:
                names |= included
            elif required is not False:
                raise UnsupportedFeatureError(
                    f"the vocabulary {vocabulary[:80]!r} is not known, and it is required",
                    pointer=child_pointer(f"{uri}#", "$vocabulary", vocabulary),
                )
        return Dialect(
            base.draft,
            {
                name: keyword
                for name, keyword in draft_dialect(base.draft).keywords.items()
                if keyword.vocabulary in names
            },
            asserts_format=bool(listed.get(_FORMAT_ASSERTION)),
        )


_FORMAT_ASSERTION: Final = "https://json-schema.org/draft/2020-12/vocab/format-assertion"
_VOCABULARIES: Final = {each.vocabulary: {each.vocabulary} for each in KEYWORDS}
_RENAMED_VOCABULARIES: Final = {
    Draft.DRAFT_2019_09: {
        "applicator": {"applicator", "unevaluated"},
        "format": {"format-annotation"},
    },
    Draft.DRAFT_2020_12: {"format-assertion": {"format-annotation"}},
}
"""By draft, its vocabularies that differ from those of ``Keyword.vocabulary``."""


def _vocabularies(draft: Draft, uri: str) -> set[str] | None:
    """Return the vocabularies of ``Keyword.vocabulary`` that a vocabulary's URI stands for.

    ``None`` for one that is not of this draft.
    """
    prefix = draft.uri.removesuffix("schema") + "vocab/"
    if not uri.startswith(prefix):
        return None
    name = uri.removeprefix(prefix)
    return (_VOCABULARIES | _RENAMED_VOCABULARIES[draft]).get(name)


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
