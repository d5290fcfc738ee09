"""Index of the schemas in documents, and resolution of references.

``SchemaIndex`` reads documents once: it checks the forms of keywords and records the URIs and
anchors that references may name. Every schema object becomes a ``Location``, which is found by the
identity of its dictionary. A document of the request is read when a reference first leads to it.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from guided.errors import InvalidConstraintError, LimitExceededError
from guided.json_schema.formulas.values import Json, value_key
from guided.json_schema.reader.dialects import Dialect, Dialects, draft_dialect, metaschema
from guided.json_schema.reader.documents import Documents, ParsedTexts
from guided.json_schema.reader.keywords import LATEST, Draft, Role, check_form
from guided.json_schema.reader.locations import Location, Resource
from guided.json_schema.reader.text import child_pointer, json_nbytes, short_json
from guided.runtime.at_drop import AtDrop
from guided.runtime.work_budget import spend

__all__ = [
    "MAX_LOCATIONS",
    "SchemaIndex",
    "Scope",
    "enter_resource",
    "resolve_reference",
]

RECURSIVE_ANCHOR: Final = ""
"""The key of the ``$recursiveAnchor`` of draft 2019-09 among dynamic anchors."""


MAX_LOCATIONS: Final = 50_000
_LOCATION_BYTES: Final = 400
"""About how many bytes are stored for a schema object, besides its parsed text."""
_NAME_BYTES_PER_UNIT: Final = 32
"""Bytes of pointers, URIs and scopes per unit of work: without this, a long name around many
schemas could take far more memory than the text itself."""
_URI_CHARACTERS_PER_UNIT: Final = 30
"""Characters of a URI, and of the reference to it, that are joined in a unit of work."""


class SchemaIndex:
    """The schemas of a document and of those that it refers to, by identity, URI and anchor.

    It grows when a reference leads to another document. Parsed documents are never changed or
    dropped, so that identities of dictionaries can be keys.
    """

    def __init__(
        self, root: Json, documents: Iterable[tuple[str, str]], shared: ParsedTexts
    ) -> None:
        """Read the root document; ``documents`` are URIs with texts, which are parsed when needed.

        ``shared`` has those that were parsed for other schemas. Raises what ``add`` and
        ``Dialects.find`` raise.
        """
        self.locations: dict[int, Location] = {}
        """By identity of the schema's dictionary, in the order of reading."""
        self.lowering_checks: list[tuple[Location, str]] = []
        """Occurrences of keywords on which lowering may fail; ``can_be_lowered`` checks each."""
        self.ambiguous_uris: set[str] = set()
        """URIs that several schemas have, which is an error only if a reference names one."""
        self._documents = Documents(documents, shared)
        self._resources: dict[str, Resource] = {}
        """By URI; a document by the URI that was given with it and by its own. The first one stays.
        """
        self._read_documents: set[str] = set()
        """The URIs under which documents were added; empty for the root."""
        self._made: list[Resource] = []
        """All resources, also those whose URI another one has."""
        # Anchors lead to locations, which lead back to their resource: the cycle is cut when the
        # index is dropped. So ``_made`` stays this list, and the function has no way to the index.
        self._at_drop = AtDrop(functools.partial(_forget_anchors, self._made))
        self._dialects = Dialects(self._documents)
        self._default = draft_dialect(LATEST)
        """The dialect of documents without ``$schema``."""
        self._document_bytes = 0
        """Bytes of the documents that were parsed."""
        self._name_bytes = 0
        """Bytes of pointers, URIs and scopes."""
        self.root = self._add_document("", root)
        # From now on: a document that names no draft is read as the root is, whatever leads to it.
        self._default = self.root.dialect

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes: documents, parsed or not, and the index."""
        locations = _LOCATION_BYTES * len(self.locations)
        documents = self._documents.text_nbytes + self._document_bytes
        return documents + locations + self._name_bytes

    def resource(self, uri: str) -> Resource | None:
        """Return the resource of a URI without fragment; ``None`` if there is none.

        Reads documents as far as needed: the one given with the URI; if nothing read so far has the
        URI, a metaschema; else all others, as each may give itself the URI. Of several schemas with
        the URI the first is returned: callers look in ``ambiguous_uris``. Raises what ``add`` does.
        """
        # The request's documents come before published ones.
        self._read_document(uri)
        found = self._resources.get(uri)
        if found is None:
            published = metaschema(uri)
            if published is not None:
                return self._add_document(uri, published, is_standard=True)
            for other in self._documents.uris:
                self._read_document(other)
            found = self._resources.get(uri)
        return found

    def _read_document(self, uri: str) -> None:
        """Add the document given with a URI, if there is one, unless it was read.

        A copy of it inside another document is no second schema of that URI.
        """
        document = None if uri in self._read_documents else self._documents.find(uri)
        if document is None:
            return
        embedded = self._resources.get(uri)
        if embedded is None or not _is_copy(embedded.root, document):
            self._add_document(uri, document)
        self._read_documents.add(uri)

    def add(self, schema: Json, pointer: str, resource: Resource) -> None:
        """Add a schema and all schemas in it to the index; ``resource`` contains it.

        Skips schemas that were already read. Depth first, in the order of the document: the first
        schema to give itself a name keeps it, and the first error is reported. Raises
        InvalidConstraintError for a keyword of the wrong form, and LimitExceededError for too many
        schemas.
        """
        stack = [(schema, self._count_string(pointer), resource)]
        while stack:
            schema, pointer, resource = stack.pop()
            # A location keeps its dictionary, so no other one gets the same identity.
            if isinstance(schema, bool) or id(schema) in self.locations:
                continue
            if not isinstance(schema, dict):
                raise InvalidConstraintError(
                    f"a schema is an object or a boolean, not {short_json(schema)}",
                    pointer=pointer,
                )
            location = self._add_location(schema, pointer, resource)
            spend(5)
            stack += reversed(self._read_keywords(location))
            _record_anchors(location)

    def count_bytes(self, nbytes: int) -> None:
        """Count bytes that are stored for a schema: of its pointer, its URI or its scope."""
        spend(nbytes // _NAME_BYTES_PER_UNIT)
        self._name_bytes += nbytes

    def _count_string(self, text: str) -> str:
        """Count the bytes of a pointer or a URI that is stored, and return it."""
        self.count_bytes(sys.getsizeof(text))
        return text

    def dynamic_anchors(self) -> list[Location]:
        """Return the possible targets of dynamic references."""
        return [
            location for resource in self._made for location in resource.dynamic_anchors.values()
        ]

    def _add_document(self, uri: str, root: Json, *, is_standard: bool = False) -> Resource:
        """Add a document under ``uri`` and under the identifier that it gives itself.

        ``uri`` has no fragment, and is empty for the root; to be called once for a document. It is
        registered, and its own URI is set, before its schemas are read: identifiers in it resolve
        against that URI, and a schema in it with the same URI comes second. ``is_standard`` is as
        in ``Resource``. Raises what ``add`` raises.
        """
        pointer = f"{uri}#" if uri else ""
        dialect = self._dialect(root, pointer, self._default)
        resource = Resource(uri, root, pointer, dialect, is_standard)
        self._made.append(resource)
        self._read_documents.add(uri)
        if self._resources.setdefault(uri, resource) is not resource:
            self.ambiguous_uris.add(uri)
        if isinstance(root, dict) and not _ref_hides_siblings(root, dialect):
            identifier = root.get(dialect.id_keyword)
            if isinstance(identifier, str):
                here = child_pointer(pointer, dialect.id_keyword)
                resource.uri = _resolve_identifier(uri, identifier, here)
                if self._resources.setdefault(resource.uri, resource) is not resource:
                    self.ambiguous_uris.add(resource.uri)
        if not is_standard:  # metaschemas are shared
            self._document_bytes += self._documents.nbytes(root)
        self.add(root, pointer, resource)
        return resource

    def _dialect(self, schema: Json, pointer: str, outer: Dialect) -> Dialect:
        """Return the dialect that ``$schema`` of a schema names, ``outer`` if it names none."""
        if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
            return self._dialects.find(schema["$schema"], child_pointer(pointer, "$schema"))
        return outer

    def _add_location(self, schema: dict[str, Json], pointer: str, resource: Resource) -> Location:
        """Add a schema object, which may start a new resource, and return its location.

        Raises LimitExceededError past MAX_LOCATIONS. To be called once for each dictionary.
        """
        if len(self.locations) >= MAX_LOCATIONS:
            raise LimitExceededError(
                f"the schema holds more than {MAX_LOCATIONS} subschemas",
                limit=MAX_LOCATIONS,
                pointer=pointer,
            )
        if schema is not resource.root:
            resource = self._inner_resource(schema, pointer, resource)
        location = self.locations[id(schema)] = Location(schema, pointer, resource)
        return location

    def _read_keywords(self, location: Location) -> list[tuple[Json, str, Resource]]:
        """Check the keywords of a schema, and return the schemas in it, with pointers and resource.

        Fills ``location.keywords`` and adds to ``lowering_checks``; to be called once for each
        location. Raises InvalidConstraintError for a keyword of the wrong form.
        """
        schema, pointer, resource = location.schema, location.pointer, location.resource
        dialect, restricting = resource.dialect, location.keywords
        hides_siblings = _ref_hides_siblings(schema, dialect)
        inner: list[tuple[Json, str, Resource]] = []
        for keyword, value in schema.items():
            definition = dialect.keywords.get(keyword)
            if definition is None or (hides_siblings and keyword not in _READ_BESIDE_REF):
                continue
            form = definition.form
            if not form.is_valid(value):
                check_form(keyword, value, form, pointer)
            if definition.role in _ASSERTING_ROLES:
                restricting[keyword] = value
                if keyword in _CHECKED_BEFORE_LOWERING or (
                    keyword == "format" and dialect.asserts_format
                ):
                    self.lowering_checks.append((location, keyword))
            if form.subschemas is not None:
                here = f"{pointer}/{keyword}"
                inner += [
                    (part, self._count_string(here + path), resource)
                    for path, part in form.subschemas(value)
                    if not isinstance(part, bool)
                ]
        return inner

    def _inner_resource(self, schema: dict[str, Json], pointer: str, outer: Resource) -> Resource:
        """Return the resource of a schema inside ``outer``: a new one if it gives itself a URI.

        If several have the same URI, the first keeps it, and the URI is ambiguous from then on.
        """
        if "$id" not in schema and "id" not in schema:
            return outer
        dialect = self._dialect(schema, pointer, outer.dialect)
        identifier = schema.get(dialect.id_keyword)
        if not isinstance(identifier, str) or _ref_hides_siblings(schema, dialect):
            return outer
        uri = _resolve_identifier(outer.uri, identifier, child_pointer(pointer, dialect.id_keyword))
        # A fragment alone is the anchor of old drafts, see ``_record_anchors``. The URI of the
        # resource around it is no second name: references to it would be ambiguous.
        if identifier.startswith("#") or uri == outer.uri:
            return outer
        resource = Resource(self._count_string(uri), schema, pointer, dialect, outer.is_standard)
        self._made.append(resource)
        if self._resources.setdefault(uri, resource) is not resource:
            self.ambiguous_uris.add(uri)
        return resource


def _is_copy(embedded: Json, document: Json) -> bool:
    """Return whether two documents are equal in the sense of JSON, where 1 is not ``true``."""
    if embedded != document:
        return False
    spend(json_nbytes(document) // _NAME_BYTES_PER_UNIT)
    return value_key(embedded) == value_key(document)


def _forget_anchors(resources: list[Resource]) -> None:
    for resource in resources:
        resource.anchors.clear()
        resource.dynamic_anchors.clear()


def resolve_uri(base: str, reference: str, pointer: str) -> tuple[str, str]:
    """Resolve a reference (RFC 3986, section 5); returns the URI and the fragment.

    ``pointer`` is for errors. A fragment alone keeps the base, even one that cannot be parsed as a
    URI. Raises InvalidConstraintError for a reference that is no URI reference.
    """
    if reference.startswith("#"):
        return base, reference[1:]
    spend((len(base) + len(reference)) // _URI_CHARACTERS_PER_UNIT)
    try:
        uri, fragment = urldefrag(urljoin(base, reference) if reference else base)
    except ValueError as error:
        raise InvalidConstraintError(
            f"{reference[:80]!r} is no reference to a URI: {error}", pointer=pointer
        ) from error
    return uri, fragment


def _resolve_identifier(base: str, identifier: str, pointer: str) -> str:
    """Resolve the identifier of a schema; returns its URI without fragment.

    ``base`` is the URI of the resource around it, ``pointer`` is for errors. Raises
    InvalidConstraintError for an identifier whose characters no URI may have.
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
_ASSERTING_ROLES: Final = frozenset({Role.ASSERTION, Role.APPLICATOR})


