"""Where schemas stand, and what references name.

``Survey`` reads documents once: it checks the forms of keywords and records what references may
name. Every schema object becomes a ``Location``, found again by the identity of its dictionary. A
document of the request is read when a reference first leads to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from guided.errors import InvalidConstraintError, LimitExceededError
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.dialects import Dialect, Dialects, metaschema, standard
from guided.json_schema.reader.keywords import LATEST, Draft, Role, check_form
from guided.json_schema.reader.text import child, json_nbytes, json_text, read_schema
from guided.runtime.fuel import spend

__all__ = ["MAX_LOCATIONS", "Location", "Resource", "Scope", "Survey", "enter", "referenced"]

RECURSIVE: Final = ""
"""Stands for the ``$recursiveAnchor`` of draft 2019-09 among the names of dynamic anchors."""


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI: a document, or a part of one that has an ``$id``."""

    uri: str
    """Empty for a document without one."""
    root: Json
    pointer: str
    """The JSON pointer of the root, after the URI of its document where that is not the schema."""
    dialect: Dialect
    is_standard: bool = False
    """Whether it belongs to a metaschema that the specification publishes."""
    anchors: dict[str, Location] = field(default_factory=dict)
    dynamic: dict[str, Location] = field(default_factory=dict)
    """The anchors that a dynamic reference may be bound to."""
    ambiguous: set[str] = field(default_factory=set)
    """Anchors that several schemas have: this only matters once a reference names one."""


class Location:
    """A schema object.

    Compared by identity. ``Survey._read`` fills ``keywords`` once, in the order of the text; later
    nothing changes.
    """

    __slots__ = ("keywords", "pointer", "resource", "schema")

    def __init__(self, schema: dict[str, Json], pointer: str, resource: Resource) -> None:
        self.schema: Final = schema
        self.pointer: Final = pointer
        self.resource: Final = resource
        self.keywords: Final[dict[str, Json]] = {}
        """Those that ask something of values: no annotations, nothing hidden by a reference."""


MAX_LOCATIONS: Final = 50_000
_LOCATION_BYTES: Final = 400
"""About how many bytes are kept per schema object, besides what was read."""
_PLACE_BYTES_A_UNIT: Final = 32
"""Bytes of pointers, URIs and scopes per unit of work: each place has its own, so a long name
around many places would take far more memory than the text itself."""


