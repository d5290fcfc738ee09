"""All errors of the library, as one tree.

GuidedError
├── RequestError                 the request contradicts itself, its budget or its model
│   ├── ConstraintError          a constraint that cannot be enforced; it names the place
│   │   ├── InvalidConstraintError     the text of the constraint is wrong
│   │   ├── UnsupportedFeatureError    the text is right, but this version cannot enforce it
│   │   └── UnsatisfiableError         no text satisfies the constraint
│   ├── UnknownConstraintError   a stored constraint that the server does not have
│   ├── UnknownModelError        a model that the server does not have
│   └── LimitExceededError       a bound on size, states or budget would be exceeded
├── TokenRejectedError           a token that the constraint does not allow here
├── OutOfMemoryError             no room left in the key/value cache
├── ModelError                   a model or tokenizer that cannot be fetched, read or used
├── IncompleteAnswerError        the answer was cut short, which the request made an error
├── AnswerValidationError        the answer fits its schema, but its Python type refuses it
├── MissingExtraError            a package that is needed is not installed; also an ImportError
└── ServiceError                 the service did not answer
    ├── ServiceUnavailableError        no connection, or a server that is starting or draining
    ├── UnauthenticatedError           the server requires a token and was shown none that it knows
    ├── DeadlineExceededError          the time allowed for the call ran out
    ├── RequestCancelledError          the call was cancelled by its caller
    └── InternalServiceError           a fault of the service itself; carries an incident id

Messages say what is wrong, where, and what to do. Values quoted in a message are attributes as
well.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from guided.spec.result import FinishReason, Usage

__all__ = [
    "AnswerValidationError",
    "ConstraintError",
    "DeadlineExceededError",
    "GuidedError",
    "IncompleteAnswerError",
    "InternalServiceError",
    "InvalidConstraintError",
    "LimitExceededError",
    "MissingExtraError",
    "ModelError",
    "OutOfMemoryError",
    "RequestCancelledError",
    "RequestError",
    "ServiceError",
    "ServiceUnavailableError",
    "TokenRejectedError",
    "UnauthenticatedError",
    "UnknownConstraintError",
    "UnknownModelError",
    "UnsatisfiableError",
    "UnsupportedFeatureError",
    "incident_of",
    "naming",
]

_log: Final = logging.getLogger(__name__)


class GuidedError(Exception):
    """Base of every error raised on purpose; catch it to catch them all."""

    code: ClassVar[str] = "INTERNAL"
    """Stable name of the kind of error, used between processes and over the wire."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        what, empty_line, picture = message.partition("\n\n")
        super().__init__(message if hint is None else f"{what}; {hint}{empty_line}{picture}")
        self.message = message
        self.hint = hint
        """What to do about it, if that is known."""
        self.request_id: str | None = None
        """The id of the failed request in the server's log; ``None`` without one."""


class RequestError(GuidedError):
    """The request contradicts itself, its budget or its model."""

    code = "INVALID_REQUEST"

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        """Path of the wrong field of the request, e.g. ``max_tokens``."""


def _placed(message: str, pointer: str | None) -> str:
    """Prefix a message with its place, unless the place is inside it, after the name of a part."""
    if pointer is None:
        return message
    place = f"at {pointer or 'the root'}: "
    return message if f": {place}" in message else place + message


