"""Which engine a request goes to: one that has seen its prompt's beginning and its constraint.

Of the engines that are not much busier than the idlest, the one that saves most is asked first;
where none has seen anything, one of the idlest, by the request's digests, so that several ingresses
send what is new to all of them the same way. Engines tell how full their caches are
(``record_routing_stats``), which counts as requests that wait there.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any, Final

from ray.serve._private.common import ReplicaID
from ray.serve._private.replica_result import ReplicaResult
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica
from typing_extensions import override

from guided_service.ray.affinity import FIRST_BYTES, Affinity
from guided_service.ray.engine import KV_USE
from guided_service.ray.messages import Asked

__all__ = ["AffinityRouter"]

_CONSTRAINT_BYTES: Final = 2048
"""Of a prompt that cost as much to compute as a constraint does to compile."""

_MOST_DIGESTS: Final = 100_000


class AffinityRouter(RequestRouter):  # type: ignore[misc] # Ray is typed where it is installed
    """Sends requests with the same beginning or constraint the same way, as far as load allows."""

    @override
    def initialize_state(self, slack: int = 8) -> None:
        """``slack`` is by how many requests an engine may be busier than the idlest one."""
        self._slack = slack
        self._seen: OrderedDict[bytes, set[ReplicaID]] = OrderedDict()
        """Which engines have seen what has this digest, in the order of last use."""
        self._running: Counter[ReplicaID] = Counter()
        """Requests that engines have from here. Ray's own count is corrected with what was so when
        a request was taken, and may say for seconds that an idle engine is busy."""

    @override
    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Those that save most, then those that have room, then all; within each Ray balances."""
        if pending_request is not None:
            # What is left after this is to wait for room.
            pending_request.routing_context.should_backoff = True
        loads = {each.replica_id: self._load(each) for each in candidate_replicas}
        least = min(loads.values(), default=0.0)
        near = [
            each for each in candidate_replicas if loads[each.replica_id] <= least + self._slack
        ]
        affinity = _affinity_of(pending_request)
        saved = {each.replica_id: self._saved(affinity, each.replica_id) for each in near}
        most = max(saved.values(), default=0)
        best = [each for each in near if saved[each.replica_id] == most]
        if not most and affinity.named is not None:
            idlest = [each for each in near if loads[each.replica_id] == least]
            best = [max(idlest, key=lambda each: affinity.weight(each.replica_id.unique_id))]
        return [best, near, candidate_replicas]

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
        if not self._running[replica_id]:
            del self._running[replica_id]

    @override
    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """From now on this engine has what the request brings."""
        affinity = _affinity_of(pending_request)
        for digest in (*affinity.beginnings, affinity.constraint):
            if digest is not None:
                self._seen.setdefault(digest, set()).add(replica_id)
                self._seen.move_to_end(digest)
        while len(self._seen) > _MOST_DIGESTS:
            self._seen.popitem(last=False)

    def _load(self, replica: RunningReplica) -> float:
        """Requests that an engine has, and a full cache as if it were so many more."""
        stats: dict[str, Any] = replica.routing_stats
        return self._running[replica.replica_id] + self._slack * float(stats.get(KV_USE, 0.0))

    def _saved(self, affinity: Affinity, replica: ReplicaID) -> int:
        """Bytes of the prompt that need not be computed; a constraint counts as some."""
        found = 0
        for i, digest in enumerate(affinity.beginnings):
            if replica not in self._seen.get(digest, ()):
                break
            found = FIRST_BYTES << i
        if affinity.constraint is not None and replica in self._seen.get(affinity.constraint, ()):
            found += _CONSTRAINT_BYTES
        return found


def _affinity_of(request: PendingRequest | None) -> Affinity:
    """What the ingress said of a request; nothing of a call that is none."""
    first = request.args[0] if request is not None and request.args else None
    return first.affinity if isinstance(first, Asked) else Affinity()