def _ref_hides_siblings(schema: dict[str, Json], dialect: Dialect) -> bool:
    """Return whether the keywords beside a ``$ref`` of this schema have no effect."""
    return isinstance(schema.get("$ref"), str) and dialect.ref_is_alone


def _record_anchors(location: Location) -> None:
    """Add the anchors of a schema to its resource; to be called once for each location.

    If two schemas of a resource have the same anchor, the first keeps it, and it is ambiguous.
    """
    schema, resource = location.schema, location.resource
    draft = resource.dialect.draft
    if draft <= Draft.DRAFT_7:
        identifier = schema.get(resource.dialect.id_keyword)
        if isinstance(identifier, str) and "#" in identifier and "$ref" not in schema:
            _record_anchor(resource.anchors, identifier.partition("#")[2], location)
        return
    if "$anchor" in schema:
        _record_anchor(resource.anchors, schema["$anchor"], location)
    if draft is Draft.DRAFT_2020_12 and "$dynamicAnchor" in schema:
        _record_anchor(resource.anchors, schema["$dynamicAnchor"], location)
        _record_anchor(resource.dynamic_anchors, schema["$dynamicAnchor"], location)
    if draft is Draft.DRAFT_2019_09 and schema.get("$recursiveAnchor") is True:
        _record_anchor(resource.dynamic_anchors, RECURSIVE_ANCHOR, location)