class Survey:
    """What is known about a schema and the documents that came with it.

    It grows when a reference leads to another document. What was read is never changed, so that
    identities of dictionaries stay keys.
    """

    def __init__(self, root: Json, documents: Iterable[tuple[str, str]]) -> None:
        """Read only the root; ``documents`` are URIs with texts, read when they are needed.

        ``root`` is the resource of the whole schema.
        """
        self.locations: dict[int, Location] = {}
        """By the identity of the schema's dictionary, in the order in which they were met."""
        self.noted: list[tuple[Location, str]] = []
        """Where keywords stand that lead out of a schema, or on which lowering may fail."""
        self.ambiguous: set[str] = set()
        """URIs that several schemas give themselves: this only matters once a reference names one.
        """
        self._texts = {uri.removesuffix("#"): text for uri, text in documents}
        """The documents of the request, read or not."""
        self._documents: dict[str, Json] = {}
        """The documents of the request that were read."""
        self._resources: dict[str, Resource] = {}
        """By URI: a document by the one that it came with and by its own. The first one stays."""
        self._dialects = Dialects(self._document)
        self._default = standard(LATEST)
        self._read_bytes = 0
        self._place_bytes = 0
        """Bytes of pointers, URIs and scopes."""
        self.root = self._add_document("", root)
        # A document that names no draft is read as the schema that leads to it.
        self._default = self.root.dialect

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes: documents, read or not, and records of their schemas."""
        texts = sum([sys.getsizeof(text) for text in self._texts.values()])
        noted = _LOCATION_BYTES * len(self.locations)
        return texts + self._read_bytes + noted + self._place_bytes

    def resource(self, uri: str) -> Resource | None:
        """Return the resource of a URI without fragment; documents are read as far as needed.

        If neither a document nor a metaschema has it as its own, all other documents are read, not
        only up to the first hit, so that a URI which two of them claim is known to be ambiguous.
        ``None`` if none of them claims it either.
        """
        found = self._resources.get(uri)
        # The caller's documents before published ones, and last those that may give themselves or
        # a part of them the URI.
        if found is None and self._document(uri) is not None:
            found = self._add_document(uri, self._documents[uri])
        if found is None:
            known = metaschema(uri)
            if known is not None:
                return self._add_document(uri, known, is_standard=True)
            for other in self._texts:
                if other not in self._resources:
                    self._add_document(other, self._document(other))
            found = self._resources.get(uri)
        return found

    def add(self, schema: Json, pointer: str, resource: Resource) -> None:
        """Read a schema and all schemas in it; ``resource`` is the one that it stands in.

        What was already read is left as it is. Depth first, in the order of the document: the first
        schema to give itself a name keeps it, and the first error is reported. Raises
        InvalidConstraintError for a keyword of the wrong form, and LimitExceededError for too many
        schemas.
        """
        stack = [(schema, self._placed(pointer), resource)]
        while stack:
            schema, pointer, resource = stack.pop()
            # A location keeps its dictionary, so no other one gets the same identity.
            if isinstance(schema, bool) or id(schema) in self.locations:
                continue
            if not isinstance(schema, dict):
                raise InvalidConstraintError(
                    f"a schema is an object or a boolean, not {json_text(schema)[:40]}",
                    pointer=pointer,
                )
            location = self._enter(schema, pointer, resource)
            spend(5)
            stack += reversed(self._read(location))
            _note_names(location)

    def count_place(self, nbytes: int) -> None:
        """Count what is kept for a place: its pointer, its URI, its scope."""
        spend(nbytes // _PLACE_BYTES_A_UNIT)
        self._place_bytes += nbytes

    def _placed(self, place: str) -> str:
        """Count a pointer or a URI that is kept, and return it."""
        self.count_place(sys.getsizeof(place))
        return place

    def dynamic_anchors(self) -> list[Location]:
        """Return the schemas that dynamic references may be bound to."""
        return [named for known in self._resources.values() for named in known.dynamic.values()]

    def _document(self, uri: str) -> Json | None:
        """Return the caller's document of a URI."""
        if uri not in self._documents and uri in self._texts:
            self._documents[uri] = read_schema(self._texts[uri], f"{uri}#")
        return self._documents.get(uri)

    def _add_document(self, uri: str, root: Json, *, is_standard: bool = False) -> Resource:
        """Enter a document by ``uri``, and by the identifier that it gives itself.

        It is entered before it is read, as it may refer to itself. Raises what ``add`` raises.
        """
        pointer = f"{uri}#" if uri else ""
        dialect = self._dialect(root, pointer, self._default)
        resource = Resource(uri, root, pointer, dialect, is_standard)
        self._resources[uri] = resource
        if isinstance(root, dict) and not _hides(root, dialect):
            identifier = root.get(dialect.id_keyword)
            if isinstance(identifier, str):
                here = child(pointer, dialect.id_keyword)
                resource.uri = _own_uri(uri, identifier, here)
                if self._resources.setdefault(resource.uri, resource) is not resource:
                    self.ambiguous.add(resource.uri)
        if not is_standard:  # those exist once for all
            self._read_bytes += json_nbytes(root)
        self.add(root, pointer, resource)
        return resource

    def _dialect(self, schema: Json, pointer: str, around: Dialect) -> Dialect:
        if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
            return self._dialects.named(schema["$schema"], child(pointer, "$schema"))
        return around

    def _enter(self, schema: dict[str, Json], pointer: str, resource: Resource) -> Location:
        """Enter the location of a schema object, which may begin a new resource.

        Raises LimitExceededError past MAX_LOCATIONS. ``add`` ensures that it is called once for
        each dictionary.
        """
        if len(self.locations) >= MAX_LOCATIONS:
            raise LimitExceededError(
                f"the schema holds more than {MAX_LOCATIONS} subschemas",
                limit=MAX_LOCATIONS,
                pointer=pointer,
            )
        if schema is not resource.root:
            resource = self._embedded(schema, pointer, resource)
        location = self.locations[id(schema)] = Location(schema, pointer, resource)
        return location

    def _read(self, location: Location) -> list[tuple[Json, str, Resource]]:
        """Check the forms of the keywords, and return the schemas in them with their pointers.

        Fills ``location.keywords`` and adds to ``noted``; called once for each location.
        """
        schema, pointer, resource = location.schema, location.pointer, location.resource
        dialect, said = resource.dialect, location.keywords
        alone = _hides(schema, dialect)
        inner: list[tuple[Json, str, Resource]] = []
        for keyword, value in schema.items():
            word = dialect.keywords.get(keyword)
            if word is None or (alone and keyword not in _BESIDE_REF):
                continue
            form = word.form
            if not form.fits(value):
                check_form(keyword, value, form, pointer)
            if word.role in _SPEAKING:
                said[keyword] = value
                if keyword in _NOTED or (keyword == "format" and dialect.asserts_format):
                    self.noted.append((location, keyword))
            if form.subschemas is not None:
                here = f"{pointer}/{keyword}"
                inner += [
                    (part, self._placed(here + way), resource)
                    for way, part in form.subschemas(value)
                    if not isinstance(part, bool)
                ]
        return inner

    def _embedded(self, schema: dict[str, Json], pointer: str, around: Resource) -> Resource:
        """Return the resource that a schema inside another one begins, or the one around it.

        Of several with one URI the first keeps it, and the URI is ambiguous from then on.
        """
        if "$id" not in schema and "id" not in schema:
            return around
        dialect = self._dialect(schema, pointer, around.dialect)
        identifier = schema.get(dialect.id_keyword)
        if not isinstance(identifier, str) or _hides(schema, dialect):
            return around
        uri = _own_uri(around.uri, identifier, child(pointer, dialect.id_keyword))
        # A fragment alone is the anchor of old drafts, see ``_note_names``.
        if identifier.startswith("#") or uri == around.uri:
            return around
        resource = Resource(self._placed(uri), schema, pointer, dialect, around.is_standard)
        if self._resources.setdefault(uri, resource) is not resource:
            self.ambiguous.add(uri)
        return resource