class ConstraintError(RequestError):
    """A constraint that cannot be enforced; raised before the first token."""

    def __init__(
        self,
        message: str,
        *,
        field: str | None = "constraint",
        pointer: str | None = None,
        position: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(_placed(message, pointer), field=field, hint=hint)
        self.pointer = pointer
        """JSON pointer (RFC 6901) of the schema's keyword, empty for the root."""
        self.position = position
        """Offset in characters inside a pattern or a text, if one is concerned."""


class InvalidConstraintError(ConstraintError):
    """The text of the constraint is wrong: not JSON, not a schema, not a regular expression."""

    code = "INVALID_CONSTRAINT"


class UnsupportedFeatureError(ConstraintError):
    """The constraint is right, but this version cannot enforce it, so it is refused whole."""

    code = "UNSUPPORTED_FEATURE"


class UnsatisfiableError(ConstraintError):
    """No text satisfies the constraint."""

    code = "UNSATISFIABLE"


class UnknownConstraintError(RequestError):
    """The server does not have the stored constraint that a request names; compile it again."""

    code = "UNKNOWN_CONSTRAINT"


class UnknownModelError(RequestError):
    """The server does not have the model that a request names."""

    code = "UNKNOWN_MODEL"


class LimitExceededError(RequestError):
    """A bound on size, states or budget would be exceeded."""

    code = "LIMIT_EXCEEDED"

    def __init__(
        self,
        message: str,
        *,
        limit: int,
        field: str | None = None,
        pointer: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(_placed(message, pointer), field=field, hint=hint)
        self.limit = limit
        self.pointer = pointer


class TokenRejectedError(GuidedError):
    """A token was offered that the constraint does not allow at this position."""

    code = "TOKEN_REJECTED"

    def __init__(self, message: str, *, token: int) -> None:
        super().__init__(message)
        self.token = token


class OutOfMemoryError(GuidedError):
    """The key/value cache has no room for the request now; it may have later."""

    code = "OUT_OF_MEMORY"


class ModelError(GuidedError):
    """A model or tokenizer cannot be fetched, read or used."""

    code = "MODEL"


class IncompleteAnswerError(GuidedError):
    """The answer was cut short, which the request made an error (``on_incomplete="error"``)."""

    code = "INCOMPLETE_ANSWER"

    def __init__(
        self,
        message: str,
        *,
        text: str,
        finish_reason: FinishReason,
        usage: Usage,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.text = text
        """The answer as it was closed; over the wire a long one is cut."""
        self.finish_reason = finish_reason
        self.usage = usage


class AnswerValidationError(GuidedError):
    """The answer fits its schema, but the caller's Python type refuses it."""

    code = "ANSWER_VALIDATION"

    def __init__(
        self, message: str, *, text: str, finish_reason: FinishReason, usage: Usage, reason: str
    ) -> None:
        super().__init__(message)
        self.text = text
        self.finish_reason = finish_reason
        self.usage = usage
        """The cost of all tries."""
        self.reason = reason
        """Why the type refuses the answer."""
        self.tries = 1
        """How often an answer was requested (``max_retries``)."""


class MissingExtraError(GuidedError, ImportError):
    """A needed package is not installed; the message has the command to install it."""

    code = "MISSING_EXTRA"

    def __init__(self, message: str, *, extra: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.extra = extra
        """The distribution's extra that provides it, e.g. ``client``; several with commas."""


class ServiceError(GuidedError):
    """The service did not answer the request."""

    code = "SERVICE"


class ServiceUnavailableError(ServiceError):
    """No connection, or a server that is starting, restarting or draining; try again."""

    code = "UNAVAILABLE"


class UnauthenticatedError(ServiceError):
    """The server requires a token, and the call showed none, or an unknown one."""

    code = "UNAUTHENTICATED"


class DeadlineExceededError(ServiceError):
    """The time allowed for the call ran out."""

    code = "DEADLINE_EXCEEDED"


class RequestCancelledError(ServiceError):
    """The call was cancelled by its caller."""

    code = "CANCELLED"


class InternalServiceError(ServiceError):
    """A fault of the service itself, logged there under the incident id in the message."""

    code = "INTERNAL"


def incident_of(fault: BaseException, failed: str = "the service failed") -> InternalServiceError:
    """Log an unexpected error; the caller gets only the id under which it is logged.

    ``failed`` says what failed. The text of the fault goes only to the log: it may quote a request,
    and an exception that cannot even be printed must not raise another one here.
    """
    incident = secrets.token_hex(6)
    _log.error("%s; incident %s", failed, incident, exc_info=fault)
    error = InternalServiceError(
        f"{failed}; incident {incident}", hint="look for the incident in the server's log"
    )
    error.__cause__ = fault
    return error


@contextmanager
def naming(place: tuple[str, ...], *, field: str | None = None) -> Iterator[None]:
    """Add to errors about a request the part they are in, from the outside in.

    A ``field`` replaces that of the errors.
    """
    try:
        yield
    except RequestError as error:
        if not place:
            raise
        message = f"in {', '.join(place)}: {error.message}"
        field = error.field if field is None else field
        named: RequestError
        match error:
            case LimitExceededError():
                named = LimitExceededError(
                    message,
                    limit=error.limit,
                    field=field,
                    pointer=error.pointer,
                    hint=error.hint,
                )
            case ConstraintError():
                named = type(error)(
                    message,
                    field=field,
                    pointer=error.pointer,
                    position=error.position,
                    hint=error.hint,
                )
            case _:
                named = RequestError(message, field=field, hint=error.hint)
        raise named from error
