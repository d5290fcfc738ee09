"""Chooses the device of a model, by its name and by what torch finds on this machine."""

from __future__ import annotations

import logging
import re
from typing import Final

import torch

from guided.errors import ModelError, RequestError

__all__ = ["AUTO", "CPU", "choose_device", "device_text", "may_use_cuda"]

AUTO: Final = "auto"
CPU: Final = torch.device("cpu")
_CUDA: Final = re.compile(r"cuda(?::(\d{1,3}))?", re.ASCII)
_WAY_OUT: Final = (
    " (the page 'Start Locally' of PyTorch's site tells which), or set device to 'cpu'"
)
_log: Final = logging.getLogger(__name__)


def choose_device(name: str = AUTO) -> torch.device:
    """Return the device called ``auto``, ``cpu``, ``cuda`` (the first one) or ``cuda:N``.

    ``auto`` is the first CUDA device if torch can compute on it, else the CPU. Raises
    ``RequestError`` for any other name, ``ModelError`` for a CUDA device that cannot be used.
    """
    if name == "cpu":
        return CPU
    if name == AUTO:
        return _first_usable()
    found = _CUDA.fullmatch(name)
    if found is None:
        raise RequestError(
            f"device {name!r} is none of 'auto', 'cpu', 'cuda', 'cuda:N'",
            field="device",
            hint="N is the number of a CUDA device, from 0",
        )
    device = torch.device("cuda", int(found[1] or 0))
    _require(device)
    return device


def may_use_cuda(name: str) -> bool:
    """Whether ``choose_device`` could find a CUDA device; does not search for one."""
    has_build = torch.version.cuda is not None or torch.version.hip is not None
    return name != "cpu" and has_build


def device_text(device: torch.device) -> str:
    """Return its name for people, with that of the product if there are several."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


def _first_usable() -> torch.device:
    """Return the first CUDA device if it can be used, else the CPU; a warning says why not."""
    if not torch.cuda.is_available():
        return CPU
    device = torch.device("cuda", 0)
    try:
        _require(device)
    except ModelError as error:
        _log.warning("a CUDA device is left alone, the CPU computes: %s", error)
        return CPU
    return device


def _require(device: torch.device) -> None:
    """Raise ``ModelError`` unless torch can compute on a CUDA device."""
    version = f"torch {torch.__version__}"
    if torch.version.cuda is None and torch.version.hip is None:
        raise ModelError(
            f"there is no {device}: {version} was built for the CPU alone",
            hint=f"install a CUDA build of torch{_WAY_OUT}",
        )
    if not torch.cuda.is_available():
        raise ModelError(
            f"there is no {device}: {version} finds no CUDA device",
            hint="check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES, or install a CUDA "
            f"build of torch for that driver{_WAY_OUT}",
        )
    count = torch.cuda.device_count()
    if device.index >= count:
        raise ModelError(
            f"there is no {device}: of CUDA devices {version} finds {count}, the first is cuda:0",
            hint="choose one of them, and check CUDA_VISIBLE_DEVICES",
        )
    try:
        # This build may lack machine code for a device that was found, or another process own it.
        torch.ones(1, device=device).add(1).item()
    except RuntimeError as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"{version} finds {device}, but cannot compute on it: {reason}",
            hint=f"install a CUDA build of torch for that device and its driver{_WAY_OUT}",
        ) from error
