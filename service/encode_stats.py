"""From what an engine counted to protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping

from guided.stats import CacheStats, EngineStats, Histogram, ModelInfo, Phase
from guided.v1 import model_pb2 as pb
from guided_service.encode import FINISH_REASONS, encode_duration, encode_usage

__all__ = ["PHASES", "encode_model", "encode_stats"]

PHASES: Mapping[Phase, pb.Phase.ValueType] = {
    Phase.TAKE: pb.PHASE_TAKE,
    Phase.ADMIT: pb.PHASE_ADMIT,
    Phase.DRAFT: pb.PHASE_DRAFT,
    Phase.RESERVE: pb.PHASE_RESERVE,
    Phase.FORWARD: pb.PHASE_FORWARD,
    Phase.SETTLE: pb.PHASE_SETTLE,
}


def encode_model(model: ModelInfo) -> pb.Model:
    """The message of a model."""
    return pb.Model(
        name=model.name,
        context_window=model.context_window,
        vocabulary_size=model.vocabulary_size,
    )


def encode_stats(stats: EngineStats) -> pb.EngineStats:
    """The message of one moment of an engine."""
    return pb.EngineStats(
        uptime=encode_duration(stats.seconds),
        running=stats.running,
        waiting=stats.waiting,
        answered=[
            pb.AnsweredCount(finish_reason=FINISH_REASONS[reason], count=count)
            for reason, count in stats.answered.items()
        ],
        failed=stats.failed,
        cancelled=stats.cancelled,
        refused=stats.refused,
        preempted=stats.preempted,
        usage=encode_usage(stats.usage),
        model_calls=stats.model_calls,
        cache=_encode_cache(stats.cache),
        phases=[
            pb.PhaseTime(phase=PHASES[phase], time=encode_duration(seconds))
            for phase, seconds in stats.phases.items()
        ],
        compiling=_encode_histogram(stats.compiling),
        queueing=_encode_histogram(stats.queueing),
        first_token=_encode_histogram(stats.first_token),
        inter_token=_encode_histogram(stats.inter_token),
        answering=_encode_histogram(stats.answering),
    )


def _encode_cache(cache: CacheStats) -> pb.CacheStats:
    return pb.CacheStats(
        block_size=cache.block_size,
        free=cache.free,
        held=cache.held,
        cached=cache.cached,
        held_slots=cache.held_slots,
        spare_slots=cache.spare_slots,
        reservations=cache.reservations,
    )


def _encode_histogram(histogram: Histogram) -> pb.Histogram:
    return pb.Histogram(bounds=histogram.bounds, counts=histogram.counts, total=histogram.total)