def resolve_uri(base: str, reference: str, pointer: str) -> tuple[str, str]:
    """Return the URI and the fragment that the reference at ``pointer`` stands for, for any scheme.

    RFC 3986, section 5. A fragment alone leaves the base as it is, even one that is no URI to
    resolve against.
    """
    if reference.startswith("#"):
        return base, reference[1:]
    try:
        uri, fragment = urldefrag(urljoin(base, reference) if reference else base)
    except ValueError as error:
        raise InvalidConstraintError(
            f"{reference[:80]!r} is no reference to a URI: {error}", pointer=pointer
        ) from error
    return uri, fragment


def _own_uri(base: str, identifier: str, pointer: str) -> str:
    """Return the URI that a schema gives itself, without its fragment.

    Raises InvalidConstraintError for an identifier whose characters no URI may have.
    """
    if not _URI_REFERENCE.fullmatch(identifier):
        raise InvalidConstraintError(
            f"{identifier[:80]!r} is no reference to a URI",
            pointer=pointer,
            hint="write what is no letter, digit or mark of a URI as % and two hexadecimal digits",
        )
    return resolve_uri(base, identifier, pointer)[0]


# RFC 3986, section 4.1: its characters; `urljoin` knows where they may stand.
_URI_REFERENCE: Final = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_SPEAKING: Final = frozenset({Role.ASSERTION, Role.APPLICATOR})


def _hides(schema: dict[str, Json], dialect: Dialect) -> bool:
    return isinstance(schema.get("$ref"), str) and dialect.ref_is_alone


def _note_names(location: Location) -> None:
    """Enter the names that the schema gives itself into its resource.

    Called once for each location; a name that two schemas of a resource give themselves is recorded
    as ambiguous, and the first keeps it.
    """
    schema, resource = location.schema, location.resource
    draft = resource.dialect.draft
    if draft <= Draft.DRAFT_7:
        identifier = schema.get(resource.dialect.id_keyword)
        if isinstance(identifier, str) and "#" in identifier and "$ref" not in schema:
            _note(resource.anchors, identifier.partition("#")[2], location)
        return
    if "$anchor" in schema:
        _note(resource.anchors, schema["$anchor"], location)
    if draft is Draft.DRAFT_2020_12 and "$dynamicAnchor" in schema:
        _note(resource.anchors, schema["$dynamicAnchor"], location)
        _note(resource.dynamic, schema["$dynamicAnchor"], location)
    if draft is Draft.DRAFT_2019_09 and schema.get("$recursiveAnchor") is True:
        _note(resource.dynamic, RECURSIVE, location)


def _note(names: dict[str, Location], name: str, location: Location) -> None:
    if names.setdefault(name, location) is not location:
        location.resource.ambiguous.add(name)


