"""The display of `guided top` for two moments of an engine."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from guided.cli.top import History
from guided.cli.top_view import view
from guided.spec import DrafterUsage, FinishReason, Usage
from guided.stats import CacheStats, EngineStats, Histogram, ModelInfo, Phase

MODEL = ModelInfo("small", 2048, 49152, ("lookup", "suffix"), "AVX2")
NO_TIMES = Histogram((1.0,), (0, 0))
START = EngineStats(
    seconds=100.0,
    running=0,
    waiting=0,
    usage=Usage(),
    model_calls=0,
    cache=CacheStats(8, 100, 0, 0),
    phases=dict.fromkeys(Phase, 0.0),
    compiling=NO_TIMES,
    queueing=NO_TIMES,
    first_token=NO_TIMES,
    inter_token=NO_TIMES,
    answering=NO_TIMES,
)
LATER = replace(
    START,
    seconds=110.0,
    running=3,
    waiting=2,
    in_flight=5,
    queued=7,
    usage=Usage(
        prompt_tokens=400,
        reused_tokens=100,
        sampled_tokens=150,
        forced_tokens=50,
        drafted_tokens=80,
        accepted_tokens=60,
        drafted_calls=30,
        by_drafter=(
            DrafterUsage("lookup", 60, 54, 20, draft_nanoseconds=100_000_000),
            DrafterUsage("suffix", 20, 6, 10),
        ),
    ),
    model_calls=100,
    cache=CacheStats(8, 20, 50, 30),
    phases=dict.fromkeys(Phase, 0.0)
    | {Phase.FORWARD: 6.0, Phase.SETTLE: 1.0, Phase.DRAFT: 0.5, Phase.ADMIT: 0.1, Phase.TAKE: 0.4},
    first_token=Histogram((1.0,), (4, 0), 0.5),
    answering=Histogram((1.0,), (0, 4), 10.0),
    answered={FinishReason.COMPLETE: 3, FinishReason.LENGTH: 1},
    refused=2,
)


def shown(earlier: EngineStats, now: EngineStats) -> list[str]:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    with console.capture() as printed:
        console.print(view(MODEL, "localhost:50051", earlier, now))
    return [" ".join(line.strip("│ ").split()) for line in printed.get().splitlines()]


def test_a_frame_has_rates_shares_and_what_is_true_now() -> None:
    lines = [line for line in shown(START, LATER) if line]
    assert lines[0].startswith("╭─ guided top small at localhost:50051, AVX2, up 1 min ─")
    told = [line.split("█")[0].rstrip(" ▏▎▍▌▋▊▉") for line in lines[1:-1]]
    assert told == [
        "requests 5 in flight, 7 queued; in the engine 3 running, 2 waiting",
        "ended 0.3/s complete, 0.1/s length, 0.2/s refused",
        "tokens 20.0/s of answers (25.0% forced), 40.0/s of prompts (25.0% reused)",
        "model calls 10.0/s, 2.00 tokens each",
        "drafts 75.0% accepted, 2.00 tokens a call with drafts",
        "means first token 125 ms, between tokens -, answer 2.5 s, compiling -, waiting -",
        "model 60.0%",
        "mask 10.0%",
        "draft 5.0%",
        "take 4.0%",
        "room 1.0%",
        "idle 20.0%",
        "held blocks 50.0%",
        "cached 30.0%",
        "free 20.0%",
        "drafter drafted accepted of its drafts a call of the time",
        "lookup 6.0/s 5.4/s 90.0% 2.70 1.0%",
        "suffix 2.0/s 0.6/s 30.0% 0.60 0.0%",
    ]


def test_a_bar_is_as_long_as_its_share() -> None:
    bars = {line.split()[0]: line.count("█") for line in shown(START, LATER) if "█" in line}
    assert (bars["model"], bars["held"], bars["idle"]) == (18, 15, 6)


def test_a_first_look_has_no_rates_yet() -> None:
    text = "\n".join(shown(LATER, LATER))
    assert "5 in flight, 7 queued" in text
    assert "-/s of answers" in text
    assert "held blocks 50.0%" in text
    assert "drafter" not in text


@pytest.mark.parametrize(
    ("seconds", "told"), [(42, "up 42 s"), (425, "up 7 min"), (11_520, "up 3 h 12 min")]
)
def test_the_age_of_an_engine_is_told_in_words(seconds: float, told: str) -> None:
    assert told in shown(START, replace(LATER, seconds=seconds))[0]


def test_rates_are_those_of_a_window() -> None:
    history = History(window_seconds=10)
    for moment in range(30):
        history.add(replace(START, seconds=float(moment)))
    earliest, latest = history.span
    assert (earliest.seconds, latest.seconds) == (19, 29)


def test_what_is_told_twice_counts_once_and_the_newer_is_kept() -> None:
    history = History()
    history.add(START)
    assert not history.has_rates
    history.add(replace(START, in_flight=4))
    assert not history.has_rates
    assert history.span[1].in_flight == 4
    history.add(LATER)
    assert history.has_rates


def test_an_engine_that_was_started_again_begins_anew() -> None:
    history = History()
    history.add(LATER)
    history.add(replace(START, seconds=1.0))
    assert history.span == (replace(START, seconds=1.0),) * 2
