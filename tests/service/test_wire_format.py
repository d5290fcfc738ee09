"""Requests and results are the same on both sides of the wire."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guided.client.decode import decode_answer, decode_prompt_tokens, decode_stats
from guided.spec import (
    MAX_NESTING,
    Alternative,
    Beams,
    CandidateResult,
    Choice,
    DrafterUsage,
    Ebnf,
    FinishReason,
    Forcing,
    FormatMode,
    GenerationRequest,
    GenerationResult,
    JsonOptions,
    JsonSchema,
    KeyOrder,
    Lark,
    Message,
    OnIncomplete,
    PromptTokens,
    Rank,
    Reasoning,
    Regex,
    Sampling,
    Spelling,
    Stored,
    Structure,
    Timing,
    TokenId,
    TokenLogprobs,
    UnknownKeywords,
    Usage,
    Verification,
)
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.spec.constraint_kind import ConstraintKind
from guided.spec.json_options import MAX_DIGITS
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import FreeText, Tag, Tagged, Until
from guided.stats import (
    CacheStats,
    CompileOutcome,
    ConstraintStats,
    EngineStats,
    Histogram,
    Phase,
)
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request, encode_request
from guided_service.encode import encode_prompt_tokens, encode_result, encode_stats
from guided_service.messages import (
    Answered,
    Found,
    HasRequest,
    Report,
    Submit,
    Tokenize,
    read_from_engine,
    read_prompt_tokens,
    read_to_engine,
    write,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, 2**31 - 1)
samplings = st.builds(
    Sampling,
    temperature=st.floats(0, 100),
    top_k=st.none() | st.integers(1, 2**31 - 1),
    top_p=st.none() | st.floats(0, 1, exclude_min=True),
    seed=st.none() | st.integers(0, 2**63 - 1),
    min_p=st.none() | st.floats(0, 1, exclude_min=True),
    typical_p=st.none() | st.floats(0, 1, exclude_min=True),
    epsilon_cutoff=st.none() | st.floats(0, 1, exclude_min=True, exclude_max=True),
    eta_cutoff=st.none() | st.floats(0, 1, exclude_min=True, exclude_max=True),
    repetition_penalty=st.floats(0.01, 100),
    presence_penalty=st.floats(-2, 2),
    frequency_penalty=st.floats(-2, 2),
    no_repeat_ngram_size=st.none() | st.integers(1, 2**31 - 1),
    logit_bias=st.dictionaries(counts, st.floats(-100, 100), max_size=3).map(
        lambda biases: tuple(biases.items())
    ),
) | st.builds(
    Sampling,
    top_k=st.integers(1, 2**31 - 1),
    penalty_alpha=st.floats(0, 1),
    frequency_penalty=st.floats(-2, 2),
)
token_ids = counts.map(TokenId)
stops = st.fixed_dictionaries(
    {
        "stop": st.lists(text.filter(bool), min_size=1, max_size=3).map(tuple),
        "stop_tokens": st.lists(token_ids, max_size=3).map(tuple),
        "include_stop": st.booleans(),
        "stop_after": st.none() | st.integers(0, 2**31 - 1),
    }
)
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant"]), text) | st.builds(
    Message, st.just("assistant"), text, reasoning=text
)
conversations = st.lists(messages, min_size=1, max_size=3).map(tuple)
bounds = st.none() | st.integers(1, 2**31 - 1)
json_options = st.builds(
    JsonOptions,
    whitespace=bounds | st.just(0),
    key_order=st.sampled_from(KeyOrder),
    format=st.sampled_from(FormatMode),
    spelling=st.sampled_from(Spelling),
    max_string_length=bounds,
    max_number_digits=st.none() | st.integers(1, MAX_DIGITS),
    unknown_keywords=st.sampled_from(UnknownKeywords),
    max_array_items=st.none() | st.integers(1, 2**31 - 1),
    max_additional_members=st.none() | st.integers(1, 2**31 - 1),
)
documents = st.dictionaries(text, text, max_size=3).map(lambda named: tuple(named.items()))
constraints = st.builds(JsonSchema, text, json_options | st.just(JsonOptions()), documents)
requests = (
    st.builds(
        GenerationRequest,
        prompt=conversations | text.filter(bool),
        constraint=st.none() | constraints,
        max_tokens=st.none() | st.integers(1, 2**31 - 1),
        default_max_tokens=st.integers(1, 2**31 - 1),
        sampling=samplings,
        forcing=st.sampled_from(Forcing),
        top_logprobs=st.none() | st.integers(0, 20),
        priority=st.integers(-100, 100),
        deadline=st.none() | st.integers(1, 86_400_000_000).map(lambda micros: micros / 1e6),
        cache_salt=text,
        on_incomplete=st.sampled_from(OnIncomplete),
        drafters=st.lists(st.sampled_from(["lookup", "draft", "x"]), max_size=3).map(tuple),
    )
    | st.builds(
        GenerationRequest, prompt=conversations, constraint=constraints, show_schema=st.just(True)
    )
    | st.builds(
        GenerationRequest,
        prompt=conversations.map(lambda turns: (*turns, Message("assistant", "So"))),
        constraint=st.none() | constraints,
        continue_final_message=st.just(True),
        heal=st.none() | st.booleans(),
    )
    | st.builds(GenerationRequest, prompt=text.filter(bool), heal=st.none() | st.booleans())
)
beams = st.builds(
    Beams, st.integers(7, 2**31 - 1), st.floats(-10, 10), early_stopping=st.booleans()
)
warm = samplings.filter(lambda sampling: sampling.temperature > 0)
several = (
    st.builds(GenerationRequest, prompt=text.filter(bool), sampling=warm, n=st.integers(1, 7))
    | st.builds(
        GenerationRequest,
        prompt=text.filter(bool),
        sampling=warm,
        n=st.integers(1, 7),
        best_of=st.integers(7, 2**31 - 1),
        rank=st.sampled_from(Rank),
    )
    | st.builds(GenerationRequest, prompt=text.filter(bool), n=st.integers(1, 7), beams=beams)
    | st.builds(
        GenerationRequest, prompt=text.filter(bool), verification=st.sampled_from(Verification)
    )
)
stopping = st.builds(lambda options: GenerationRequest("x", **options), stops)
logarithms = st.floats(max_value=0)
alternatives = st.builds(
    Alternative, token=token_ids, text=st.binary(max_size=4), raw=logarithms, masked=logarithms
)
logprobs = st.builds(
    TokenLogprobs,
    token=token_ids,
    text=st.binary(max_size=4),
    raw=logarithms,
    masked=logarithms,
    top=st.lists(alternatives, max_size=3).map(tuple),
) | st.builds(TokenLogprobs, token=token_ids, text=st.binary(), raw=st.none(), masked=st.none())
times = st.integers(0, 10**9).map(lambda micros: micros / 1e6)
timings = st.builds(
    Timing,
    compiling_seconds=times,
    waiting_seconds=times,
    first_token_seconds=st.none() | times,
    mean_inter_token_seconds=st.none() | times,
    max_inter_token_seconds=st.none() | times,
)


def usages_of(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Usage]:
    drafters = st.builds(DrafterUsage, st.sampled_from(["a", "b", "c"]), *[numbers] * 6)
    by_drafter = st.lists(drafters, max_size=3, unique_by=lambda one: one.name).map(tuple)
    return st.builds(Usage, *[numbers] * 11, by_drafter, numbers, numbers)


usages = usages_of(counts)
candidates = st.builds(
    CandidateResult,
    index=counts,
    text=text,
    tokens=st.lists(token_ids, max_size=3).map(tuple),
    finish_reason=st.sampled_from(FinishReason),
    score=st.floats(max_value=0),
    logprobs=st.lists(logprobs, max_size=2).map(tuple),
    stop_string=text,
)
results = st.builds(
    GenerationResult,
    text=text,
    tokens=st.lists(st.integers(0, 300_000).map(TokenId), max_size=3).map(tuple),
    finish_reason=st.sampled_from(FinishReason),
    usage=usages,
    seconds=times,
    logprobs=st.lists(logprobs, max_size=3).map(tuple),
    timing=timings,
    verification=st.sampled_from(Verification),
    candidates=st.lists(candidates, max_size=3).map(tuple),
    stop_string=text,
)
totals = st.integers(0, 2**62)
histograms = st.lists(totals, min_size=3, max_size=3).map(
    lambda found: Histogram((0.1, 2.0), tuple(found), 0.5)
)
constraint_stats = st.dictionaries(
    st.sampled_from(CompileOutcome), st.tuples(totals, times)
).flatmap(
    lambda ended: st.builds(
        ConstraintStats,
        hits=totals,
        refusal_hits=totals,
        compilations=st.just({outcome: count for outcome, (count, _) in ended.items()}),
        compile_seconds=st.just({outcome: seconds for outcome, (_, seconds) in ended.items()}),
        kept=totals,
        kept_bytes=totals,
        kept_refusals=totals,
        mask_hits=totals,
        masks=histograms,
        mask_bytes=totals,
    )
)
all_stats = st.builds(
    EngineStats,
    seconds=times,
    running=totals,
    waiting=totals,
    usage=usages_of(totals),
    model_calls=totals,
    cache=st.builds(CacheStats, counts, *[totals] * 5),
    phases=st.fixed_dictionaries(dict.fromkeys(Phase, times)),
    compiling=histograms,
    queueing=histograms,
    first_token=histograms,
    inter_token=histograms,
    answering=histograms,
    answered=st.dictionaries(st.sampled_from(FinishReason), totals),
    failed=totals,
    cancelled=totals,
    refused=totals,
    preempted=totals,
    in_flight=totals,
    queued=totals,
    constraints=constraint_stats,
    submitted=st.dictionaries(st.sampled_from(ConstraintKind), totals),
)


@given(requests | stopping | several)
@example(GenerationRequest("x", deadline=1.382286))
def test_the_server_reads_the_request_that_the_client_wrote(request: GenerationRequest) -> None:
    payload = encode_request(request).SerializeToString()
    assert decode_request(pb.GenerateRequest.FromString(payload)) == request


@given(requests | stopping | several)
def test_the_engine_reads_the_request_that_the_server_wrote(request: GenerationRequest) -> None:
    for asked in (
        Submit.of("1", request, received=0.5, stream=True),
        Tokenize.of("1", request, received=0.5, texts=True),
    ):
        arrived = read_to_engine(write(asked))
        assert arrived == asked
        assert isinstance(arrived, HasRequest)
        assert arrived.request() == request


@given(results)
def test_the_client_reads_the_answer_that_the_engine_wrote(result: GenerationResult) -> None:
    arrived = read_from_engine(write(Answered("1", result)))
    assert arrived == Answered("1", result)
    answer = decode_answer(encode_result(result))
    assert (answer.text, answer.finish_reason, answer.usage, answer.logprobs) == (
        result.text,
        result.finish_reason,
        result.usage,
        result.logprobs,
    )
    assert answer.seconds == pytest.approx(result.seconds, abs=1e-6)
    assert [
        (one.index, one.text, one.num_tokens, one.finish_reason, one.score, one.logprobs)
        for one in answer.candidates
    ] == [
        (one.index, one.text, len(one.tokens), one.finish_reason, one.score, one.logprobs)
        for one in result.candidates
    ]
    assert answer.verification is result.verification
    assert times_of(answer.timing) == pytest.approx(times_of(result.timing), abs=1e-6)


@given(st.lists(st.tuples(token_ids, st.binary(max_size=3))), st.booleans())
def test_the_client_reads_the_tokens_that_the_engine_found(
    found: list[tuple[TokenId, bytes]], has_texts: bool
) -> None:
    tokens = tuple(token for token, _ in found)
    written = PromptTokens(tokens, tuple(text for _, text in found) if has_texts else ())
    arrived = read_from_engine(write(Found.of("1", written)))
    assert isinstance(arrived, Found)
    assert read_prompt_tokens(arrived.finding) == written
    assert decode_prompt_tokens(encode_prompt_tokens(written)) == written


def times_of(timing: Timing) -> dict[str, float]:
    """The known times."""
    return {name: seconds for name, seconds in asdict(timing).items() if seconds is not None}


@given(all_stats)
def test_the_client_reads_what_the_engine_counted(stats: EngineStats) -> None:
    assert read_from_engine(write(Report(stats))) == Report(stats)
    decoded = decode_stats(encode_stats(stats))
    assert decoded.phases == pytest.approx(stats.phases, abs=1e-6)
    assert decoded.seconds == pytest.approx(stats.seconds, abs=1e-6)
    constraints = stats.constraints
    took = decoded.constraints.compile_seconds
    assert took == pytest.approx(constraints.compile_seconds, abs=1e-6)
    exact = replace(decoded.constraints, compile_seconds=constraints.compile_seconds)
    assert replace(decoded, phases=stats.phases, seconds=stats.seconds, constraints=exact) == stats


@given(all_stats, all_stats)
def test_a_snapshot_less_an_earlier_one_leaves_what_came_after(
    stats: EngineStats, earlier: EngineStats
) -> None:
    assert stats.since(earlier).usage.prompt_tokens == (
        stats.usage.prompt_tokens - earlier.usage.prompt_tokens
    )
    nothing = stats.since(stats)
    assert (nothing.ended, nothing.step_seconds, nothing.usage) == (0, 0.0, Usage())
    assert (nothing.first_token.count, nothing.cache.held_slots) == (0, 0)
    assert (nothing.constraints.misses, nothing.constraints.hits) == (0, 0)
    assert nothing.constraints.kept == stats.constraints.kept
    assert (nothing.running, nothing.cache.held) == (stats.running, stats.cache.held)


def test_what_a_message_leaves_out_has_its_documented_default() -> None:
    assert decode_request(pb.GenerateRequest(text="x")) == GenerationRequest("x")


def test_a_constraint_of_a_client_that_knows_no_options_has_the_defaults() -> None:
    message = pb.GenerateRequest(text="x", constraint=pb.Constraint(json_schema="{}"))
    assert decode_request(message).constraint == JsonSchema("{}")


def test_an_empty_message_of_options_has_the_defaults_of_python() -> None:
    constraint = pb.Constraint(json_schema="{}", json_options=pb.JsonOptions())
    decoded = decode_request(pb.GenerateRequest(text="x", constraint=constraint))
    assert decoded.constraint == JsonSchema("{}", JsonOptions())


def test_default_options_are_not_sent_so_that_older_servers_take_the_request() -> None:
    request = GenerationRequest("x", JsonSchema("{}", JsonOptions(whitespace="compact")))
    assert encode_request(request).constraint == pb.Constraint(json_schema="{}")


def test_default_sampling_is_not_sent_and_a_zero_is() -> None:
    request = GenerationRequest("x", sampling=Sampling(seed=0), top_logprobs=0)
    message = encode_request(request)
    assert message.sampling == pb.Sampling(seed=0)
    assert message.HasField("top_logprobs")
    assert not encode_request(GenerationRequest("x")).HasField("top_logprobs")


def test_one_plain_answer_asks_for_no_candidates_so_that_older_servers_take_the_request() -> None:
    message = encode_request(GenerationRequest("x"))
    assert not any(message.HasField(name) for name in ("n", "best_of", "beams"))


def test_beams_of_a_client_that_says_nothing_else_have_the_defaults() -> None:
    message = pb.GenerateRequest(text="x", beams=pb.Beams(width=3))
    assert decode_request(message).beams == Beams(3)


def test_a_bound_without_a_number_is_lifted_and_an_absent_one_is_not() -> None:
    lifted = pb.JsonOptions(whitespace=pb.Bound(), max_number_digits=pb.Bound(at_most=7))
    constraint = pb.Constraint(json_schema="{}", json_options=lifted)
    decoded = decode_request(pb.GenerateRequest(text="x", constraint=constraint)).constraint
    assert decoded == JsonSchema("{}", JsonOptions(whitespace=None, max_number_digits=7))


def _nested(depth: int) -> Structure:
    constraint: Structure = Text("a")
    for _ in range(depth - 1):
        constraint = Template("{a}", a=constraint)
    return constraint


@pytest.mark.parametrize(
    "constraint",
    [
        Lark('start: "a"'),
        Lark("%import b.C\nbegin: C", "begin", (("b", 'C: "c"'), ("d", ""))),
        Lark("start: %json {}", json_options=JsonOptions(whitespace=3, key_order="any")),
        Regex("a+"),
        Ebnf('root ::= "a"'),
        Ebnf('a ::= "a"', "a"),
        Choice(["a", ""]),
        Regex(r"\p{L}", "ecma"),
        Text("a\u00e9"),
        Sequence([]),
        AnyOf(["a", Sequence([JsonSchema("{}", JsonOptions(whitespace=3)), Regex("b")])]),
        Repeat(Choice(["c"]), 2),
        Repeat(JsonSchema("true"), 0, 1),
        Template("{{{b}}} {a}", a=JsonSchema("{}"), b=Template("{c}", c="d")),
        Lark("%declare A\nstart: A", holes={"A": JsonSchema("{}")}),
        FreeText(),
        FreeText(["a", "b"]),
        Until("</think>"),
        Sequence([SpecialToken("<|python_tag|>"), JsonSchema("{}")]),
        Tagged([Tag("<a>", JsonSchema("{}"), "</a>"), Tag("<b>", "x")], "<", "required"),
        Tagged(
            [Tag("<a>", Sequence(["x", Tagged([Tag("b", "c")])]))], calls="none", parallel=False
        ),
        _nested(MAX_NESTING),
        Stored("regex:0"),
    ],
)
def test_grammars_and_patterns_arrive_as_they_were_sent(constraint: Structure) -> None:
    request = GenerationRequest("x", constraint)
    assert decode_request(encode_request(request)) == request
    arrived = read_to_engine(write(Submit.of("1", request, received=0.5, stream=False)))
    assert isinstance(arrived, Submit)
    assert arrived.request() == request


@pytest.mark.parametrize(
    "reasoning",
    [None, Reasoning(), Reasoning(0), Reasoning(9, end="So"), Reasoning(None, "<t>", "</t>\n")],
)
def test_thoughts_are_asked_for_as_they_were(reasoning: Reasoning | None) -> None:
    request = GenerationRequest("x", JsonSchema("{}"), reasoning=reasoning)
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    ("own", "latest", "deadline"),
    [(None, None, None), (None, 3.0, 3.0), (2.0, 3.0, 2.0), (4.0, 3.0, 3.0), (4.0, None, 4.0)],
)
def test_the_earlier_deadline_counts(
    own: float | None, latest: float | None, deadline: float | None
) -> None:
    message = encode_request(GenerationRequest("x", deadline=own))
    assert decode_request(message, latest_seconds=latest).deadline == deadline


def in_parts(content: str, *parts: pb.ContentPart) -> pb.GenerateRequest:
    """A conversation of one turn, whose content comes in parts."""
    turn = pb.Message(role="user", content=content, parts=parts)
    return pb.GenerateRequest(messages=pb.Messages(messages=[turn]))


def test_thoughts_of_a_turn_arrive_and_none_are_not_sent() -> None:
    turn = pb.Message(role="assistant", parts=[pb.ContentPart(text="So.")], reasoning="Hm.")
    message = pb.GenerateRequest(messages=pb.Messages(messages=[turn]))
    assert decode_request(message).prompt == (Message("assistant", "So.", reasoning="Hm."),)
    plain = encode_request(GenerationRequest((Message("assistant", "So."),)))
    assert plain.messages.messages == [pb.Message(role="assistant", content="So.")]


def test_parts_of_a_content_are_joined() -> None:
    message = in_parts("", pb.ContentPart(text="Two "), pb.ContentPart(text=""))
    message.messages.messages[0].parts.add(text="halves.")
    assert decode_request(message).prompt == (Message("user", "Two halves."),)
