"""Every error has its status, and its details fit into the trailers of a call."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

import guided.errors
from guided.client.status import error_of_status
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    ModelError,
    OutOfMemoryError,
    RequestError,
    ServiceUnavailableError,
    UnknownConstraintError,
    UnknownModelError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided_service.admission import OverloadedError
from guided_service.engine_connection import CutOffError
from guided_service.quotas import QuotaExceededError
from guided_service.status import STATUS_CODES, status_code_of, status_of, trailers_of

EXCEEDED = QuotaExceededError(
    "the token of ann has used its requests_per_minute of 5",
    subject="token:ann",
    quota="requests_per_minute of 5",
    hint="try again in 1.5 s",
    retry_after_seconds=1.5,
)


def details(status: status_pb2.Status) -> dict[str, object]:
    found = {}
    for packed in status.details:
        for kind in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.BadRequest,
            error_details_pb2.RetryInfo,
            error_details_pb2.QuotaFailure,
        ):
            message = kind()
            if packed.Unpack(message):
                found[kind.__name__] = message
    return found


def test_every_error_of_the_library_is_in_the_table() -> None:
    kinds = {
        value
        for value in vars(guided.errors).values()
        if isinstance(value, type) and issubclass(value, GuidedError)
    }
    assert set(STATUS_CODES) == kinds | {OverloadedError}


def test_an_error_defined_elsewhere_has_the_status_of_its_nearest_base() -> None:
    class TooManyStatesError(LimitExceededError):
        pass

    error = TooManyStatesError("too many", limit=3)
    assert status_code_of(error) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("error", "code", "names"),
    [
        (RequestError("x", field="prompt"), "INVALID_ARGUMENT", {"ErrorInfo", "BadRequest"}),
        (RequestError("x"), "INVALID_ARGUMENT", {"ErrorInfo"}),
        (InvalidConstraintError("x"), "INVALID_ARGUMENT", {"ErrorInfo", "BadRequest"}),
        (UnsatisfiableError("x"), "INVALID_ARGUMENT", {"ErrorInfo", "BadRequest"}),
        (UnknownConstraintError("x"), "NOT_FOUND", {"ErrorInfo"}),
        (UnknownModelError("x"), "NOT_FOUND", {"ErrorInfo"}),
        (UnsupportedFeatureError("x"), "FAILED_PRECONDITION", {"ErrorInfo", "BadRequest"}),
        (LimitExceededError("x", limit=1), "INVALID_ARGUMENT", {"ErrorInfo"}),
        (ModelError("x"), "FAILED_PRECONDITION", {"ErrorInfo"}),
        (OutOfMemoryError("x"), "RESOURCE_EXHAUSTED", {"ErrorInfo", "RetryInfo"}),
        (OverloadedError("x"), "RESOURCE_EXHAUSTED", {"ErrorInfo", "RetryInfo"}),
        (EXCEEDED, "RESOURCE_EXHAUSTED", {"ErrorInfo", "RetryInfo", "QuotaFailure"}),
        (ServiceUnavailableError("x"), "UNAVAILABLE", {"ErrorInfo", "RetryInfo"}),
        (CutOffError("x"), "UNAVAILABLE", {"ErrorInfo"}),
        (DeadlineExceededError("x"), "DEADLINE_EXCEEDED", {"ErrorInfo"}),
    ],
)
def test_an_error_has_its_status_and_its_details(
    error: GuidedError, code: str, names: set[str]
) -> None:
    status = status_of(error, retry_after_seconds=0.5)
    assert status.code == grpc.StatusCode[code].value[0]
    assert set(details(status)) == names


def test_details_name_the_kind_the_place_and_the_way_out() -> None:
    error = InvalidConstraintError("'x' is no type", pointer="/type", position=2, hint="fix it")
    found = details(status_of(error, retry_after_seconds=0.5))
    info, request = found["ErrorInfo"], found["BadRequest"]
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert isinstance(request, error_details_pb2.BadRequest)
    assert (info.domain, info.reason) == ("guided", "INVALID_CONSTRAINT")
    assert dict(info.metadata) == {
        "field": "constraint",
        "pointer": "/type",
        "position": "2",
        "hint": "fix it",
    }
    assert [violation.field for violation in request.field_violations] == ["constraint"]


def test_an_error_that_may_pass_says_when_to_come_again() -> None:
    status = status_of(OverloadedError("x"), retry_after_seconds=1.25)
    retry = details(status)["RetryInfo"]
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.ToMilliseconds() == 1250
    assert dict(trailers_of(status))["grpc-retry-pushback-ms"] == "1250"


def test_a_quota_that_is_used_up_is_named_with_its_subject() -> None:
    found = details(status_of(EXCEEDED, retry_after_seconds=9))
    failure, retry = found["QuotaFailure"], found["RetryInfo"]
    assert isinstance(failure, error_details_pb2.QuotaFailure)
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert [(each.subject, each.description) for each in failure.violations] == [
        ("token:ann", "requests_per_minute of 5")
    ]
    assert retry.retry_delay.ToMilliseconds() == 1500


def test_what_had_begun_to_run_forbids_the_transport_to_send_it_again() -> None:
    status = status_of(CutOffError("x"), retry_after_seconds=1.25)
    assert dict(trailers_of(status))["grpc-retry-pushback-ms"] == "-1"


def test_an_error_that_stays_does_not_invite_to_come_again() -> None:
    status = status_of(RequestError("x"), retry_after_seconds=1.25)
    assert "grpc-retry-pushback-ms" not in dict(trailers_of(status))


def test_an_error_arrives_as_it_was_raised() -> None:
    error = LimitExceededError("too many", limit=7, pointer="", field="schema", hint="use fewer")
    again = error_of_status(status_of(error, retry_after_seconds=0.5))
    assert type(again) is LimitExceededError
    assert str(again) == str(error)
    assert vars(again) == vars(error)
