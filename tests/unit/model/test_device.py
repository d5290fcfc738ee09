"""A device is chosen by its name, and an unavailable one is refused with a way out."""

from __future__ import annotations

import pytest
import torch

from guided.errors import ModelError, RequestError
from guided.model.device import CPU, choose_device, device_text
from guided.model.load import native_dtype
from tests.kit.cuda import NEEDS_CUDA

PAGE = "(the page 'Start Locally' of PyTorch's site tells which), or set device to 'cpu'"


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of torch for CUDA on a machine without a device."""
    monkeypatch.setattr("torch.version.cuda", "12.6")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch finds two devices; nothing more can be simulated without a real one."""
    monkeypatch.setattr("torch.version.cuda", "12.6")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)


@pytest.mark.usefixtures("no_cuda")
@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_without_cuda_the_cpu_is_chosen(name: str) -> None:
    assert choose_device(name) == CPU
    assert device_text(choose_device(name)) == "cpu"


@pytest.mark.parametrize(
    "name", ["", "gpu", "CPU", "Cuda", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "meta"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        choose_device(name)
    assert str(caught.value) == (
        f"device {name!r} is none of 'auto', 'cpu', 'cuda', 'cuda:N'; N is the number of a CUDA "
        "device, from 0"
    )
    assert caught.value.field == "device"


def refusal(name: str) -> str:
    with pytest.raises(ModelError) as caught:
        choose_device(name)
    return str(caught.value)


@pytest.mark.parametrize(("name", "device"), [("cuda", "cuda:0"), ("cuda:3", "cuda:3")])
def test_cuda_is_refused_by_a_build_for_the_cpu(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr("torch.version.hip", None)
    assert refusal(name) == (
        f"there is no {device}: torch {torch.__version__} was built for the CPU alone; install a "
        f"CUDA build of torch {PAGE}"
    )


@pytest.mark.usefixtures("no_cuda")
def test_cuda_is_refused_where_no_device_is_found() -> None:
    assert refusal("cuda") == (
        f"there is no cuda:0: torch {torch.__version__} finds no CUDA device; check the driver "
        f"with nvidia-smi, and CUDA_VISIBLE_DEVICES, or install a CUDA build of torch for that "
        f"driver {PAGE}"
    )


@pytest.mark.usefixtures("two_devices")
def test_a_device_beyond_the_last_is_refused() -> None:
    assert refusal("cuda:2") == (
        f"there is no cuda:2: of CUDA devices torch {torch.__version__} finds 2, the first is "
        "cuda:0; choose one of them, and check CUDA_VISIBLE_DEVICES"
    )


@pytest.mark.usefixtures("two_devices")
def test_a_device_that_cannot_compute_is_refused_or_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_sizes: int, **_options: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: no kernel image is available\nCompile with ...")

    monkeypatch.setattr("torch.ones", fail)
    reason = (
        f"torch {torch.__version__} finds cuda:0, but cannot compute on it: CUDA error: no kernel "
        f"image is available; install a CUDA build of torch for that device and its driver {PAGE}"
    )
    assert refusal("cuda") == reason
    assert choose_device("auto") == CPU
    assert caplog.messages == [f"a CUDA device is left alone, the CPU computes: {reason}"]


@NEEDS_CUDA
@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_the_first_device_is_chosen(name: str) -> None:
    device = choose_device(name)
    assert device == torch.device("cuda", 0)
    assert device_text(device) == f"cuda:0 ({torch.cuda.get_device_name(0)})"


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)],
)
def test_the_dtype_of_a_device_is_what_it_multiplies(
    capability: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _device: capability)
    assert native_dtype(torch.device("cuda", 1)) is dtype
