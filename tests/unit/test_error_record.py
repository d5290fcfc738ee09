"""Errors survive being encoded and decoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided.errors
from guided.error_record import ErrorRecord, known_codes, rebuild_error, record_error
from guided.errors import (
    AnswerValidationError,
    ConstraintError,
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
    UnknownConstraintError,
    UnknownModelError,
    UnsatisfiableError,
    UnsupportedFeatureError,
    naming,
)
from guided.spec import DrafterUsage, FinishReason, Usage

words = st.text(max_size=20)
messages = words | st.builds("{}\n\n{}".format, words, words)
"""Messages, some with a picture of the place after an empty line."""
hints = st.none() | words
pointers = st.none() | st.sampled_from(["", "/type", "/a; b/c: d"])
positions = st.none() | st.integers(0, 10**6)

errors = st.one_of(
    *(
        st.builds(kind, messages, field=st.none() | words, hint=hints)
        for kind in (RequestError, UnknownConstraintError, UnknownModelError)
    ),
    *(
        st.builds(kind, messages, pointer=pointers, position=positions, hint=hints)
        for kind in (InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError)
    ),
    st.builds(
        LimitExceededError,
        messages,
        limit=st.integers(0, 10**20),
        field=st.none() | words,
        pointer=pointers,
        hint=hints,
    ),
    st.builds(MissingExtraError, messages, extra=words, hint=hints),
    st.builds(
        IncompleteAnswerError,
        messages,
        text=words,
        finish_reason=st.sampled_from(FinishReason),
        usage=st.builds(
            Usage,
            st.integers(0, 2**40),
            sampled_tokens=st.integers(0, 9),
            by_drafter=st.sampled_from([(), (DrafterUsage("a", 7, 5), DrafterUsage("ü"))]),
        ),
        hint=hints,
    ),
    st.builds(TokenRejectedError, messages, token=st.integers(0, 300_000)),
    *(
        st.builds(kind, messages, hint=hints)
        for kind in (
            OutOfMemoryError,
            ModelError,
            ServiceError,
            ServiceUnavailableError,
            DeadlineExceededError,
            RequestCancelledError,
            InternalServiceError,
        )
    ),
)


_NEEDED = {"limit": "1", "token": "1", "extra": "a", "text": "", "finish_reason": "length"}
"""The required details of some kinds of errors."""


@given(errors)
def test_an_error_comes_back_with_its_class_text_and_attributes(error: GuidedError) -> None:
    again = rebuild_error(record_error(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@given(st.sampled_from([InvalidConstraintError, UnsatisfiableError]), words, pointers, hints)
def test_an_error_in_a_part_of_a_constraint_comes_back_as_it_was(
    kind: type[ConstraintError], message: str, pointer: str | None, hint: str | None
) -> None:
    with pytest.raises(kind) as named, naming(("hole 'a'", "item 2")):
        raise kind(message, pointer=pointer, hint=hint)
    again = rebuild_error(record_error(named.value))
    assert str(again) == str(named.value)
    assert vars(again) == vars(named.value)


def test_every_kind_of_error_that_can_leave_an_engine_is_known() -> None:
    kinds = {
        value
        for value in vars(guided.errors).values()
        if isinstance(value, type) and issubclass(value, GuidedError)
    }
    # Two bases that share the code of the class standing for them, and the error that only a
    # client can raise.
    made_elsewhere = {GuidedError, ConstraintError, AnswerValidationError}
    rebuilt = {type(rebuild_error(ErrorRecord(code, "", _NEEDED))) for code in known_codes()}
    assert rebuilt == kinds - made_elsewhere


def test_fields_of_a_newer_version_are_left_out() -> None:
    error = rebuild_error(ErrorRecord("MODEL", "gone", {"hint": "look", "colour": "red"}))
    assert str(error) == "gone; look"


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (ErrorRecord("NEW_KIND", "odd"), "'NEW_KIND' is none of"),
        (ErrorRecord("LIMIT_EXCEEDED", "too much"), "lacks a field"),
        (ErrorRecord("LIMIT_EXCEEDED", "too much", {"limit": "many"}), "'many'"),
    ],
)
def test_a_record_that_names_no_error_is_refused(record: ErrorRecord, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        rebuild_error(record)
