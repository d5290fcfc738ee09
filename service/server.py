"""Puts the server together and runs it from start to drain."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc.aio
import structlog
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_reflection.v1alpha import reflection

from guided.errors import GuidedError
from guided.extras import needing
from guided.runtime.native import is_native
from guided.v1 import generation_pb2, grammar_pb2, model_pb2
from guided.v1.generation_pb2_grpc import add_GenerationServiceServicer_to_server
from guided.v1.grammar_pb2_grpc import add_GrammarServiceServicer_to_server
from guided.v1.model_pb2_grpc import add_ModelServiceServicer_to_server
from guided_service.authentication import Authenticates
from guided_service.config import ServerConfig
from guided_service.connection_room import ConnectionRoom
from guided_service.door import Door
from guided_service.engine_supervisor import EngineSupervisor, log_choice_of
from guided_service.first_message import AwaitsMessages
from guided_service.grammar_servicer import GrammarServicer
from guided_service.health import HealthServicer
from guided_service.intake import Intake, Readers
from guided_service.listening import (
    bind,
    has_playground,
    is_loopback,
    most_connections,
    tells_methods,
    transport_options,
)
from guided_service.logs import configure_logs
from guided_service.memory import allot_together
from guided_service.model_servicer import ModelServicer
from guided_service.request_log import RequestLog
from guided_service.request_watch import WatchesRequests
from guided_service.servicers import Engine, GenerationServicer
from guided_service.token_book import TokenBook
from guided_service.tracing_setup import open_tracer

if TYPE_CHECKING:
    from guided_service.http.web_server import WebServer

__all__ = [
    "ENGINE_COMMAND",
    "METHODS",
    "SERVICES",
    "SERVICE_NAME",
    "add_services",
    "intakes",
    "run_server",
    "serve",
    "wired",
]

ENGINE_COMMAND = (sys.executable, "-P", "-m", "guided_service.engine_process")
"""The command of the engine process; its settings follow as one more argument."""

SERVICES = (
    generation_pb2.DESCRIPTOR.services_by_name["GenerationService"],
    grammar_pb2.DESCRIPTOR.services_by_name["GrammarService"],
    model_pb2.DESCRIPTOR.services_by_name["ModelService"],
    health_pb2.DESCRIPTOR.services_by_name["Health"],
)
"""Services whose calls have one message each; reflection has a stream of them."""

METHODS = tuple(method for service in SERVICES for method in service.methods)
"""The methods of these services."""

_SHORT = tuple(
    method
    for method in METHODS
    if method.containing_service.name == "Health"
    or method.name in ("GetModel", "ListModels", "GetStats")
)
"""Methods whose messages are so short that they do not count in what calls hold."""

_COUNTED = tuple(method for method in METHODS if method not in _SHORT)

SERVICE_NAME = SERVICES[0].full_name

_FLUSH_SECONDS = 0.5
"""How long sending the last answers may take."""

_log = structlog.get_logger()


def serve(config: ServerConfig, engine_command: Sequence[str] = ENGINE_COMMAND) -> int:
    """Run a server until it is stopped; returns the exit status."""
    configure_logs(log_choice_of(config))
    try:
        asyncio.run(run_server(config, engine_command))
    except GuidedError as error:
        typer.echo(f"guided: {error}", err=True)
        return 1
    return 0


async def run_server(config: ServerConfig, engine_command: Sequence[str]) -> None:
    """Listen, start the engine, and serve until SIGTERM or SIGINT; then finish what runs.

    Raises the error if it cannot listen, or if the engine's first start fails.
    """
    allot_together()
    stop_asked = _stop_asked()
    room = ConnectionRoom(most_connections(config))
    # Watchers never leave, so they must not take the places of other callers.
    watchers = min(config.max_health_watchers, most_connections(config) // 2)
    health = HealthServicer(SERVICE_NAME, watchers)
    supervisor = EngineSupervisor(engine_command, config, health.set_serving)
    readers = Readers()
    servicer = GenerationServicer(supervisor, config, readers)
    request_log = RequestLog() if config.log_requests else None
    watch = WatchesRequests(SERVICE_NAME, open_tracer(supervisor.model_name), request_log)
    book = _token_book(config)
    # The caller is authenticated before the message is read.
    interceptors = (
        watch,
        *_authentication(book, config),
        AwaitsMessages(servicer.door, config),
        room,
        *intakes(servicer.door, readers, config),
    )
    server = wired(supervisor, servicer, health, config, *interceptors)
    port = bind(server, config)
    web = None
    if config.http_port is not None:
        with needing("--http-port", "http"):
            from guided_service.http.app import open_http
        web = open_http(supervisor, servicer.door, readers, watch, book, health, config)
    if config.metrics_port is not None:
        from guided_service.exposition import EngineCollector, start_exposition

        collector = EngineCollector(supervisor, servicer.admission)
        _log.info("serving metrics", url=start_exposition(config, config.metrics_port, collector))
    await server.start()
    if not is_native():
        _log.warning("interpreted: schemas and grammars take a third longer", see="docs/native.md")
    typer.echo(f"guided: listening on {config.host}:{port}")
    if web is not None:
        await web.start()
        typer.echo(f"guided: OpenAI's API at {web.url}/v1")
        if has_playground(config):
            typer.echo(f"guided: playground at {web.url}/playground/")
    engine = asyncio.create_task(supervisor.run())
    stop = asyncio.create_task(stop_asked.wait())
    keeping_room = asyncio.create_task(room.keep(port))
    try:
        # Unless cancelled, the engine's task ends only with the error that ends the server.
        await asyncio.wait({engine, stop}, return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            # First report it, so that callers that check the health first are not refused.
            await health.stop_serving()
            await asyncio.sleep(config.lame_duck_seconds)
            await _drain(server, web, servicer, supervisor, config.drain_seconds)
    finally:
        stop.cancel()
        keeping_room.cancel()
        engine.cancel()
        await _stop(server, web, 0)
        await supervisor.stop()
        await asyncio.wait({engine})
        readers.close()
        if request_log is not None:
            request_log.close()
    if not engine.cancelled():
        engine.result()


async def _drain(
    server: grpc.aio.Server,
    web: WebServer | None,
    servicer: GenerationServicer,
    supervisor: EngineSupervisor,
    seconds: float,
) -> None:
    admission = servicer.admission
    in_flight, queued = admission.in_flight, admission.waiting
    _log.info("draining", requests=in_flight, queued=queued, at_most_seconds=seconds)
    admission.close()
    # A little longer than requests have, so that the errors of those cut off are still sent.
    stopped = asyncio.create_task(_stop(server, web, seconds + _FLUSH_SECONDS))
    idle = asyncio.create_task(admission.wait_until_empty())
    await asyncio.wait({stopped, idle}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    idle.cancel()
    supervisor.cut_off(seconds)
    # Left are the last answers being sent, and callers watching the health, which never leave.
    await _stop(server, web, _FLUSH_SECONDS)
    await stopped


async def _stop(server: grpc.aio.Server, web: WebServer | None, seconds: float) -> None:
    """Take no more calls, and end those still running after this many seconds."""
    await asyncio.gather(server.stop(seconds), *([] if web is None else [web.stop(seconds)]))


def wired(
    engine: Engine,
    servicer: GenerationServicer,
    health: HealthServicer,
    config: ServerConfig,
    *interceptors: grpc.aio.ServerInterceptor,
) -> grpc.aio.Server:
    """Build the server of all services, which does not listen yet."""
    server = grpc.aio.server(interceptors=interceptors, options=transport_options(config))
    add_services(server, engine, servicer, health, config)
    if tells_methods(config):
        names = [service.full_name for service in SERVICES]
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
    return server


def add_services(
    server: grpc.aio.Server,
    engine: Engine,
    servicer: GenerationServicer,
    health: HealthServicer,
    config: ServerConfig,
) -> None:
    """Have a server take the calls of all services; ``servicer`` passes its own to the engine."""
    grammars = GrammarServicer(engine, servicer.door, servicer.stored, config)
    models = ModelServicer(engine, servicer.door, servicer.reader, config)
    add_GenerationServiceServicer_to_server(servicer, server)
    add_GrammarServiceServicer_to_server(grammars, server)
    add_ModelServiceServicer_to_server(models, server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)


def intakes(
    door: Door, readers: Readers, config: ServerConfig
) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """Return the interceptors that read messages, within what calls may hold."""
    return (Intake(_COUNTED, config, readers, door), Intake(_SHORT, config, readers))


def _token_book(config: ServerConfig) -> TokenBook | None:
    """Return the tokens that callers must show, if the settings name a file of them."""
    if config.tokens is not None:
        return TokenBook(config.tokens)
    hosts = [config.host, *([] if config.http_port is None else [config.http_host])]
    if config.tls_client_ca is None and not all(map(is_loopback, hosts)):
        _log.warning("open to everybody who reaches it", see="docs/security-settings.md")
    return None


def _authentication(
    book: TokenBook | None, config: ServerConfig
) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """Return the interceptor that refuses strangers, if tokens are given; health is open to all."""
    if book is None:
        return ()
    return (Authenticates(book, frozenset({HEALTH_NAME}), config.retry_after_seconds),)


def _stop_asked() -> asyncio.Event:
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        event.set()
        # A second signal ends the process at once: an interrupt would else be an exception, after
        # which the loop waits for tasks that it has broken off. Its engine ends when it does.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return event
