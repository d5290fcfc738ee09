"""A process that has loaded all that a server over the echo engine needs, and forks such servers.

Loading takes most of a second for each server, forking a few milliseconds. The caller sends one
message per server to the socket whose number is the argument: the server's environment as JSON, and
three descriptors: its standard output, its standard error, and a pipe that gets a line with its
process id and a line with its exit status. The zygote ends when the socket is closed, and its
servers with it. It has no threads: grpc starts its own once a server is made.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from contextlib import suppress

import guided_service.exposition
import guided_service.http.app  # noqa: F401  for servers with ports of these
from guided_service.config import ServerConfig
from guided_service.process_life import die_with_parent
from guided_service.server import serve
from tests.service.echo_server import ENGINE

MOST_BYTES = 2**18
"""The largest size of an environment."""


def wait_for_order(control: socket.socket) -> None:
    """Fork for each message; returns in a server."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 3)
        if not message:
            sys.exit(0)
        if os.fork() == 0:
            die_with_parent()
            control.close()
            if _is_server(*descriptors):
                os.environ.clear()
                os.environ.update(json.loads(message))
                return
        for descriptor in descriptors:
            os.close(descriptor)


def _is_server(out: int, errors: int, news: int) -> bool:
    """Fork a server, in which this returns; the process between reports on it until it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server = os.fork()
    if server == 0:
        die_with_parent()
        os.dup2(out, sys.stdout.fileno())
        os.dup2(errors, sys.stderr.fileno())
        for descriptor in (out, errors, news):
            os.close(descriptor)
        return True
    os.close(out)
    os.close(errors)
    os.write(news, b"%d\n" % server)
    _, status = os.waitpid(server, 0)
    os.write(news, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _reap(*_: object) -> None:
    """Wait for the processes between that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, _reap)
    gc.freeze()
    wait_for_order(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(serve(ServerConfig(), ENGINE))
