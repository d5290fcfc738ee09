"""Exposes the statistics of all engines and of the ingress to Prometheus, at ``/metrics``.

Names are those of a server, labelled by ``model`` and ``replica``. Ray's own metrics could not
carry them: it counts only what passes its counters, and engines report sums and histograms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from guided.stats import EngineStats
from guided_service.admission import Admission
from guided_service.exposition import door_metrics, engine_metrics
from guided_service.http.call import Face, Response, fail
from guided_service.http.carrier import carrier_of

__all__ = ["METRICS_PATH", "Exposition", "ReplicasCollector", "ReportsSource"]

METRICS_PATH: Final = "/metrics"


class ReportsSource(Protocol):
    """Knows all engines."""

    def reports(self) -> Mapping[str, Mapping[str, EngineStats | None]]:
        """Return the last statistics by model and replica; ``None`` for one without an engine."""


class ReplicasCollector(Collector):
    """Collects the metrics of an ingress and of all engines that it knows."""

    def __init__(self, source: ReportsSource, admission: Admission, replica: str) -> None:
        """``replica`` is the name of the ingress."""
        self._source = source
        self._admission = admission
        self._replica = replica

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as they are now, each once, with the samples of all replicas."""
        return iter(_merged(self._labelled()))

    def _labelled(self) -> Iterator[tuple[Mapping[str, str], Iterable[Metric]]]:
        yield {"replica": self._replica}, door_metrics(self._admission)
        for model, replicas in self._source.reports().items():
            if not replicas:
                yield {"model": model}, engine_metrics(model, None)
            for replica, stats in replicas.items():
                yield {"model": model, "replica": replica}, engine_metrics(model, stats)


def _merged(parts: Iterable[tuple[Mapping[str, str], Iterable[Metric]]]) -> Iterable[Metric]:
    """Return the metrics of several replicas together, each sample with its replica's labels."""
    merged: dict[str, Metric] = {}
    for labels, metrics in parts:
        for metric in metrics:
            samples = [each._replace(labels={**each.labels, **labels}) for each in metric.samples]
            merged.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            merged[metric.name].samples.extend(samples)
    return merged.values()


class Exposition:
    """The application of ``/metrics``, for callers with a token if tokens are required."""

    def __init__(self, face: Face, collector: Collector) -> None:
        self._face = face
        self._collector = collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        face = self._face
        response = Response(scope, send, carrier_of(scope).call_id(), face.config.stall_seconds)
        try:
            face.caller(scope, Headers(scope=scope))
            # In a thread: with many engines it takes longer than other calls should wait.
            content = await asyncio.to_thread(generate_latest, self._collector)
            await response.content(content, CONTENT_TYPE_LATEST)
        except Exception as error:
            await fail(response, error, face)
