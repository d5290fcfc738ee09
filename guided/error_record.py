"""An error as plain data, as it travels between processes and over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields

from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    IncompleteAnswerError,
    InternalServiceError,
    InvalidConstraintError,
    LimitExceededError,
    MissingExtraError,
    ModelError,
    OutOfMemoryError,
    RequestCancelledError,
    RequestError,
    ServiceError,
    ServiceUnavailableError,
    TokenRejectedError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.spec.result import FinishReason, Usage

__all__ = ["ErrorRecord", "bare_message", "known_codes", "rebuild_error", "record_error"]


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """What is left of an error once its class is taken away."""

    code: str
    """Name of the kind of error."""
    message: str
    """What went wrong; the place and the way out are fields."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The attributes that are set."""


@dataclass(frozen=True, slots=True)
class _Kind:
    build: Callable[..., GuidedError]
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def _incomplete(
    message: str, *, text: str, finish_reason: str, hint: str | None = None, **counts: int
) -> IncompleteAnswerError:
    return IncompleteAnswerError(
        message,
        text=text,
        finish_reason=FinishReason(finish_reason),
        usage=Usage(**counts),
        hint=hint,
    )


_COUNTS = tuple(count.name for count in fields(Usage))
_PLACE = _Kind(InvalidConstraintError, ("pointer", "hint"), ("position",))

_KINDS: Mapping[str, _Kind] = {
    RequestError.code: _Kind(RequestError, ("field", "hint")),
    InvalidConstraintError.code: _PLACE,
    UnsupportedFeatureError.code: _Kind(UnsupportedFeatureError, _PLACE.texts, _PLACE.numbers),
    UnsatisfiableError.code: _Kind(UnsatisfiableError, _PLACE.texts, _PLACE.numbers),
    LimitExceededError.code: _Kind(LimitExceededError, ("field", "pointer", "hint"), ("limit",)),
    TokenRejectedError.code: _Kind(TokenRejectedError, (), ("token",)),
    IncompleteAnswerError.code: _Kind(_incomplete, ("text", "finish_reason", "hint"), _COUNTS),
    OutOfMemoryError.code: _Kind(OutOfMemoryError, ("hint",)),
    ModelError.code: _Kind(ModelError, ("hint",)),
    MissingExtraError.code: _Kind(MissingExtraError, ("extra", "hint")),
    ServiceError.code: _Kind(ServiceError, ("hint",)),
    ServiceUnavailableError.code: _Kind(ServiceUnavailableError, ("hint",)),
    DeadlineExceededError.code: _Kind(DeadlineExceededError, ("hint",)),
    RequestCancelledError.code: _Kind(RequestCancelledError, ("hint",)),
    InternalServiceError.code: _Kind(InternalServiceError, ("hint",)),
}


def known_codes() -> frozenset[str]:
    """Codes of the errors that can travel."""
    return frozenset(_KINDS)


def record_error(error: GuidedError) -> ErrorRecord:
    """Take an error apart; its code must be one of ``known_codes()``."""
    kind = _KINDS[error.code]
    values = {name: getattr(error, name, None) for name in (*kind.texts, *kind.numbers)}
    if isinstance(error, IncompleteAnswerError):
        values |= {name: count or None for name, count in asdict(error.usage).items()}
    fields = {name: str(value) for name, value in values.items() if value is not None}
    return ErrorRecord(error.code, bare_message(str(error), fields), fields)


def bare_message(text: str, fields: Mapping[str, str]) -> str:
    """The text of an error without what its constructor writes around the message.

    ``at /items: the bounds cross; widen them`` -> ``the bounds cross``
    """
    if "pointer" in fields:
        text = text.removeprefix(f"at {fields['pointer'] or 'the root'}: ")
    return text.removesuffix(f"; {fields['hint']}") if "hint" in fields else text


def rebuild_error(record: ErrorRecord) -> GuidedError:
    """Make the error again that ``record_error`` took apart.

    Fields that a newer version added are left out; a field that this version cannot do without
    and that is missing or malformed raises ``ValueError``.
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
