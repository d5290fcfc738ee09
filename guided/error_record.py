"""Errors as plain data, for sending them between processes and over the wire."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields

from guided import errors
from guided.errors import AnswerValidationError, GuidedError, IncompleteAnswerError
from guided.spec.result import DrafterUsage, FinishReason, Usage

__all__ = [
    "BY_DRAFTER",
    "DETAILS_TRAILER",
    "DOMAIN",
    "PUSHBACK_TRAILER",
    "ErrorRecord",
    "bare_message",
    "known_codes",
    "rebuild_error",
    "record_error",
]

DOMAIN = "guided"
"""Domain of the ErrorInfo of every error that the server itself raised."""

DETAILS_TRAILER = "grpc-status-details-bin"
"""Trailing metadata that carries a google.rpc.Status."""

PUSHBACK_TRAILER = "grpc-retry-pushback-ms"
"""Trailing metadata in which a server says how long to wait before a retry; a negative number
forbids it (gRPC A6)."""


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error without its class."""

    code: str
    """Name of the kind of error."""
    message: str
    """What went wrong; the place and the hint are separate fields."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The attributes that are set."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How an error is rebuilt: a constructor, and what it takes besides the message."""

    build: Callable[..., GuidedError]
    texts: tuple[str, ...]
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, error: type[GuidedError]) -> _Kind:
        """Derive it from the annotations of the error's own constructor."""
        taken = inspect.signature(error).parameters.values()
        named = [each for each in taken if each.kind is inspect.Parameter.KEYWORD_ONLY]
        numbers = tuple(each.name for each in named if str(each.annotation).startswith("int"))
        texts = tuple(each.name for each in named if each.name not in numbers)
        return cls(error, texts, numbers)


def _incomplete(
    message: str,
    *,
    text: str,
    finish_reason: str,
    hint: str | None = None,
    by_drafter: str = "[]",
    **counts: int,
) -> IncompleteAnswerError:
    drafters = tuple(DrafterUsage(**each) for each in json.loads(by_drafter))
    return IncompleteAnswerError(
        message,
        text=text,
        finish_reason=FinishReason(finish_reason),
        usage=Usage(**counts, by_drafter=drafters),
        hint=hint,
    )


BY_DRAFTER = "by_drafter"
"""The only field of a usage that is not a number; it is sent as JSON."""
_KINDS: Mapping[str, _Kind] = {
    kind.code: _Kind.of(kind)
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, GuidedError)
    and kind not in (GuidedError, AnswerValidationError, IncompleteAnswerError)
    and "code" in vars(kind)
} | {
    IncompleteAnswerError.code: _Kind(
        _incomplete,
        ("text", "finish_reason", "hint", BY_DRAFTER),
        tuple(count.name for count in fields(Usage) if count.name != BY_DRAFTER),
    )
}


def known_codes() -> frozenset[str]:
    """Return the codes of the errors that can be sent."""
    return frozenset(_KINDS)


def record_error(error: GuidedError) -> ErrorRecord:
    """Turn an error into a record; its code must be one of ``known_codes()``."""
    kind = _KINDS[error.code]
    values = {name: getattr(error, name, None) for name in (*kind.texts, *kind.numbers)}
    if isinstance(error, IncompleteAnswerError):
        values |= {name: count or None for name, count in asdict(error.usage).items()}
        if values[BY_DRAFTER] is not None:
            values[BY_DRAFTER] = json.dumps(values[BY_DRAFTER])
    fields = {name: str(value) for name, value in values.items() if value is not None}
    return ErrorRecord(error.code, bare_message(str(error), fields), fields)


def bare_message(text: str, fields: Mapping[str, str]) -> str:
    """Return the text of an error without what its constructor adds to the message.

    ``at /items: the bounds cross; widen them`` -> ``the bounds cross``; a picture of the place,
    after an empty line, is kept.
    """
    if "pointer" in fields:
        text = text.removeprefix(f"at {fields['pointer'] or 'the root'}: ")
    if "hint" not in fields:
        return text
    hint = f"; {fields['hint']}"
    before, told, picture = text.partition(f"{hint}\n\n")
    return f"{before}\n\n{picture}" if told else text.removesuffix(hint)


def rebuild_error(record: ErrorRecord) -> GuidedError:
    """Rebuild the error that ``record_error`` recorded.

    Fields that a newer version added are ignored; a missing or malformed field that this version
    needs raises ``ValueError``.
    """
    kind = _KINDS.get(record.code)
    if kind is None:
        raise ValueError(f"error code {record.code!r} is none of {sorted(_KINDS)}")
    texts = {name: record.fields[name] for name in kind.texts if name in record.fields}
    numbers = {name: int(record.fields[name]) for name in kind.numbers if name in record.fields}
    try:
        return kind.build(record.message, **texts, **numbers)
    except TypeError as error:
        raise ValueError(f"error record {record!r} lacks a field") from error
