"""The server: its parts, and its life from start to drain."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import grpc.aio
import structlog
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from guided.errors import GuidedError, ServiceError
from guided.runtime.native import is_native
from guided.v1 import generation_pb2, model_pb2
from guided.v1.generation_pb2_grpc import add_GenerationServiceServicer_to_server
from guided.v1.model_pb2_grpc import add_ModelServiceServicer_to_server
from guided_service.config import ServerConfig
from guided_service.descriptors import raise_descriptor_limit
from guided_service.engine_supervisor import EngineSupervisor
from guided_service.exposition import EngineCollector, start_exposition
from guided_service.logs import configure_logs
from guided_service.servicers import GenerationServicer, ModelServicer, RefusesUnreadable

__all__ = ["ENGINE_COMMAND", "SERVICE_NAME", "run_server", "serve"]

ENGINE_COMMAND = (sys.executable, "-P", "-m", "guided_service.engine_process")
"""How the engine process is started; its settings follow as one more argument."""

SERVICE_NAME = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name

_MODEL_SERVICE_NAME = model_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name

HealthServicer: TypeAlias = health_aio.HealthServicer

_FLUSH_SECONDS = 0.5
"""How long the last answers may take to leave."""

_log = structlog.get_logger()


def serve(config: ServerConfig, engine_command: Sequence[str] = ENGINE_COMMAND) -> int:
    """Run a server until it is told to stop; the exit status."""
    configure_logs()
    try:
        asyncio.run(run_server(config, engine_command))
    except GuidedError as error:
        typer.echo(f"guided: {error}", err=True)
        return 1
    return 0


async def run_server(config: ServerConfig, engine_command: Sequence[str]) -> None:
    """Listen, start the engine, and serve until SIGTERM or SIGINT; then finish what runs.

    Raises what keeps it from listening, and what keeps the engine from its first start.
    """
    stop_asked = _stop_asked()
    health = HealthServicer()
    await _set_health(health, False)
    supervisor = EngineSupervisor(engine_command, config, partial(_set_health, health))
    servicer = GenerationServicer(supervisor, config)
    server = _wired(servicer, ModelServicer(supervisor, config), health, config)
    port = _bind(server, config)
    if config.metrics_port is not None:
        collector = EngineCollector(supervisor, servicer.admission)
        metrics = start_exposition(config.host, config.metrics_port, collector)
        _log.info("serving metrics", url=f"http://{_in_url(config.host)}:{metrics}/metrics")
    await server.start()
    if not is_native():
        _log.warning(
            "interpreted: schemas and grammars take a quarter longer", see="docs/native.md"
        )
    typer.echo(f"guided: listening on {config.host}:{port}")
    engine = asyncio.create_task(supervisor.run())
    stop = asyncio.create_task(stop_asked.wait())
    try:
        # The engine's task ends by itself only with the error that ends the server.
        await asyncio.wait({engine, stop}, return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            await health.enter_graceful_shutdown()
            await _drain(server, servicer, supervisor, config.drain_seconds)
    finally:
        stop.cancel()
        engine.cancel()
        await server.stop(0)
        await supervisor.stop()
        await asyncio.wait({engine})
    if not engine.cancelled():
        engine.result()


async def _drain(
    server: grpc.aio.Server,
    servicer: GenerationServicer,
    supervisor: EngineSupervisor,
    seconds: float,
) -> None:
    admission = servicer.admission
    _log.info("draining", requests=admission.in_flight, queued=admission.waiting, seconds=seconds)
    admission.close()
    # A little longer than requests have, so that those cut off can still be told so.
    stopped = asyncio.create_task(server.stop(seconds + _FLUSH_SECONDS))
    idle = asyncio.create_task(servicer.admission.wait_until_empty())
    await asyncio.wait({stopped, idle}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    idle.cancel()
    supervisor.cut_off(seconds)
    # What still keeps the server are its last answers on their way and callers who watch its
    # health, and those never leave by themselves.
    await server.stop(_FLUSH_SECONDS)
    await stopped


def _wired(
    servicer: GenerationServicer,
    model_servicer: ModelServicer,
    health: HealthServicer,
    config: ServerConfig,
) -> grpc.aio.Server:
    server = grpc.aio.server(
        interceptors=(RefusesUnreadable(SERVICE_NAME, config.retry_after_seconds),),
        options=(
            # Two servers on one port would share its calls by chance; let the second one fail.
            ("grpc.so_reuseport", 0),
            # Well above the limit, so that a message too large meets the error that says so.
            ("grpc.max_receive_message_length", 2 * config.max_message_bytes + 2**20),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_allowed_incoming_connections", _most_connections(config)),
            ("grpc.max_connection_idle_ms", int(config.idle_seconds * 1000)),
            # By itself the transport drops calls at random where a thousand wait to be taken.
            ("grpc.server.max_pending_requests", 2**16),
            ("grpc.server.max_pending_requests_hard_limit", 2**17),
            # A caller may send pings to keep its connection, though not a flood of them.
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            # One that is gone without a word is found out.
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
        ),
    )
    add_GenerationServiceServicer_to_server(servicer, server)
    add_ModelServiceServicer_to_server(model_servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = (SERVICE_NAME, _MODEL_SERVICE_NAME, HEALTH_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    return server


def _most_connections(config: ServerConfig) -> int:
    """Connections that leave descriptors for everything else."""
    return max(1, min(config.max_connections, raise_descriptor_limit() // 2))


def _bind(server: grpc.aio.Server, config: ServerConfig) -> int:
    address = f"{_in_url(config.host)}:{config.port}"
    hint = "choose another host or port; port 0 takes a free one"
    if refusal := _refusal(config.host, config.port):
        raise ServiceError(f"cannot listen on {address}: {refusal}", hint=hint)
    try:
        return server.add_insecure_port(address)
    except RuntimeError as error:
        # What else the transport says is advice on its own debugging.
        reason = str(error).partition(";")[0]
        raise ServiceError(f"cannot listen on {address}: {reason}", hint=hint) from error


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refusal(host: str, port: int) -> str | None:
    """The reason why the system would not let us listen, which the transport does not tell.

    All addresses of a name are tried: the transport is content with one of them, but callers may
    try another one first.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return error.strerror or str(error)
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return f"port {port} is in use"
                if error.errno == errno.EACCES:
                    return f"port {port} is not open to this user"
    return None


async def _set_health(health: HealthServicer, is_serving: bool) -> None:
    state = health_pb2.HealthCheckResponse
    for name in ("", SERVICE_NAME):
        await health.set(name, state.SERVING if is_serving else state.NOT_SERVING)


def _stop_asked() -> asyncio.Event:
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        event.set()
        # Who asks a second time does not want to wait.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return event
