"""The files of the API load without others, in any language, and are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from guided.client import Client
from tests.service.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
FILES = sorted(file.relative_to(PROTO).as_posix() for file in PROTO.rglob("*.proto"))
_LEFT_OUT = (".git", ".venv", ".*_cache", "__pycache__", "build", "*.egg-info", "*.so", "tests")
_BUILD = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # what is built sets the arguments anew
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""
_CALL = """
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const [proto, address] = process.argv.slice(2);
const files = ["guided/v1/generation", "guided/v1/model", "google/rpc/error_details"];
const definition = loader.loadSync(
  files.map((file) => `${file}.proto`),
  { includeDirs: [proto], enums: String },
);
const { v1 } = grpc.loadPackageDefinition(definition).guided;
const open = (service) => new v1[service](address, grpc.credentials.createInsecure());
open("ModelService").getModel({}, (failure, told) => {
  if (failure) throw failure;
  const requests = [{ text: "hi" }, { text: "refuse" }];
  const call = open("GenerationService").generateBatch({ requests });
  const outcomes = [];
  call.on("data", (one) => (outcomes[one.index || 0] = one));
  call.on("end", () => console.log(JSON.stringify({ model: told.model.name, outcomes })));
});
"""


def test_the_vendored_files_are_those_of_their_package() -> None:
    """Apart from their notices, which change every year."""
    from google.rpc import status_pb2

    folder = Path(status_pb2.__file__).parent
    for name in ("status.proto", "error_details.proto"):
        ours, theirs = (
            (at / name).read_text("utf-8").partition("syntax =")[2]
            for at in (PROTO / "google" / "rpc", folder)
        )
        assert ours.split() == theirs.split(), name


def test_wheel_and_source_distribution_hold_the_api(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "built"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    subprocess.run(
        [sys.executable, "-c", _BUILD, str(built)],
        cwd=source,
        env={**os.environ, "GUIDED_NATIVE": "no"},
        check=True,
        capture_output=True,
    )
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as files:
        installed = set(files.namelist())
    with tarfile.open(archive) as files:
        shipped = {name.partition("/")[2] for name in files.getnames()}
    assert {f"guided/proto/{name}" for name in FILES} <= installed
    tops = {name.partition("/")[0] for name in installed}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"guided", "guided_service"}
    assert "guided/library/url.lark" in installed
    assert "guided_service/http/page/index.html" in installed
    assert {f"proto/{name}" for name in FILES} <= shipped
    assert {"guided/py.typed", "guided_service/py.typed"} <= installed


def test_a_client_in_node_loads_the_files_alone(
    tmp_path: Path, echo_server: ServerProcess, echo: Client
) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("Node and npm are not installed")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    packages = ["@grpc/grpc-js@1", "@grpc/proto-loader@0.8"]
    fetched = subprocess.run(
        [*install, *packages], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    if fetched.returncode != 0:
        pytest.skip(f"npm cannot fetch the packages: {fetched.stderr.strip()[-200:]}")
    (tmp_path / "call.js").write_text(_CALL, "utf-8")
    called = subprocess.run(
        ["node", "call.js", str(PROTO), echo_server.address],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert called.returncode == 0, called.stderr
    told = json.loads(called.stdout)
    assert told["model"] == echo.model().name
    answered, refused = told["outcomes"]
    assert answered["response"]["text"] == "hi"
    assert refused["error"]["message"] == "at /type: the type is odd; even it out"
