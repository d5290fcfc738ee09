"""Messages that ask for nothing possible are refused with what is wrong."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration

from guided.errors import InvalidConstraintError, LimitExceededError, RequestError
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request
from tests.service.test_wire_format import in_parts


def test_a_deadline_that_is_wrong_is_refused_beside_a_later_one() -> None:
    message = pb.GenerateRequest(text="x", deadline=Duration(seconds=-1))
    with pytest.raises(RequestError, match=r"deadline -1\.0 is not above 0"):
        decode_request(message, latest_seconds=3.0)


def test_a_stored_constraint_is_no_part_of_another() -> None:
    parts = pb.ConstraintList(parts=[pb.Constraint(constraint_id="regex:0")])
    message = pb.GenerateRequest(text="x", constraint=pb.Constraint(sequence=parts))
    with pytest.raises(InvalidConstraintError, match="in part 1: a stored constraint stands for a"):
        decode_request(message)


def test_options_of_json_go_with_a_schema_only() -> None:
    grammar = pb.LarkGrammar(text='start: "a"')
    constraint = pb.Constraint(lark=grammar, json_options=pb.JsonOptions())
    with pytest.raises(RequestError, match="json_options and documents do not go with lark"):
        decode_request(pb.GenerateRequest(text="x", constraint=constraint))


@pytest.mark.parametrize(
    ("tool", "field", "told"),
    [
        (
            pb.Tool(name="c", input=pb.Constraint()),
            "tools.c.input",
            r"in tools\.c\.input: the constraint says nothing",
        ),
        (
            pb.Tool(name="c", input=pb.Constraint(json_schema="{}")),
            "tools",
            "the input of the tool c is JsonSchema",
        ),
        (
            pb.Tool(name="c", parameters="{}", input=pb.Constraint(regex=pb.RegexPattern())),
            "tools",
            "both parameters and an input",
        ),
    ],
)
def test_the_input_of_a_tool_is_a_grammar(tool: pb.Tool, field: str, told: str) -> None:
    message = pb.GenerateRequest(text="x", tools=pb.ToolUse(tools=[tool]))
    with pytest.raises(RequestError, match=told) as caught:
        decode_request(message)
    assert caught.value.field == field


def with_options(options: pb.JsonOptions, *uris: str) -> pb.GenerateRequest:
    documents = [pb.SchemaDocument(uri=uri, text="{}") for uri in uris]
    constraint = pb.Constraint(json_schema="{}", json_options=options, documents=documents)
    return pb.GenerateRequest(text="x", constraint=constraint)


def faulty_text() -> pb.Constraint:
    return pb.Constraint(text="a", documents=[pb.SchemaDocument(uri="urn:a", text="{}")])


def nested_fault() -> pb.Constraint:
    """A choice of nothing, deep inside of a constraint."""
    empty = pb.Constraint(choice=pb.TextChoice())
    repeat = pb.Constraint(repeat=pb.Repetition(part=empty))
    tagged = pb.Constraint(tagged=pb.Tagged(tags=[pb.Tag(begin="<t>", body=repeat)]))
    holes = [pb.NamedConstraint(name="a", constraint=tagged)]
    template = pb.Constraint(template=pb.Template(text="{a}", holes=holes))
    parts = [pb.Constraint(text="a"), template]
    return pb.Constraint(sequence=pb.ConstraintList(parts=parts))


def newer_request() -> pb.GenerateRequest:
    """A request with a field 100, which no version has, inside its constraint."""
    newer = b"\x0a\x00" + b"\xa0\x06\x01"
    return pb.GenerateRequest.FromString(b"\x0a\x01x" + b"\x1a\x05" + newer)


@pytest.mark.parametrize(
    ("message", "kind", "complaint"),
    [
        (pb.GenerateRequest(), RequestError, "the prompt is empty"),
        (pb.GenerateRequest(messages=pb.Messages()), RequestError, "the prompt is empty"),
        (
            pb.GenerateRequest(messages=pb.Messages(messages=[pb.Message(role="robot")])),
            RequestError,
            "role 'robot' is none of 'system', 'developer', 'user', 'assistant', 'tool'",
        ),
        (
            pb.GenerateRequest(
                messages=pb.Messages(messages=[pb.Message(role="user", reasoning="Hm.")])
            ),
            RequestError,
            "a message of role 'user' has reasoning, which only the assistant has",
        ),
        (
            in_parts("a", pb.ContentPart(text="b")),
            RequestError,
            "message 0 has both content and parts; send one of them",
        ),
        (
            in_parts("", pb.ContentPart(text="a"), pb.ContentPart()),
            RequestError,
            "part 1 of message 0 says nothing; set its text, or leave it out",
        ),
        (
            # A part of a kind that no version has.
            in_parts("", pb.ContentPart.FromString(b"\x12\x01a")),
            RequestError,
            "field number 2 of guided.v1.ContentPart is unknown to this server; "
            "use a client of the server's version",
        ),
        (pb.GenerateRequest(text="x", max_tokens=0), RequestError, "max_tokens 0 is below 1"),
        (
            pb.GenerateRequest(text="x", constraint=pb.Constraint()),
            InvalidConstraintError,
            "the constraint says nothing; set one of json_schema, lark, regex, ebnf, choice, "
            "text, sequence, any_of, repeat, template, free_text, until, tagged, "
            "constraint_id, special_token, "
            "or leave the constraint out",
        ),
        (
            pb.GenerateRequest(text="x", constraint=nested_fault()),
            InvalidConstraintError,
            "in part 2, hole 'a', tag '<t>', the repeated part: there are no options to choose "
            "from",
        ),
        (
            pb.GenerateRequest(
                text="x",
                constraint=pb.Constraint(any_of=pb.ConstraintList(parts=[faulty_text()])),
            ),
            RequestError,
            "in alternative 1: json_options and documents do not go with text",
        ),
        (
            pb.GenerateRequest(text="x", forcing=9),  # type: ignore[arg-type]
            RequestError,
            "forcing 9 is none of FORCING_UNSPECIFIED, FORCING_OFF, FORCING_STRICT, "
            "FORCING_CANONICAL",
        ),
        (
            with_options(pb.JsonOptions(whitespace=pb.Bound(at_most=-1))),
            RequestError,
            "whitespace -1 is below 0",
        ),
        (
            with_options(pb.JsonOptions(max_string_length=pb.Bound(at_most=0))),
            RequestError,
            "max_string_length 0 is below 1",
        ),
        (
            with_options(pb.JsonOptions(key_order=9)),  # type: ignore[arg-type]
            RequestError,
            "key_order 9 is none of KEY_ORDER_UNSPECIFIED, KEY_ORDER_SCHEMA, KEY_ORDER_ANY",
        ),
        (
            with_options(pb.JsonOptions(), "urn:a", "urn:a"),
            InvalidConstraintError,
            "two documents are given for the URI 'urn:a'",
        ),
        (
            pb.GenerateRequest(text="x", sampling=pb.Sampling(min_p=0)),
            RequestError,
            "min_p 0.0 is not above 0 and at most 1",
        ),
        (
            pb.GenerateRequest(
                text="x", sampling=pb.Sampling(logit_bias=[pb.LogitBias(token=1)] * 2)
            ),
            RequestError,
            "logit_bias names token 1 twice",
        ),
        (
            pb.GenerateRequest(text="x", priority=101),
            RequestError,
            "priority 101 is not between -100 and 100",
        ),
        (
            pb.GenerateRequest(text="x", deadline=Duration()),
            RequestError,
            "deadline 0.0 is not above 0 and at most 86400",
        ),
        (
            pb.GenerateRequest(text="x", on_incomplete=9),  # type: ignore[arg-type]
            RequestError,
            "on_incomplete 9 is none of ON_INCOMPLETE_UNSPECIFIED, ON_INCOMPLETE_CLOSE, "
            "ON_INCOMPLETE_ERROR",
        ),
        (
            pb.GenerateRequest(text="x", cache_salt="é" * 129),
            LimitExceededError,
            "cache_salt has more than 256 bytes; pass a hash of it",
        ),
        (pb.GenerateRequest(text="x", n=0), RequestError, "n 0 is below 1"),
        (pb.GenerateRequest(text="x", beams=pb.Beams()), RequestError, "width 0 is below 1"),
        (pb.GenerateRequest(text="x", stop=[""]), RequestError, "a stop string is empty"),
        (
            newer_request(),
            RequestError,
            "field number 100 of guided.v1.Constraint is unknown to this server; "
            "use a client of the server's version",
        ),
        (
            # An older client that requests a parse like that of Lark's scanner: reading = 2.
            pb.GenerateRequest(
                text="x",
                constraint=pb.Constraint(lark=pb.LarkGrammar.FromString(b"\x28\x02")),
            ),
            RequestError,
            "field number 5 of guided.v1.LarkGrammar is unknown to this server; "
            "use a client of the server's version",
        ),
    ],
)
def test_a_message_that_asks_for_nothing_possible_is_refused(
    message: pb.GenerateRequest, kind: type[RequestError], complaint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        decode_request(message)
    assert type(caught.value) is kind
    assert str(caught.value) == complaint
