"""Configs for Ray: their contents, and refusals before a cluster gets them."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from typer.testing import CliRunner

from guided.errors import RequestError, ServiceUnavailableError
from guided_service.ray.cli import _APPLICATIONS, _call, deploy
from guided_service.ray.ray_config import config_of, read_ray_config, written

WRITTEN = """\
proxy_location: EveryNode
http_options:
  port: 8000
grpc_options:
  port: 9000
  grpc_servicer_functions:
  - guided_service.ray.proxied.add_services
applications:
- name: guided
  route_prefix: /
  import_path: guided_service.ray.app:build
  args:
    max_requests_in_flight: 512
    model: Qwen/Qwen3-0.6B
    kv_memory: 2GiB
  deployments:
  - name: Engine
    autoscaling_config:
      min_replicas: 1
      max_replicas: 8
      target_ongoing_requests: 16
      policy:
        policy_function: guided_service.ray.scaling:by_queue_and_cache
    ray_actor_options:
      num_cpus: 4
"""


def test_a_config_is_written_and_read_again(tmp_path: Path) -> None:
    settings = {"model": "Qwen/Qwen3-0.6B", "kv_memory": "2GiB"}
    config = config_of(settings, replicas="1-8", cpus=4)
    assert written(config) == WRITTEN
    file = tmp_path / "serve.yaml"
    file.write_text(WRITTEN)
    assert read_ray_config(file) == config


@pytest.mark.parametrize("replicas", ["", "0", "two", "3-2", "1-", "-1"])
def test_replicas_are_a_number_or_a_range(replicas: str) -> None:
    with pytest.raises(RequestError, match="is neither a number nor a range; give 2, or 1-8"):
        config_of({}, replicas=replicas)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"modell": "x"},
            "args sets 'modell', which is no setting of a server; put options of deployments "
            "under 'deployments'",
        ),
        (
            {"port": 50051},
            "args sets 'port', which is not a setting of this application; Ray's own options for "
            "it are in http_options and grpc_options of its config",
        ),
        (
            {"stall_seconds": 5},
            "args sets 'stall_seconds', which is not a setting of this application; Ray's own "
            "options for it are in http_options and grpc_options of its config",
        ),
        (
            {"max_batch": 0},
            "args: max_batch: Input should be greater than or equal to 1",
        ),
    ],
)
def test_settings_are_those_of_a_server_that_ray_leaves_it(
    settings: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestError) as caught:
        config_of(settings)
    assert str(caught.value) == told
    file = tmp_path / "serve.yaml"
    config = config_of({})
    config["applications"][0]["args"] = settings
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(RequestError) as read:
        read_ray_config(file)
    assert str(read.value) == told


@pytest.mark.parametrize(
    "text", ["", "applications: guided", "applications: [guided]", "- a list", "{"]
)
def test_a_file_that_is_no_config(text: str, tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text)
    with pytest.raises(
        RequestError, match=r"serve\.yaml (is no config of Ray Serve|cannot be read)"
    ):
        read_ray_config(file)


def test_settings_in_a_file_have_names(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    config = config_of({})
    config["applications"][0]["args"] = ["model"]
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(
        RequestError, match=r"serve\.yaml: args is \['model'\], which is not a mapping of settings"
    ):
        read_ray_config(file)


ANSWERS = {
    "/page": b"<p>hello",
    "/cut": b"{",
    "/empty": b"",
    "/list": b"[1]",
    "/other": b'{"status": "ok"}',
}


class Page(BaseHTTPRequestHandler):
    """Some other server."""

    def do_GET(self) -> None:
        content = ANSWERS[self.path.removesuffix(_APPLICATIONS)]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_what_is_no_dashboard_is_told_so() -> None:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        try:
            for path in ANSWERS:
                with pytest.raises(RequestError, match="is no dashboard of Ray; http://head:8265"):
                    _call(address + path)
            with pytest.raises(RequestError, match="is no dashboard of Ray; http://head:8265"):
                _call(address, config_of({}))
        finally:
            server.shutdown()
            thread.join()
    with pytest.raises(ServiceUnavailableError, match=f"no dashboard of Ray at {address}"):
        _call(address)


class Dashboard(BaseHTTPRequestHandler):
    """Ray's, which has no application."""

    def do_GET(self) -> None:
        self._answer(b'{"applications": {}}')

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"")

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.timeout(60)
def test_taking_all_applications_away_waits_for_none(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("applications: []\n")
    with HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            asked = ["--config", str(file), "--address", f"http://127.0.0.1:{server.server_port}"]
            done = CliRunner().invoke(deploy, ["ray", *asked])
        finally:
            server.shutdown()
            thread.join()
    assert done.exit_code == 0, done.output
