"""``guided bench`` as its user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.guided_command import guided_command
from tests.service.server_process import ServerProcess


def guided_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from guided.cli import main; main()", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_server_is_measured_and_every_figure_written(
    echo_server: ServerProcess, tmp_path: Path
) -> None:
    workload, report = tmp_path / "work.jsonl", tmp_path / "report.json"
    rows = [{"prompt": f"hello {n}", "max_tokens": 3} for n in range(4)]
    workload.write_text("\n".join(map(json.dumps, rows)))
    done = guided_bench(
        "--address", echo_server.address, "--workload", str(workload), "--json", str(report)
    )
    assert done.returncode == 0, done.stderr
    assert "speed-up against plain decoding" in done.stdout
    told = done.stderr.splitlines()
    assert told[0] == "warming up"
    assert [line.partition(",")[0] for line in told[1:]] == [
        "guided: part 1 of 2",
        "plain: part 2 of 2",
    ]
    found = json.loads(report.read_text())
    assert (found["model"], found["concurrency"]) == ("echo", 4)
    for way in ("guided", "plain"):
        figures = found["figures"][way]
        assert figures["finish_reasons"] == {"stop": 4}
        assert figures["latency"]["mean"] > 0
        measured = [one for run in found["runs"][way] for one in run["measured"]]
        assert [one["text"] for one in measured] == [f"hello {n}" for n in range(4)]


def test_a_request_that_the_server_refuses_is_one_that_failed(
    server: ServerProcess, tmp_path: Path
) -> None:
    workload, report = tmp_path / "work.jsonl", tmp_path / "report.json"
    rows = [{"prompt": text, "max_tokens": 3} for text in ("hello", 10**6 * "long ", "bye")]
    workload.write_text("\n".join(map(json.dumps, rows)))
    done = guided_bench(
        "--address", server.address, "--workload", str(workload), "--json", str(report)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    for way in ("guided", "plain"):
        measured = [one for run in found["runs"][way] for one in run["measured"]]
        assert [one["error"] is None for one in measured] == [True, False, True]


def test_the_drafters_of_a_server_are_compared_without_starting_it_again(
    server: ServerProcess, tmp_path: Path
) -> None:
    workload, report = tmp_path / "work.jsonl", tmp_path / "report.json"
    row = {
        "prompt": "Say red or green twice.",
        "schema": {
            "type": "array",
            "items": {"enum": ["red", "green"]},
            "minItems": 2,
            "maxItems": 2,
        },
        "max_tokens": 20,
    }
    workload.write_text(json.dumps(row))
    done = guided_bench(
        *("--address", server.address, "--workload", str(workload), "--json", str(report)),
        *("--drafters", "--temperature", "0", "--temperature", "0.7", "--concurrency", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert "greedy" in done.stdout
    assert "temperature 0.7" in done.stdout
    tables = json.loads(report.read_text())["drafters"]
    assert [table["temperature"] for table in tables] == [0.0, 0.7]
    for table in tables:
        figures = table["figures"]
        assert {"masks alone", "forced runs alone", "lookup", "all drafters"} <= figures.keys()
        calls = {way: of["figures"]["usage"]["model_calls"] for way, of in figures.items()}
        assert calls["lookup"] < calls["masks alone"]
        assert figures["lookup"]["figures"]["usage"]["by_drafter"][0]["name"] == "lookup"
        assert figures["forced runs alone"]["figures"]["usage"]["by_drafter"] == []
        texts = {
            way: [one["text"] for run in runs for one in run["measured"]]
            for way, runs in table["runs"].items()
        }
        assert texts["lookup"] == texts["forced runs alone"] == texts["all drafters"]


def test_a_server_without_drafters_is_refused(shared_echo_server: ServerProcess) -> None:
    done = guided_command("bench", "--address", shared_echo_server.address, "--drafters")
    assert done.returncode != 0
    assert "there is no drafter to measure" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--plot", "x.gif"], "--plot 'x.gif' ends in none of .png, .svg, .pdf"),
        (["--address", "localhost:1", "--dtype", "int8"], "has its model, dtype, device,"),
        (["--address", "localhost:1", "--device", "cpu"], "has its model, dtype, device,"),
        (["--address", "localhost:1", "--heads", "x"], "has its model, dtype, device,"),
        (["--device", "gpu"], "device 'gpu' is none of 'auto', 'cpu', 'cuda', 'cuda:N'"),
        (["--temperature", "0.7"], "--temperature needs --drafters"),
        (["--concurrency", "0"], "Invalid value for '--concurrency'"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(arguments: list[str], complaint: str) -> None:
    done = guided_command("bench", *arguments)
    assert done.returncode != 0
    assert complaint in " ".join(done.stderr.split())
