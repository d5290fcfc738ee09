"""The files of docs/deploy name existing settings, and leave a server time to end."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from guided_service.config import ServerConfig
from guided_service.ray.settings import checked_settings

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
OTHERS = {"GUIDED_CACHE", "GUIDED_NATIVE"}
"""Variables that are no settings of a server."""


def settings() -> set[str]:
    return {f"GUIDED_{name.upper()}" for name in ServerConfig.model_fields}


FILES = [file for file in sorted(DEPLOY.iterdir()) if file.name != "ray.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_setting_that_is_named_is_one(file: Path) -> None:
    named = set(re.findall(r"\bGUIDED_[A-Z_]+", file.read_text("utf-8")))
    assert named
    assert named - settings() <= OTHERS


@pytest.mark.parametrize("name", ["Dockerfile", "guided.service"])
def test_everything_that_is_cached_is_where_the_server_may_write(name: str) -> None:
    """Elsewhere the file system may be read-only, as in compose.yaml and under systemd.

    Without a place for its kernels Triton does not compile, and torch computes attention.
    """
    text = (DEPLOY / name).read_text("utf-8")
    for variable in ("GUIDED_CACHE", "HF_HOME", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR"):
        found = re.search(rf"\b{variable}=(\S+)", text)
        assert found is not None, variable
        assert Path(found[1]).is_relative_to("/var/cache/guided")


def test_every_setting_of_the_deployment_on_ray_is_one() -> None:
    service, *_ = yaml.safe_load_all((DEPLOY / "ray.yaml").read_text("utf-8"))
    (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    assert application["args"]
    checked_settings(application["args"])


def documents() -> list[Any]:
    return [*yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))]


def test_a_pod_has_time_to_end_and_its_ports_have_names() -> None:
    deployment, service = documents()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = {
        each["name"].removeprefix("GUIDED_").lower(): each["value"] for each in container["env"]
    }
    config = ServerConfig.model_construct(**given)
    needed = float(config.lame_duck_seconds) + float(config.drain_seconds)
    assert pod["terminationGracePeriodSeconds"] > needed + 5
    names = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == names
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == "/health"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_containers_have_time_to_end() -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    for service in composed["services"].values():
        drain = float(service["environment"]["GUIDED_DRAIN_SECONDS"])
        assert float(service["stop_grace_period"].removesuffix("s")) > drain + 5
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_unit_lets_ranks_find_the_network_interfaces() -> None:
    """Neither gloo nor NCCL begins where getifaddrs() fails, which asks the kernel by netlink."""
    text = (DEPLOY / "guided.service").read_text("utf-8")
    allowed = re.search(r"^RestrictAddressFamilies=(.*)$", text, re.MULTILINE)
    assert allowed is not None
    assert {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"} <= {*allowed[1].split()}


def test_the_unit_is_sound(tmp_path: Path) -> None:
    """As systemd reads it; its program is not installed here."""
    text = (DEPLOY / "guided.service").read_text("utf-8")
    seconds = float(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    fields = ServerConfig.model_fields
    assert seconds > fields["drain_seconds"].default + fields["lame_duck_seconds"].default + 5
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "guided.service"
    unit.write_text(text.replace("/opt/guided/bin/guided", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in found.stderr.splitlines() if "guided.service" in line]
    assert said == []
