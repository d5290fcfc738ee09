"""A Ray cluster of several nodes on this machine, its applications, and their replicas."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import ray
import yaml
from ray.cluster_utils import Cluster

from guided.client import wait_until_serving
from tests.service.test_supervision import eventually

ROOT = Path(__file__).parents[2]
_NODES = 3


@dataclass(frozen=True)
class Serving:
    """An application on a cluster."""

    dashboard: str
    address: str
    http_port: int
    file: Path
    """The config that was deployed last."""

    @property
    def port(self) -> int:
        """Its port for gRPC."""
        return int(self.address.rpartition(":")[2])

    @property
    def url(self) -> str:
        """The base of its HTTP addresses, without a path."""
        return f"http://127.0.0.1:{self.http_port}"

    def deploy(self, config: Mapping[str, Any]) -> None:
        """Deploy a config by the command, and wait until it is deployed."""
        whole = {**config, "http_options": {"port": self.http_port}}
        self.file.write_text(yaml.safe_dump(whole))
        guided("deploy", "ray", f"--config={self.file}", f"--address={self.dashboard}")

    def replicas(self, deployment: str = "Engine") -> dict[str, int]:
        """Process ids of the running replicas, by their names."""
        with urlopen(f"{self.dashboard}/api/serve/applications/") as response:  # noqa: S310 - it is HTTP
            told = json.load(response)["applications"]["guided"]["deployments"][deployment]
        return {
            each["replica_id"]: each["pid"]
            for each in told["replicas"]
            if each["state"] == "RUNNING"
        }

    def wait_for(self, count: int, *gone: str) -> dict[str, int]:
        """The engines, once their number is reached and certain ones are gone."""
        found: dict[str, int] = {}

        def are_there() -> bool:
            found.clear()
            found.update(self.replicas())
            return len(found) == count and not found.keys() & set(gone)

        eventually(are_there, 120)
        return found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def guided(*words: str) -> str:
    """The output of our command."""
    return _said(sys.executable, "-m", "guided.cli", *words)


def serve(*words: str) -> str:
    """The output of Ray's command."""
    return _said(str(Path(sys.executable).with_name("serve")), *words)


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def config_of(
    port: int,
    engines: int,
    application: str,
    settings: Mapping[str, object],
    *,
    per_node: int = 1,
) -> dict[str, Any]:
    """A config of an application of ours; all requests come in at the head node."""
    return {
        "proxy_location": "HeadOnly",
        "grpc_options": {
            "port": port,
            "grpc_servicer_functions": ["guided_service.ray.proxied.add_services"],
        },
        "applications": [
            {
                "name": "guided",
                "route_prefix": "/",
                "import_path": f"{application}:build",
                "args": {"standby": False, **settings},
                "deployments": [
                    {"name": "Engine", "num_replicas": engines, "max_replicas_per_node": per_node}
                ],
            }
        ],
    }


def echo_config(
    port: int, engines: int, *, per_node: int = 1, **settings: object
) -> dict[str, Any]:
    """The same with engines that echo."""
    return config_of(port, engines, "tests.ray.echo_app", settings, per_node=per_node)


@contextmanager
def cluster(folder: Path, *, nodes: int, cpus: int) -> Iterator[Serving]:
    """A cluster without any deployment; each node offers a number of CPUs."""
    os.environ["PYTHONPATH"] = str(ROOT)  # inherited by all processes of the cluster
    dashboard, port, http_port = free_port(), free_port(), free_port()
    sizes = {"num_cpus": cpus, "object_store_memory": 10**8}
    head = sizes | {"include_dashboard": True, "dashboard_port": dashboard}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            made.add_node(**sizes)
        ray.init(made.address, namespace="serve", log_to_driver=False)
        yield Serving(
            f"http://127.0.0.1:{dashboard}",
            f"127.0.0.1:{port}",
            http_port,
            folder / "serve.yaml",
        )
    finally:
        ray.shutdown()
        made.shutdown()


@contextmanager
def serving(folder: Path, engines: int) -> Iterator[Serving]:
    """An application that echoes, each engine on a node of its own."""
    with cluster(folder, nodes=_NODES, cpus=2) as found:
        found.deploy(echo_config(found.port, engines))
        wait_until_serving(found.address, 60)
        yield found
