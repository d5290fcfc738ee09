"""The command `guided batch` against a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.kit.json_lines import lines_of
from tests.service.guided_command import guided_command
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_client_retries import free_port
from tests.service.test_doors import ANN, tokens_file
from tests.service.test_supervision import eventually

_GUIDED = (sys.executable, "-c", "from guided.cli import main; main()", "batch")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return guided_command("batch", *map(str, arguments))


def written(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def results_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(file.read_text("utf-8"))]


def by_line(file: Path) -> dict[int, dict[str, Any]]:
    found = {one["line"]: one for one in results_in(file)}
    assert len(found) == len(results_in(file)), "a request has several results"
    return found


def test_answers_and_errors_are_lines_beside_each_other(
    echo_server: ServerProcess, tmp_path: Path
) -> None:
    asked = written(
        tmp_path / "in",
        {"id": "a", "raw_prompt": "[1]", "schema": {"type": "array"}, "max_tokens": 1},
        {"raw_prompt": "refuse", "id": "no", "regex": "a+"},
        {"messages": [{"role": "user", "content": "hé"}], "max_tokens": 1, "request_id": "r"},
    )
    done = run(asked, tmp_path / "out", "--address", echo_server.address)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "2 of 3 requests have answers, 1 failed; run it again to ask for them\n"
        "error: line 2: at /type: the type is odd; even it out\n"
    )
    found = by_line(tmp_path / "out")
    first, refused, last = found[1], found[2], found[3]
    assert (first["id"], first["answer"]["value"], first["answer"]["text"]) == ("a", [1], "[1]")
    assert first["answer"]["finish_reason"] == "stop"
    assert first["answer"]["usage"]["forced_tokens"] == 4
    assert refused["id"] == "no"
    error = refused["error"]
    assert error.pop("request_id")
    assert error == {
        "code": "INVALID_CONSTRAINT",
        "message": "at /type: the type is odd; even it out",
        "field": "constraint",
        "pointer": "/type",
        "position": 3,
        "hint": "even it out",
    }
    assert "id" not in last
    assert (last["answer"]["text"], last["answer"]["request_id"]) == ("hé", "r")
    assert "value" not in last["answer"]


def test_a_server_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    asked = written(tmp_path / "in", *({"raw_prompt": "[b]x"} for _ in range(3)))
    out = tmp_path / "out"
    done = run(asked, out, "--address", "127.0.0.1:1", "--timeout", "2")
    assert done.returncode == 1
    count, reason, others = done.stderr.splitlines()
    assert count == "0 of 3 requests have answers, 3 failed; run it again to ask for them"
    assert re.match(r"error: line [123]: ", reason)
    assert "127.0.0.1:1" in reason
    assert others == f"and 2 more errors, which {out} has"


def test_a_run_goes_on_where_another_ended(echo_server: ServerProcess, tmp_path: Path) -> None:
    lines = [{"raw_prompt": f"{number}", "max_tokens": 1} for number in range(20)]
    lines[7]["raw_prompt"] = "refuse"
    asked, out = written(tmp_path / "in", *lines), tmp_path / "out"
    address = ("--address", echo_server.address)
    assert run(asked, out, *address).returncode == 1
    before = results_in(out)
    # As if it had been interrupted while writing the last line but one.
    kept = out.read_text().splitlines(keepends=True)
    out.write_text("".join(kept[:12]) + kept[12][:20])
    done = run(asked, out, *address)
    assert done.returncode == 1
    assert done.stderr.startswith("19 of 20 requests have answers, ")
    assert "before, 1 failed; run it again to ask for them\nerror: line 8: at /type" in done.stderr
    found = by_line(out)
    assert sorted(found) == list(range(1, 21))
    answered = {one["line"]: one for one in before[:12] if "answer" in one}
    # Those are the very lines of the first run.
    assert {number: found[number] for number in answered} == answered
    assert all(found[n]["answer"]["text"] == f"{n - 1}" for n in found if n != 8)
    assert list(tmp_path.glob(".out.*")) == []


def test_nothing_is_asked_again_where_all_is_answered(
    echo_server: ServerProcess, tmp_path: Path
) -> None:
    asked = written(tmp_path / "in", {"raw_prompt": "x", "max_tokens": 1})
    out = tmp_path / "out"
    assert run(asked, out, "--address", echo_server.address).returncode == 0
    before = out.read_bytes()
    done = run(asked, out, "--address", "127.0.0.1:1")
    assert (done.returncode, out.read_bytes()) == (0, before)
    assert done.stderr == "1 of 1 requests have answers, 1 had them before\n"


def test_a_killed_run_and_a_killed_server_leave_whole_answers(tmp_path: Path) -> None:
    port = {"port": str(free_port())}
    asked = written(
        tmp_path / "in", *({"raw_prompt": f"{n}", "max_tokens": 20} for n in range(600))
    )
    out = tmp_path / "out"
    out.touch()
    with serving(ECHO_SERVER, tmp_path / "log", port) as server:
        command = (*_GUIDED, asked, out, "--address", server.address, "--concurrency", "4")
        with subprocess.Popen(command) as first:
            eventually(lambda: out.read_bytes().count(b"\n") > 20, 40)
            first.kill()
        assert 20 < len(by_line(out)) < 600
        with subprocess.Popen(command) as second:
            before = len(by_line(out))
            eventually(lambda: out.read_bytes().count(b"\n") > before + 20, 40)
            server.process.kill()
            server.wait(10)
            time.sleep(0.3)
            with serving(ECHO_SERVER, tmp_path / "again", port) as again:
                os.kill(again.engine_process_id(), signal.SIGKILL)
                assert second.wait(120) in (0, 1)
                # The requests running when the engine was killed are lost, and made again.
                assert run(*command[4:]).returncode == 0
    found = by_line(out)
    assert {n: one["answer"]["text"] for n, one in found.items()} == {
        n + 1: f"{n}" for n in range(600)
    }


def test_a_server_that_takes_tokens_is_shown_one(tmp_path: Path) -> None:
    asked = written(tmp_path / "in", {"raw_prompt": "x", "max_tokens": 1})
    token = tmp_path / "token"
    token.write_text(f"{ANN}\n")
    settings = {"tokens": str(tokens_file(tmp_path))}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        at = ("--address", server.address)
        done = run(asked, tmp_path / "out", *at)
        assert (done.returncode, by_line(tmp_path / "out")[1]["error"]["code"]) == (
            1,
            "UNAUTHENTICATED",
        )
        assert run(asked, tmp_path / "out", *at, "--token-file", token).returncode == 0
    assert by_line(tmp_path / "out")[1]["answer"]["text"] == "x"


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    asked = written(tmp_path / "in", {"raw_prompt": "wait"})
    out = tmp_path / "out"
    with serving(ECHO_SERVER, tmp_path / "log") as server:
        command = (*_GUIDED, str(asked), str(out), "--address", server.address)
        with subprocess.Popen(command) as first:
            eventually(out.exists, 40)
            time.sleep(0.2)
            done = run(*command[4:])
            first.kill()
    assert done.returncode == 1
    assert done.stderr == f"error: another run is writing {out}; wait for its end\n"
