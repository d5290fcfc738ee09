"""The settings of ``guided serve`` that also apply here: the ``args`` of the application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from guided.errors import RequestError
from guided_service.config import ServerConfig
from guided_service.messages import ModelChoice

__all__ = ["MODELS", "SETTINGS", "checked_settings", "settings_by_model"]

_OF_RAY: Final = frozenset(
    {
        "connection_age_seconds",
        "host",
        "http_host",
        "http_port",
        "idle_seconds",
        "insecure",
        "lame_duck_seconds",
        "look_seconds",
        "max_connections",
        "max_streams_per_connection",
        "metrics_host",
        "metrics_port",
        "playground",
        "port",
        "reflection",
        "stall_seconds",
        "tls_cert",
        "tls_client_ca",
        "tls_key",
    }
)
"""Settings of what Ray's proxy does, or of what does not exist here."""

SETTINGS: Final = tuple(name for name in ServerConfig.model_fields if name not in _OF_RAY)
"""Names of the settings that apply to engines and ingress."""

MODELS: Final = "models"
"""The name under which ``args`` lists several models, each with a name and settings of its own."""

_OF_MODEL: Final = frozenset(each.name for each in msgspec.structs.fields(ModelChoice))
"""Settings of an engine, which each model may set for itself."""


def checked_settings(settings: Mapping[str, object]) -> ServerConfig:
    """Return the settings of the door, with defaults; raises RequestError for faulty settings."""
    for own in settings_by_model(settings).values():
        _checked(own)
    return _checked({name: value for name, value in settings.items() if name != MODELS})


def settings_by_model(settings: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return the settings of each model's engines by the name that requests use, in order.

    ::

        model: M, threads: 4                      ->  "": model: M, threads: 4
        threads: 4, models: [{name: a, model: M}]  ->  "a": threads: 4, model: M

    ``models`` is a list, as not every writer of YAML keeps the order of a mapping.
    """
    if MODELS not in settings:
        return {"": dict(settings)}
    models = settings[MODELS]
    if not isinstance(models, list) or not models:
        raise RequestError(
            "args: models lists no model", hint="models: [{ name: chat, model: Qwen/Qwen3-0.6B }]"
        )
    if "model" in settings:
        raise RequestError(
            "args sets model and models", hint="put the model under models, with a name"
        )
    common = {name: value for name, value in settings.items() if name != MODELS}
    found: dict[str, dict[str, object]] = {}
    for each in models:
        name, own = _named(each)
        if name in found:
            raise RequestError(f"args: two models have the name {name!r}", hint="rename one")
        found[name] = common | own
    return found


def _named(model: Any) -> tuple[str, dict[str, object]]:
    """Return the name of one of several models, and the settings it sets for itself."""
    own = dict(model) if isinstance(model, Mapping) else {}
    name = own.pop("name", None)
    # Deployments are named after it.
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,64}", name, re.ASCII):
        raise RequestError(
            f"args: models has a model named {name!r:.80}",
            hint="give each a name of up to 64 letters, digits, dots, dashes and underscores",
        )
    if "model" not in own:
        raise RequestError(f"args: {name} does not say which model it is", hint="set model there")
    for key in sorted(own.keys() - _OF_MODEL):
        raise RequestError(
            f"args: {name} sets {key!r}, which is no setting of an engine",
            hint="put settings that hold for all models beside models",
        )
    return name, own


def _checked(settings: Mapping[str, object]) -> ServerConfig:
    for name in sorted(settings.keys() - set(SETTINGS)):
        if name in _OF_RAY:
            raise RequestError(
                f"args sets {name!r}, which is not a setting of this application",
                hint="Ray's own options for it are in http_options and grpc_options of its config",
            )
        raise RequestError(
            f"args sets {name!r}, which is no setting of a server",
            hint="put options of deployments under 'deployments'",
        )
    try:
        return ServerConfig.model_validate(settings)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
        raise RequestError(f"args: {faults}") from error
