"""Exposes the engine's statistics to Prometheus.

Reads only the latest snapshot that the engine sent, so requests bear no cost. Names and definitions
are in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from guided.errors import ServiceUnavailableError
from guided.extras import DISTRIBUTION
from guided.spec import DrafterUsage
from guided.spec.constraint_kind import ConstraintKind
from guided.stats import CompileOutcome, ConstraintStats, EngineStats, Histogram
from guided_service.admission import Admission
from guided_service.certificates import HttpCertificate
from guided_service.config import ServerConfig
from guided_service.listening import check_exposure, in_url, is_loopback
from guided_service.metrics_server import serve_metrics
from guided_service.servicers import ModelSource

__all__ = ["EngineCollector", "door_metrics", "engine_metrics", "start_exposition"]


class EngineCollector(Collector):
    """Collects the metrics of the server and, while it has one, of its engine."""

    def __init__(self, source: ModelSource, admission: Admission) -> None:
        self._source = source
        self._admission = admission

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as they are now."""
        yield from door_metrics(self._admission)
        yield from engine_metrics(*self._engine())

    def _engine(self) -> tuple[str, EngineStats | None]:
        """Return the name of its model and its statistics, or that there is no engine."""
        try:
            return self._source.models()[0].name, self._source.stats()
        except ServiceUnavailableError:
            return "", None


def door_metrics(admission: Admission) -> Iterator[Metric]:
    """Yield the metrics of what admits requests, a server or an ingress."""
    yield InfoMetricFamily("guided_build", "The program.", {"version": version(DISTRIBUTION)})
    yield GaugeMetricFamily(
        "guided_requests_in_flight",
        "Requests that hold a place of the server.",
        admission.in_flight,
    )
    yield GaugeMetricFamily(
        "guided_requests_queued",
        "Requests that wait for a place of the server.",
        admission.waiting,
    )


def engine_metrics(model: str, stats: EngineStats | None) -> Iterator[Metric]:
    """Yield the metrics of an engine with this model; without statistics, that there is none."""
    yield GaugeMetricFamily("guided_engine_up", "Whether there is an engine.", stats is not None)
    if stats is None:
        return
    yield InfoMetricFamily("guided_model", "The model.", {"name": model})
    yield from _requests(stats)
    yield from _tokens(stats)
    yield from _drafters(stats)
    yield from _cache(stats)
    yield from _times(stats)
    yield from _constraints(stats.constraints)


