"""Ray's router for engines: gives ``routing`` what Ray knows of the replicas.

Among the engines not much busier than the idlest, the one that saves most is tried first. If none
has seen anything of a request, it is the idler of two that the request's digests select, so that
several ingresses send new requests the same way. Engines report how full their caches are
(``record_routing_stats``), which counts like requests waiting there.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ray.serve._private.common import ReplicaID
from ray.serve._private.replica_result import ReplicaResult
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica
from typing_extensions import override

from guided_service.ray.affinity import Affinity
from guided_service.ray.engine import BEGUN, KV_USE
from guided_service.ray.messages import Asked
from guided_service.ray.routing import SLACK, Routing

__all__ = ["AffinityRouter"]


class AffinityRouter(RequestRouter):  # type: ignore[misc] # Ray is typed where it is installed
    """Sends requests with the same beginning or constraint the same way, as far as load allows."""

    @override
    def initialize_state(self, slack: int = SLACK) -> None:
        """``slack`` is how many more requests than the idlest an engine may have."""
        self._slack = slack
        self._routing: Routing[ReplicaID] = Routing(slack, lambda each: str(each.unique_id))
        self._begun: dict[ReplicaID, float] = {}
        """How many engines each replica has had, if it reported."""
        self._running: Counter[ReplicaID] = Counter()
        """Requests that engines have from here. Ray corrects its own count with values from when a
        request was taken, and may report an idle engine as busy for seconds."""

    @override
    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Rank those that save most, then those with room, then all; Ray balances each rank.

        Replicas without an engine for the moment are left out, unless all are.
        """
        if pending_request is not None:
            # After these attempts, wait for room.
            pending_request.routing_context.should_backoff = True
        asked = _asked_of(pending_request)
        avoided = frozenset() if asked is None else asked.avoided
        there = [each for each in candidate_replicas if each.replica_id.unique_id not in avoided]
        engines = {each.replica_id: each for each in there or candidate_replicas}
        loads = {name: self._load(each) for name, each in engines.items()}
        best, near = self._routing.choices(_affinity_of(asked), loads)
        ranks = ([engines[name] for name in names] for names in (best, near))
        return [*ranks, list(engines.values())]

    @override
    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Update the replicas: forget what those knew that ended or restarted their engine."""
        super().update_replicas(replicas)
        before, told = self._begun, {each.replica_id: each.routing_stats for each in replicas}
        self._begun = {name: stats[BEGUN] for name, stats in told.items() if BEGUN in stats}
        anew = {name for name, begun in self._begun.items() if begun > before.get(name, begun)}
        self._routing.keep(told.keys() - anew)

    @override
    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Count a request sent to an engine."""
        super().on_send_request(replica_id)
        self._running[replica_id] += 1

    @override
    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Count a request that an engine completed, failed or lost."""
        super().on_request_completed(replica_id, internal_request_id)
        self._running[replica_id] -= 1
        # Ray also reports requests as ended that could not be sent.
        if self._running[replica_id] <= 0:
            del self._running[replica_id]

    @override
    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """Note that this engine now has the request's digests."""
        self._routing.sent(_affinity_of(_asked_of(pending_request)), replica_id)

    def _load(self, replica: RunningReplica) -> float:
        """Return the requests of an engine, with a full cache counted as further requests."""
        stats: dict[str, Any] = replica.routing_stats
        return self._running[replica.replica_id] + self._slack * float(stats.get(KV_USE, 0.0))


def _asked_of(request: PendingRequest | None) -> Asked | None:
    """Return the ingress's task, or ``None`` if the call is no request."""
    first = request.args[0] if request is not None and request.args else None
    return first if isinstance(first, Asked) else None


def _affinity_of(asked: Asked | None) -> Affinity:
    """Return the affinity that decides the route."""
    return Affinity() if asked is None else asked.affinity
