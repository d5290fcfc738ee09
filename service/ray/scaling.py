"""Decides how many engines to run, by requests and by their keys and values."""

from __future__ import annotations

from typing import Any, Final

from ray.serve.autoscaling_policy import replica_queue_length_autoscaling_policy
from ray.serve.config import AutoscalingContext

from guided_service.ray.engine import KV_USE

__all__ = ["TARGET_KV_USE", "by_queue_and_cache"]

TARGET_KV_USE: Final = 0.8
"""Share of an engine's cache; above it, requests begin to wait for room or to be preempted."""


def by_queue_and_cache(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Return enough engines for ``target_ongoing_requests`` each, or for their caches.

    A policy function for Ray (``policy_function``), which bounds, delays and smooths its result.
    """
    by_queue, state = replica_queue_length_autoscaling_policy(context)
    uses = (context.aggregated_metrics or {}).get(KV_USE, {}).values()
    return max(by_queue, sum(uses) / TARGET_KV_USE), state
