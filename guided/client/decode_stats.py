"""From protobuf messages to what an engine counted."""

from __future__ import annotations

from collections.abc import Mapping

from guided.client.decode import decode_finish_reason, decode_usage, seconds_of
from guided.errors import InternalServiceError
from guided.stats import CacheStats, EngineStats, Histogram, ModelInfo, Phase
from guided.v1 import model_pb2 as pb

__all__ = ["PHASES", "decode_model", "decode_stats"]

PHASES: Mapping[pb.Phase.ValueType, Phase] = {
    pb.PHASE_TAKE: Phase.TAKE,
    pb.PHASE_ADMIT: Phase.ADMIT,
    pb.PHASE_DRAFT: Phase.DRAFT,
    pb.PHASE_RESERVE: Phase.RESERVE,
    pb.PHASE_FORWARD: Phase.FORWARD,
    pb.PHASE_SETTLE: Phase.SETTLE,
}


def decode_model(model: pb.Model) -> ModelInfo:
    """The model."""
    return ModelInfo(model.name, model.context_window, model.vocabulary_size)


def decode_stats(stats: pb.EngineStats) -> EngineStats:
    """One moment of an engine."""
    return EngineStats(
        seconds=seconds_of(stats.uptime),
        running=stats.running,
        waiting=stats.waiting,
        usage=decode_usage(stats.usage),
        model_calls=stats.model_calls,
        cache=_decode_cache(stats.cache),
        phases={_decode_phase(each.phase): seconds_of(each.time) for each in stats.phases},
        compiling=_decode_histogram(stats.compiling),
        queueing=_decode_histogram(stats.queueing),
        first_token=_decode_histogram(stats.first_token),
        inter_token=_decode_histogram(stats.inter_token),
        answering=_decode_histogram(stats.answering),
        answered={decode_finish_reason(one.finish_reason): one.count for one in stats.answered},
        failed=stats.failed,
        cancelled=stats.cancelled,
        refused=stats.refused,
        preempted=stats.preempted,
    )


def _decode_phase(number: pb.Phase.ValueType) -> Phase:
    phase = PHASES.get(number)
    if phase is None:
        raise InternalServiceError(
            f"the server sent phase {number}, unknown to this client",
            hint="update the client to the server's version",
        )
    return phase


def _decode_cache(cache: pb.CacheStats) -> CacheStats:
    return CacheStats(
        block_size=cache.block_size,
        free=cache.free,
        held=cache.held,
        cached=cache.cached,
        held_slots=cache.held_slots,
        spare_slots=cache.spare_slots,
        reservations=cache.reservations,
    )


def _decode_histogram(histogram: pb.Histogram) -> Histogram:
    return Histogram(tuple(histogram.bounds), tuple(histogram.counts), histogram.total)
