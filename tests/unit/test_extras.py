"""A missing package is reported in one line with the extra that installs it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from guided.errors import GuidedError, MissingExtraError
from guided.extras import DISTRIBUTION, MODULES, needing

_ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_BASE = {"pydantic", "pydantic_core", "rich", "typer", "typing_extensions"}
"""Packages that are always installed."""
_OURS = {"guided", "guided_service"}
_NEVER_MISSED = {"mlx", "sglang", "triton", "vllm"}
"""A package that comes with torch and is checked before use, and hosts, which call us."""

_BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def _without(*extras: str) -> str:
    return _BLOCKER.format(blocked={name for extra in extras for name in MODULES[extra]})


def _run(
    code: str, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def _guided(blocker: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(f"{blocker}\nfrom guided.cli import main\nmain()", *arguments)


def test_every_module_of_others_is_brought_by_an_extra() -> None:
    known = _BASE | _OURS | _NEVER_MISSED | {name for names in MODULES.values() for name in names}
    files = [*_ROOT.glob("guided/**/*.py"), *_ROOT.glob("service/**/*.py")]
    assert files
    unknown = {name for file in files for name in _imported(file)} - known - sys.stdlib_module_names
    assert not unknown


def _imported(file: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_the_extras_and_the_name_are_those_that_are_published() -> None:
    assert MODULES.keys() <= _PROJECT["optional-dependencies"].keys()
    assert _PROJECT["name"] == DISTRIBUTION


def test_the_client_brings_no_compiler() -> None:
    brought = " ".join([*_PROJECT["dependencies"], *_PROJECT["optional-dependencies"]["client"]])
    assert not [name for name in MODULES["compiler"] if name.replace("_", "-") in brought]


def test_a_client_needs_the_wire_alone() -> None:
    code = """
import guided
from pydantic import BaseModel

class Answer(BaseModel):
    text: str

with guided.Client("127.0.0.1:1") as client:
    try:
        client.generate("Hi", Answer, timeout=5)
    except guided.ServiceUnavailableError:
        print("sent")
"""
    done = _run(_without("compiler", "server", "bench", "telemetry") + code)
    assert (done.stdout, done.stderr) == ("sent\n", "")


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [("Client", "client", "client"), ("check", "compiler", "compiler")],
)
def test_a_name_that_cannot_be_loaded_tells_its_extra(name: str, missing: str, extra: str) -> None:
    code = f"""
import guided
try:
    guided.{name}
except guided.MissingExtraError as error:
    print(isinstance(error, ImportError), error.extra, error)
"""
    done = _run(_without(missing) + code)
    assert done.stdout.startswith(f"True {extra} guided.{name} needs "), done.stderr
    assert done.stdout.endswith(f"which is not installed; pip install 'guided-decoding[{extra}]'\n")


@pytest.mark.parametrize(
    ("arguments", "blocked", "extra"),
    [
        (("check", "schema.json"), ("compiler", "server"), "compiler"),
        (("prepare",), ("compiler", "server"), "compiler"),
        (("grammars", "check"), ("compiler", "server"), "compiler"),
        (("generate", "--prompt", "Hi"), ("client",), "client"),
        (("batch", "schema.json", "answers.jsonl"), ("client",), "client"),
        (("top", "--once"), ("client",), "client"),
        (("inspect", "model"), ("compiler", "server"), "server"),
        (("inspect", "model"), ("server",), "server"),
        (("inspect", "--grammar", "a.lark"), ("server",), "server"),
        (("bench",), ("server",), "server"),
        (("train", "medusa", "--out", "heads"), ("server",), "train"),
        (("train", "eagle", "--out", "head"), ("compiler", "server"), "train"),
        (("train", "draft", "--out", "small"), ("server",), "train"),
        (("bench", "--address", "localhost:1"), ("compiler",), "client,compiler"),
        (("bench", "--plot", "a.png"), ("bench",), "bench"),
        (("serve",), ("client", "server"), "server"),
        (("train", "reward-tune", "--out", "tuned"), ("tune",), "tune"),
    ],
)
def test_a_command_tells_its_extra_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], blocked: tuple[str, ...], extra: str
) -> None:
    (tmp_path / "schema.json").write_text("{}")
    (tmp_path / "a.lark").write_text('start: "a"')
    code = f"{_without(*blocked)}\nfrom guided.cli import main\nmain()"
    done = _run(code, *arguments, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: guided ")
    assert done.stderr.endswith(f"; pip install 'guided-decoding[{extra}]'\n")
    assert done.stderr.count("\n") == 1


def test_a_reader_of_gguf_that_is_missing_is_not_called_a_broken_file() -> None:
    code = """
from pathlib import Path
from guided import MissingExtraError
from guided.model.convert import convert_gguf
from guided.model.progress import SilentProgress

try:
    convert_gguf(Path("model.gguf"), Path("folder"), SilentProgress())
except MissingExtraError as error:
    print(error)
"""
    done = _run(_BLOCKER.format(blocked={"gguf"}) + code)
    assert done.stdout == (
        "reading model.gguf needs gguf, which is not installed;"
        " pip install 'guided-decoding[server]'\n"
    ), done.stderr


def test_help_and_the_library_of_grammars_need_no_extra() -> None:
    blocker = _without(*MODULES)
    for arguments in (("--help",), ("check", "--help"), ("grammars", "list")):
        done = _guided(blocker, *arguments)
        assert done.returncode == 0, done.stderr


def test_a_module_of_nobody_is_left_alone() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needing("something"):
        raise ModuleNotFoundError("No module named 'own'", name="own")
    assert not isinstance(caught.value, GuidedError)
    with pytest.raises(MissingExtraError, match=r"something needs grpc, .*\[client\]"):  # noqa: SIM117
        with needing("something"):
            raise ModuleNotFoundError("No module named 'grpc.aio'", name="grpc.aio")