def start_exposition(config: ServerConfig, port: int, collector: EngineCollector) -> str:
    """Serve metrics over HTTP until the process ends; returns their URL.

    Raises ``ServiceError`` with the reason if it cannot listen.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    host = config.metrics_host
    check_exposure(config, host, port)
    # No certificate on this machine's own addresses: a local scraper need not trust its signer.
    is_open = is_loopback(host) or not config.tls_files
    certificate = None if is_open else HttpCertificate(config)
    taken = serve_metrics(host, port, registry, certificate)
    return f"{'http' if is_open else 'https'}://{in_url(host)}:{taken}/metrics"


def _requests(stats: EngineStats) -> Iterator[Metric]:
    ended = {reason.value: count for reason, count in stats.answered.items()} | {
        "failed": stats.failed,
        "cancelled": stats.cancelled,
        "refused": stats.refused,
    }
    yield _counters(
        "guided_requests",
        "Requests that ended, by finish reason, or failed, cancelled, refused.",
        "outcome",
        ended,
    )
    yield _counters(
        "guided_submitted_requests",
        "Requests that the engine was given, by the kind of their constraint.",
        "constraint",
        {kind.value: stats.submitted.get(kind, 0) for kind in ConstraintKind},
    )
    yield GaugeMetricFamily(
        "guided_requests_running", "Requests with room in the cache.", stats.running
    )
    yield GaugeMetricFamily(
        "guided_requests_waiting", "Requests that wait for room.", stats.waiting
    )
    yield CounterMetricFamily("guided_preemptions", "Requests that started over.", stats.preempted)


def _tokens(stats: EngineStats) -> Iterator[Metric]:
    usage = stats.usage
    for name, help_text, value in (
        ("guided_prompt_tokens", "Tokens of prompts.", usage.prompt_tokens),
        ("guided_reused_tokens", "Prompt tokens found in the cache.", usage.reused_tokens),
        ("guided_sampled_tokens", "Answer tokens that the model chose.", usage.sampled_tokens),
        ("guided_forced_tokens", "Answer tokens that were certain.", usage.forced_tokens),
        ("guided_drafted_tokens", "Tokens guessed.", usage.drafted_tokens),
        ("guided_accepted_tokens", "Guesses that the model agreed with.", usage.accepted_tokens),
        ("guided_model_calls", "Model calls.", stats.model_calls),
        ("guided_request_calls", "Model calls, once for each request in one.", usage.model_calls),
        ("guided_drafted_calls", "Request calls with drafts.", usage.drafted_calls),
        ("guided_corrected_calls", "Those that found every guess wrong.", usage.corrected_calls),
        ("guided_target_seconds", "Time of model calls, by requests.", usage.target_seconds),
        ("guided_mask_seconds", "Time after model calls, by requests.", usage.mask_seconds),
    ):
        yield CounterMetricFamily(name, help_text, value)


def _drafters(stats: EngineStats) -> Iterator[Metric]:
    """Yield what each drafter did; only drafters that were ever used have samples."""
    for name, help_text, value in _OF_A_DRAFTER:
        counts = {each.name: value(each) for each in stats.usage.by_drafter}
        yield _counters(f"guided_drafter_{name}", help_text, "drafter", counts)


_OF_A_DRAFTER: Sequence[tuple[str, str, Callable[[DrafterUsage], float]]] = (
    ("drafted_tokens", "Tokens that this drafter proposed first.", lambda of: of.drafted_tokens),
    ("accepted_tokens", "Those that the model agreed with.", lambda of: of.accepted_tokens),
    ("drafted_calls", "Request calls with tokens of its.", lambda of: of.drafted_calls),
    ("corrected_calls", "Those that ended where it was wrong.", lambda of: of.corrected_calls),
    ("skipped_calls", "Request calls it was left out of.", lambda of: of.skipped_calls),
    ("seconds", "Time that it took to propose.", lambda of: of.draft_seconds),
)


def _cache(stats: EngineStats) -> Iterator[Metric]:
    cache = stats.cache
    blocks = GaugeMetricFamily("guided_cache_blocks", "Blocks of the cache.", labels=["state"])
    for state, count in (("free", cache.free), ("held", cache.held), ("cached", cache.cached)):
        blocks.add_metric([state], count)
    yield blocks
    for name, help_text, value in (
        ("held_slots", "Slots held, added up over model calls.", cache.held_slots),
        ("spare_slots", "Those without a row.", cache.spare_slots),
    ):
        yield CounterMetricFamily(f"guided_cache_{name}", help_text, value)


def _times(stats: EngineStats) -> Iterator[Metric]:
    yield _counters(
        "guided_phase_seconds",
        "Time of the engine by phase.",
        "phase",
        {phase.value: seconds for phase, seconds in stats.phases.items()},
    )
    yield GaugeMetricFamily("guided_engine_uptime_seconds", "Age of the engine.", stats.seconds)
    yield _histogram("compile", "Prompt and constraint, before waiting.", stats.compiling)
    yield _histogram("queue", "Waiting for room.", stats.queueing)
    yield _histogram("time_to_first_token", "Until the first token chosen.", stats.first_token)
    yield _histogram("inter_token_latency", "Between tokens of model calls.", stats.inter_token)
    yield _histogram("request", "From being taken to the last token.", stats.answering)


def _constraints(stats: ConstraintStats) -> Iterator[Metric]:
    # Every word from the start, so that the first of a kind is an increase.
    yield _counters(
        "guided_compilations",
        "Compilations of constraints that ended.",
        "outcome",
        {each.value: stats.compilations.get(each, 0) for each in CompileOutcome},
    )
    yield _counters(
        "guided_compilation_seconds",
        "Processor time of these.",
        "outcome",
        {each.value: stats.compile_seconds.get(each, 0.0) for each in CompileOutcome},
    )
    yield _counters(
        "guided_constraint_lookups",
        "Constraints asked for: kept (hit), refused before (refusal), or neither (miss).",
        "result",
        {"hit": stats.hits, "refusal": stats.refusal_hits, "miss": stats.misses},
    )
    for name, help_text, value in (
        ("kept_constraints", "Compiled constraints that are kept.", stats.kept),
        ("kept_constraint_bytes", "Bytes of these, without masks.", stats.kept_bytes),
        ("kept_refusals", "Refusals that are kept.", stats.kept_refusals),
        ("kept_mask_bytes", "Bytes of the masks that are kept.", stats.mask_bytes),
    ):
        yield GaugeMetricFamily(f"guided_{name}", help_text, value)
    yield _counters(
        "guided_mask_lookups",
        "Masks asked for: kept (hit), or not (miss).",
        "result",
        {"hit": stats.mask_hits, "miss": stats.masks.count},
    )
    yield _histogram("computed_mask", "Masks that had to be computed, each.", stats.masks)


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
    return HistogramMetricFamily(
        f"guided_{name}_seconds", help_text, buckets=buckets, sum_value=histogram.total
    )