_BESIDE_REF: Final = frozenset({"$ref", "definitions"})
"""What counts beside a ``$ref`` that hides its siblings; nothing in it asserts."""
_NOTED: Final = frozenset(
    (
        *("$ref", "$recursiveRef", "$dynamicRef", "pattern", "patternProperties"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"),
        *("dependencies", "unevaluatedProperties", "unevaluatedItems"),
    )
)
"""The keywords that ``soundness.is_sound`` goes through; each needs a case there."""
Scope = frozenset[tuple[str, Location]]
"""The result of the dynamic scope: the schema that each name of a dynamic anchor is bound to."""


def enter(scope: Scope, resource: Resource) -> Scope:
    """Return the scope inside a resource: the outermost schema of a name stays bound to it.

    Scopes are compared by value: they are part of the key of a node (``Lowering.node``).
    """
    if not resource.dynamic:
        return scope
    spend(len(resource.dynamic))
    bound = {name for name, _ in scope}
    found = {item for item in resource.dynamic.items() if item[0] not in bound}
    return scope | found if found else scope


def referenced(survey: Survey, location: Location, keyword: str, scope: Scope) -> Location | bool:
    """Return the schema that a reference keyword names; a Boolean where it is one.

    Raises InvalidConstraintError for a reference that names nothing. It may read further documents,
    and add the schemas in them to the survey.
    """
    reference = location.keywords[keyword]
    here = child(location.pointer, keyword)
    resource, fragment = _resource(survey, location, reference, here)
    if keyword == "$recursiveRef" and RECURSIVE in resource.dynamic:
        return dict(scope).get(RECURSIVE, resource.dynamic[RECURSIVE])
    if fragment and not fragment.startswith("/"):
        if fragment in resource.ambiguous:
            raise _ambiguous(reference, here)
        anchor = resource.anchors.get(fragment)
        if anchor is None:
            raise _nothing(reference, f"no schema of {_shown(resource)} is {fragment!r}", here)
        if keyword == "$dynamicRef" and resource.dynamic.get(fragment) is anchor:
            return dict(scope).get(fragment, anchor)
        return anchor
    return _at_pointer(survey, resource, fragment, reference, here)


def _resource(
    survey: Survey, location: Location, reference: str, here: str
) -> tuple[Resource, str]:
    """Return the resource that a reference leads to, and what it names there.

    The fragment has its percent signs decoded. If a URI is ambiguous but the resource's own,
    that resource is meant.
    """
    uri, fragment = resolve_uri(location.resource.uri, reference, here)
    resource = location.resource if reference.startswith("#") else survey.resource(uri)
    if resource is None:
        raise InvalidConstraintError(
            f"the reference {reference!r} leads to {uri!r}, which is not among the documents",
            pointer=here,
            hint="pass it with the schema as a document: nothing is ever fetched",
        )
    if resource is not location.resource and uri in survey.ambiguous:
        raise _ambiguous(reference, here)
    return resource, unquote(fragment)


def _at_pointer(
    survey: Survey, resource: Resource, path: str, reference: str, here: str
) -> Location | bool:
    """Follow a JSON pointer (RFC 6901, section 4) from the root of a resource.

    A schema on the way may begin a new resource: what it leads to then stands in that one.
    """
    target: Json = resource.root
    pointer = resource.pointer
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
    for token in tokens:
        if isinstance(target, dict) and token in target:
            target = target[token]
        elif isinstance(target, list) and _is_index(token) and int(token) < len(target):
            target = target[int(token)]
        else:
            lacks = "no index there" if isinstance(target, list) else "missing"
            raise _nothing(reference, f"{token[:80]!r} is {lacks}", here)
        pointer = child(pointer, token)
        inner = survey.locations.get(id(target))
        if inner is not None:
            resource, pointer = inner.resource, inner.pointer
    if isinstance(target, bool):
        return target
    if id(target) not in survey.locations:
        # The value of a keyword that no draft defines: a schema because something refers to it.
        survey.add(target, pointer, resource)
    return survey.locations[id(target)]


def _is_index(token: str) -> bool:
    """Return whether a token of a JSON pointer is an index: no leading 0 (RFC 6901, section 4)."""
    plain = token.isascii() and token.isdecimal() and len(token) < 10
    return plain and (token == "0" or token[0] != "0")  # noqa: S105 - of a pointer


def _nothing(reference: str, why: str, here: str) -> InvalidConstraintError:
    return InvalidConstraintError(
        f"the reference {reference[:80]!r} names nothing: {why}",
        pointer=here,
        hint="name an '$anchor', or the way from the root of its document, as in '#/$defs/name'",
    )


def _ambiguous(reference: str, here: str) -> InvalidConstraintError:
    return InvalidConstraintError(
        f"the reference {reference!r} names several schemas",
        pointer=here,
        hint="give each of them a name of its own",
    )


def _shown(resource: Resource) -> str:
    return repr(resource.uri) if resource.uri else "the schema"
