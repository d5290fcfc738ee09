"""Ray's router for engines: ``routing`` chooses, by what Ray knows of the replicas.

Of the engines that are not much busier than the idlest, the one that saves most is asked first;
where none has seen anything, the idler of two that the request's digests name, so that several
ingresses send what is new to all of them the same way. Engines tell how full their caches are
(``record_routing_stats``), which counts as requests that wait there.
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
        """``slack`` is by how many requests an engine may be busier than the idlest one."""
        self._slack = slack
        self._routing: Routing[ReplicaID] = Routing(slack, lambda each: str(each.unique_id))
        self._begun: dict[ReplicaID, float] = {}
        """How many engines each replica has had, where it told."""
        self._running: Counter[ReplicaID] = Counter()
        """Requests that engines have from here. Ray's own count is corrected with what was so when
        a request was taken, and may say for seconds that an idle engine is busy."""

    @override
    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Those that save most, then those that have room, then all; within each Ray balances.

        Those that have no engine for the moment are left out, unless none has.
        """
        if pending_request is not None:
            # What is left after this is to wait for room.
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
        """Others have begun, or some have ended or made their engine again: theirs is forgotten."""
        super().update_replicas(replicas)
        before, told = self._begun, {each.replica_id: each.routing_stats for each in replicas}
        self._begun = {name: stats[BEGUN] for name, stats in told.items() if BEGUN in stats}
        anew = {name for name, begun in self._begun.items() if begun > before.get(name, begun)}
        self._routing.keep(told.keys() - anew)

    @override
    def on_send_request(self, replica_id: ReplicaID) -> None:
        """An engine has one more to do."""
        super().on_send_request(replica_id)
        self._running[replica_id] += 1

    @override
    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """It has done it, failed, or ended."""
        super().on_request_completed(replica_id, internal_request_id)
        self._running[replica_id] -= 1
        # Ray tells of the end of some that could not even be sent.
        if self._running[replica_id] <= 0:
            del self._running[replica_id]

    @override
    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """From now on this engine has what the request brings."""
        self._routing.sent(_affinity_of(_asked_of(pending_request)), replica_id)

    def _load(self, replica: RunningReplica) -> float:
        """Requests that an engine has, and a full cache as if it were so many more."""
        stats: dict[str, Any] = replica.routing_stats
        return self._running[replica.replica_id] + self._slack * float(stats.get(KV_USE, 0.0))


def _asked_of(request: PendingRequest | None) -> Asked | None:
    """What the ingress asks; nothing where a call is no request."""
    first = request.args[0] if request is not None and request.args else None
    return first if isinstance(first, Asked) else None


def _affinity_of(asked: Asked | None) -> Affinity:
    """By what it goes one way or another."""
    return Affinity() if asked is None else asked.affinity