def _record_anchor(anchors: dict[str, Location], name: str, location: Location) -> None:
    """Add an anchor to ``anchors``, which belong to the resource of the schema."""
    if anchors.setdefault(name, location) is not location:
        location.resource.ambiguous_anchors.add(name)


_READ_BESIDE_REF: Final = frozenset({"$ref", "definitions"})
"""The keywords that are read in a schema whose ``$ref`` hides its siblings; they assert nothing."""
_CHECKED_BEFORE_LOWERING: Final = frozenset(
    (
        *("$ref", "$recursiveRef", "$dynamicRef", "pattern", "patternProperties"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"),
        *("dependencies", "unevaluatedProperties", "unevaluatedItems"),
    )
)
"""The keywords that ``lowering_check.can_be_lowered`` checks; each needs a case there."""
Scope = frozenset[tuple[str, Location]]
"""The dynamic scope: for each dynamic anchor, the schema that references to it are bound to."""


def enter_resource(scope: Scope, resource: Resource) -> Scope:
    """Return the scope inside a resource: its dynamic anchors are added, unless already bound.

    The outermost schema with an anchor stays bound to it. Scopes are compared by value: they are
    part of the key of a node (``Lowering.node``).
    """
    if not resource.dynamic_anchors:
        return scope
    spend(len(resource.dynamic_anchors))
    bound = {name for name, _ in scope}
    found = {item for item in resource.dynamic_anchors.items() if item[0] not in bound}
    return scope | found if found else scope


def resolve_reference(
    index: SchemaIndex, location: Location, keyword: str, bound: Mapping[str, Location]
) -> Location | bool:
    """Resolve a reference keyword of a schema; returns the target, a Boolean if it is one.

    ``bound`` has the schemas of the dynamic scope by their anchors; only dynamic references look in
    it. One that leads to no dynamic anchor by itself is read as ``$ref``. Raises
    InvalidConstraintError for a reference without a target. May read further documents into the
    index.
    """
    reference = location.keywords[keyword]
    here = child_pointer(location.pointer, keyword)
    resource, fragment = _resolve_resource(index, location, reference, here)
    if keyword == "$recursiveRef" and RECURSIVE_ANCHOR in resource.dynamic_anchors:
        return bound.get(RECURSIVE_ANCHOR, resource.dynamic_anchors[RECURSIVE_ANCHOR])
    if fragment and not fragment.startswith("/"):
        if fragment in resource.ambiguous_anchors:
            raise _ambiguous_error(reference, here)
        anchor = resource.anchors.get(fragment)
        if anchor is None:
            raise _unresolved_error(
                reference, f"no schema of {_describe(resource)} is {fragment[:80]!r}", here
            )
        if keyword == "$dynamicRef" and resource.dynamic_anchors.get(fragment) is anchor:
            return bound.get(fragment, anchor)
        return anchor
    return _resolve_pointer(index, resource, fragment, reference, here)


def _resolve_resource(
    index: SchemaIndex, location: Location, reference: str, here: str
) -> tuple[Resource, str]:
    """Return the resource that a reference of a schema leads to, and the fragment, decoded.

    ``here`` is the JSON pointer of the reference, for errors. An ambiguous URI may stand for the
    resource of the schema itself; it and an unknown one otherwise raise InvalidConstraintError.
    """
    uri, fragment = resolve_uri(location.resource.uri, reference, here)
    resource = location.resource if reference.startswith("#") else index.resource(uri)
    if resource is None:
        raise InvalidConstraintError(
            f"the reference {reference[:80]!r} leads to {uri[:200]!r}, "
            "which is not among the documents",
            pointer=here,
            hint="pass it with the schema as a document: nothing is ever fetched",
        )
    if resource is not location.resource and uri in index.ambiguous_uris:
        raise _ambiguous_error(reference, here)
    return resource, unquote(fragment)


def _resolve_pointer(
    index: SchemaIndex, resource: Resource, path: str, reference: str, here: str
) -> Location | bool:
    """Resolve a JSON pointer (RFC 6901, section 4), ``path``, from the root of a resource.

    A schema on the path may start a new resource, which then contains the target. ``reference`` and
    ``here``, its JSON pointer, are for errors: InvalidConstraintError if nothing is there.
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
            raise _unresolved_error(reference, f"{token[:80]!r} is {lacks}", here)
        pointer = child_pointer(pointer, token)
        inner = index.locations.get(id(target))
        if inner is not None:
            resource, pointer = inner.resource, inner.pointer
    if isinstance(target, bool):
        return target
    if id(target) not in index.locations:
        # The value of a keyword that no draft defines: a schema because something refers to it.
        index.add(target, pointer, resource)
    return index.locations[id(target)]


def _is_index(token: str) -> bool:
    """Return whether a token of a JSON pointer is an array index (RFC 6901, section 4)."""
    plain = token.isascii() and token.isdecimal() and len(token) < 10
    return plain and (token == "0" or token[0] != "0")  # noqa: S105 - of a pointer


def _unresolved_error(reference: str, why: str, here: str) -> InvalidConstraintError:
    """Return the error for a reference without a target; ``here`` is its JSON pointer."""
    return InvalidConstraintError(
        f"the reference {reference[:80]!r} names nothing: {why}",
        pointer=here,
        hint="name an '$anchor', or the way from the root of its document, as in '#/$defs/name'",
    )


def _ambiguous_error(reference: str, here: str) -> InvalidConstraintError:
    return InvalidConstraintError(
        f"the reference {reference[:80]!r} names several schemas",
        pointer=here,
        hint="give each of them a name of its own",
    )


def _describe(resource: Resource) -> str:
    return repr(resource.uri[:80]) if resource.uri else "the schema"
