"""A server's reports on its engine: over gRPC, through the SDK, and to Prometheus."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from importlib.metadata import version
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from guided.client import AsyncClient, Client, RawPrompt
from guided.errors import ServiceUnavailableError
from guided.extras import DISTRIBUTION
from guided.model.cpu.instructions import best_instructions
from guided.spec import FinishReason, Usage
from guided.spec.constraint_kind import ConstraintKind
from guided.stats import CompileOutcome, EngineStats, Phase
from tests.service.conftest import LOADING_SECONDS
from tests.service.server_process import (
    ECHO_SERVER,
    REAL_SERVER,
    ServerProcess,
    listening,
    serving,
)

LOOKUPS = ("hit", "refusal", "miss")
SCHEMA = {
    "type": "object",
    "properties": {"b": {"type": "boolean"}},
    "required": ["b"],
    "additionalProperties": False,
}


def stats_once_ended(client: Client, requests: int) -> EngineStats:
    """The first report in which a number of requests have ended."""
    deadline = time.monotonic() + 10.0
    while (stats := client.stats()).ended < requests:
        assert time.monotonic() < deadline, f"{stats.ended} of {requests} requests ended"
        time.sleep(0.05)
    return stats


def scraped(server: ServerProcess) -> dict[tuple[str, ...], float]:
    """Every sample of the metrics, by its name and the values of its labels."""
    line = next(line for line in server.log.read_text().splitlines() if "/metrics" in line)
    url = "http" + line.partition("http")[2].split()[0].strip("'\"")
    with urlopen(url) as response:  # noqa: S310 - of the server under test
        families = list(text_string_to_metric_families(response.read().decode()))
    assert all(family.documentation for family in families)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_server_names_its_model_counts_and_is_scraped(tmp_path: Path) -> None:
    settings = {"metrics_port": "0", "dtype": "float32"}
    with (
        serving(REAL_SERVER, tmp_path / "log", settings, timeout=LOADING_SECONDS) as server,
        Client(server.address) as client,
    ):
        model = client.model()
        assert (model.name, model.vocabulary_size) == ("SmolLM2-135M-Instruct", 49152)
        assert "lookup" in model.drafters
        assert model.instruction_set == best_instructions()
        before = stats_once_ended(client, 0)
        assert (before.ended, before.usage) == (0, Usage()), "the warm-up is not counted"
        answers = [client.generate("Wet?", schema=SCHEMA, max_tokens=20) for _ in range(2)]
        with pytest.raises(Exception, match="strin"):
            client.generate("x", schema='{"type": "strin"}')
        with pytest.raises(Exception, match="strin"):
            client.generate("x", schema='{"type": "strin"}')
        later = stats_once_ended(client, before.ended + 4)
        samples = scraped(server)

    stats = later.since(before)
    assert stats.answered[FinishReason.COMPLETE] == 2
    assert stats.refused == 2
    assert stats.usage.prompt_tokens == 2 * answers[0].usage.prompt_tokens
    assert stats.usage.reused_tokens == answers[1].usage.reused_tokens > 0
    assert stats.usage.output_tokens == sum(answer.usage.output_tokens for answer in answers)
    assert stats.model_calls == sum(answer.usage.model_calls for answer in answers)
    assert stats.phases[Phase.FORWARD] > 0
    timing = answers[0].timing
    assert timing.first_token_seconds is not None
    assert 0 < timing.compiling_seconds + timing.waiting_seconds < timing.first_token_seconds
    assert timing.first_token_seconds <= answers[0].seconds
    first = sum(answer.timing.first_token_seconds or 0 for answer in answers)
    assert stats.first_token.total == pytest.approx(first, abs=1e-4)

    drafters = {one.name: one for one in later.usage.by_drafter}
    lookup = drafters["lookup"]
    accepted = sum(one.accepted_tokens for one in drafters.values())
    assert accepted == later.usage.accepted_tokens
    assert answers[0].usage.by_drafter[0].draft_seconds > 0
    assert samples["guided_drafter_drafted_tokens_total", "lookup"] == lookup.drafted_tokens
    assert samples["guided_drafter_seconds_total", "lookup"] == lookup.draft_seconds > 0

    assert samples["guided_engine_up",] == 1
    assert samples["guided_requests_total", "refused"] == later.refused
    assert samples["guided_forced_tokens_total",] == later.usage.forced_tokens
    assert samples["guided_cache_blocks", "cached"] == later.cache.cached > 0
    forward = samples["guided_phase_seconds_total", "forward"]
    assert forward == pytest.approx(later.phases[Phase.FORWARD], abs=1e-5)
    name = "guided_time_to_first_token_seconds"
    assert samples[f"{name}_count",] == samples[f"{name}_bucket", "+Inf"] == later.first_token.count
    assert samples[f"{name}_sum",] == pytest.approx(later.first_token.total)
    assert samples["guided_build_info", version(DISTRIBUTION)] == 1
    assert samples["guided_model_info", "SmolLM2-135M-Instruct"] == 1

    # Four requests of two constraints, one of which is refused.
    ended = {outcome: samples["guided_compilations_total", outcome] for outcome in CompileOutcome}
    assert {outcome: count for outcome, count in ended.items() if count} == {
        CompileOutcome.COMPILED: 1,
        CompileOutcome.INVALID: 1,
    }
    assert samples["guided_compilation_seconds_total", "invalid"] > 0
    submitted = {each: samples["guided_submitted_requests_total", each] for each in ConstraintKind}
    assert submitted == dict.fromkeys(ConstraintKind, 0) | {ConstraintKind.JSON_SCHEMA: 4}
    looked_up = {each: samples["guided_constraint_lookups_total", each] for each in LOOKUPS}
    assert looked_up == {"hit": 1, "refusal": 1, "miss": 2}
    constraints = later.constraints
    assert (samples["guided_kept_refusals",], constraints.kept_refusals) == (1, 1)
    assert samples["guided_kept_constraints",] == constraints.kept > 0
    assert samples["guided_kept_constraint_bytes",] == constraints.kept_bytes > 0

    computed = samples["guided_computed_mask_seconds_count",]
    assert computed == samples["guided_mask_lookups_total", "miss"] == constraints.masks.count > 0
    assert samples["guided_computed_mask_seconds_bucket", "1e-06"] <= computed
    assert samples["guided_mask_lookups_total", "hit"] == constraints.mask_hits > 0
    assert samples["guided_kept_mask_bytes",] == constraints.mask_bytes > 0
    assert samples["guided_mask_seconds_total",] == later.usage.mask_seconds > 0
    assert samples["guided_target_seconds_total",] == later.usage.target_seconds > 0


def test_an_engine_at_rest_reports_what_was_cancelled(echo: Client) -> None:
    completed = echo.stats()
    assert completed.cancelled == 0
    with pytest.raises(Exception, match="allow more time"):
        echo.generate(RawPrompt("wait"), timeout=2)  # the engine has it by then
    assert stats_once_ended(echo, 1).cancelled == 1
    assert echo.model().name == "echo"


def test_the_asyncio_client_reads_the_same(echo_server: ServerProcess) -> None:
    async def talk() -> tuple[str, int]:
        async with AsyncClient(echo_server.address) as client:
            return (await client.model()).name, (await client.stats()).running

    assert asyncio.run(talk()) == ("echo", 0)


def test_without_an_engine_there_are_no_counts_and_metrics_say_so(tmp_path: Path) -> None:
    settings = {"metrics_port": "0", "restart_backoff_seconds": "60"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        assert scraped(server)["guided_engine_up",] == 1
        os.kill(server.engine_process_id(), signal.SIGKILL)
        deadline = time.monotonic() + 10
        while scraped(server)["guided_engine_up",] == 1:
            assert time.monotonic() < deadline, "the engine is still up"
        assert scraped(server) == {
            ("guided_build_info", version(DISTRIBUTION)): 1,
            ("guided_engine_up",): 0,
            ("guided_requests_in_flight",): 0,
            ("guided_requests_queued",): 0,
        }
        with pytest.raises(ServiceUnavailableError, match="the engine is starting"):
            client.stats()
        with pytest.raises(ServiceUnavailableError):
            client.model()


def test_a_metrics_port_in_use_ends_the_server_with_its_error(
    echo_server: ServerProcess, tmp_path: Path
) -> None:
    port = echo_server.address.rpartition(":")[2]
    with pytest.raises(AssertionError, match="choose another metrics port"):  # noqa: SIM117
        with listening(ECHO_SERVER, tmp_path / "log", {"metrics_port": port}):
            pass
