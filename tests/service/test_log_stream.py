"""A log whose reader has stopped reading delays nobody: lines are lost, and counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, TextIO

import pytest

from guided_service.log_stream import LossyStream

LINES = [f"{number} {'x' * 200}\n" for number in range(2000)]
"""Far more than a pipe holds."""


@pytest.fixture
def pipe() -> Iterator[tuple[TextIO, TextIO]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "r") as reader, os.fdopen(writing, "w") as writer:
        yield reader, writer


def read_what_is_there(reader: IO[str]) -> list[str]:
    """Return the lines in a pipe."""
    os.set_blocking(reader.fileno(), False)
    return reader.read().splitlines(keepends=True)


def test_lines_are_lost_while_nobody_reads_and_counted_afterwards(
    pipe: tuple[TextIO, TextIO],
) -> None:
    reader, writer = pipe
    stream = LossyStream(writer)
    for line in LINES:
        stream.write(line)
    kept = read_what_is_there(reader)
    assert 0 < len(kept) < len(LINES)
    # A pipe takes whole pages, so a line may have been cut; its rest comes first.
    stream.write("later\n")
    text = "".join(kept + read_what_is_there(reader))
    *before, told, last = text.splitlines(keepends=True)
    assert before == LINES[: len(before)]
    lost = len(LINES) - len(before)
    assert told == f"{lost} lines of the log were lost, because nothing took them\n"
    assert last == "later\n"
    stream.write("and later\n")
    assert read_what_is_there(reader) == ["and later\n"]


def test_a_line_longer_than_a_pipe_keeps_its_order(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    stream, long = LossyStream(writer), "y" * 300_000 + "\n"
    stream.write(long)
    found = ""
    while len(found) < len(long):
        found += "".join(read_what_is_there(reader))
        stream.write("lost, or the next\n")
    assert found.startswith(long)
    assert "y" not in found.removeprefix(long)


def test_a_log_goes_on_where_its_reader_is_gone(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    stream = LossyStream(writer)
    reader.close()
    for line in LINES:
        assert stream.write(line) == len(line)


_LOGS = """
import logging, sys, structlog
from guided_service.logs import configure_logs
from guided_service.messages import LogChoice

configure_logs(LogChoice("json", "info"))
for number in range(2000):
    structlog.get_logger().info("x" * 200, number=number)
    logging.getLogger("guided").warning("y" * 200)
print("done", flush=True)
sys.stdin.readline()
structlog.get_logger().info("last")
"""


def test_a_program_whose_log_nobody_reads_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _LOGS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "done\n"
        lines = read_what_is_there(process.stderr)
        os.set_blocking(process.stderr.fileno(), True)
        process.stdin.write("\n")
        process.stdin.close()
        text = "".join(lines) + process.stderr.read()
    *before, told, last = map(json.loads, text.splitlines())
    assert told["event"] == "lines of the log were lost"
    assert told["lines"] + len(before) == 4000
    assert last["event"] == "last"
