"""Maps imports to the package's extras, and makes the error for a missing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from guided.errors import MissingExtraError

__all__ = ["DISTRIBUTION", "MODULES", "missing_extra", "needing"]

DISTRIBUTION: Final = "guided-decoding"
"""The name that the package is installed by; it is imported as ``guided``."""

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "client": ("google", "grpc", "grpc_health"),
    "compiler": (
        "cachetools",
        "jsonschema_specifications",
        "lark",
        "llvmlite",
        "numba",
        "numpy",
        "tokenizers",
    ),
    "server": (
        "accelerate",
        "filelock",
        "gguf",
        "grpc_reflection",
        "huggingface_hub",
        "jinja2",
        "msgspec",
        "platformdirs",
        "prometheus_client",
        "pydantic_settings",
        "safetensors",
        "structlog",
        "torch",
        "transformers",
        "zmq",
    ),
    "http": ("starlette", "uvicorn"),
    "ray": ("ray", "yaml"),
    "bench": ("matplotlib",),
    "tune": ("datasets", "trl"),
    "telemetry": ("opentelemetry",),
}
"""What each extra provides itself, by the names that are imported."""


@contextmanager
def needing(what: str, extra: str | None = None) -> Iterator[None]:
    """Raise MissingExtraError if ``what``, done in the block, lacks a module of an extra.

    It names ``extra``, which has all that is needed, or else the extra that provides the module.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(what, error, extra)
        if missing is None:
            raise
        raise missing from error


def missing_extra(
    what: str, error: ModuleNotFoundError, extra: str | None = None
) -> MissingExtraError | None:
    """Return the error to raise instead; ``None`` if no extra provides the module."""
    module = (error.name or "").partition(".")[0]
    brings = next((name for name, modules in MODULES.items() if module in modules), None)
    if brings is None:
        return None
    named = extra or brings
    return MissingExtraError(
        f"{what} needs {module}, which is not installed",
        extra=named,
        hint=f"pip install '{DISTRIBUTION}[{named}]'",
    )
