"""What a reference names."""

from __future__ import annotations

from urllib.parse import unquote

from guided.errors import InvalidConstraintError
from guided.json_schema.reader.location import RECURSIVE, Location, Resource
from guided.json_schema.reader.pointers import child
from guided.json_schema.reader.reader import Json
from guided.json_schema.reader.survey import Survey, resolve_uri

__all__ = ["Scope", "enter", "referenced"]

Scope = frozenset[tuple[str, Location]]
"""What the dynamic scope comes to: the schema that each name of a dynamic anchor is bound to."""


def enter(scope: Scope, resource: Resource) -> Scope:
    """The scope inside of a resource: the outermost schema of a name stays bound to it."""
    if not resource.dynamic:
        return scope
    bound = {name for name, _ in scope}
    return scope | {item for item in resource.dynamic.items() if item[0] not in bound}


def referenced(survey: Survey, location: Location, keyword: str, scope: Scope) -> Location | bool:
    """The schema that a reference keyword names, a Boolean where it is one.

    Raises InvalidConstraintError for a reference that names nothing.
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
    """The resource that a reference leads to, and what it names in there."""
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
    """Follow a JSON pointer (RFC 6901, section 4) from the root of a resource."""
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
    """Whether a token of a JSON pointer is an index: no zero in front (RFC 6901, section 4)."""
    plain = token.isascii() and token.isdecimal() and len(token) < 10
    return plain and (token == "0" or token[0] != "0")


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
