"""The instruction sets are those of this processor, or of one that it should imitate."""

from __future__ import annotations

import subprocess
import sys
from os import environ

import pytest
import torch

from guided.model.cpu import instructions
from guided.model.cpu.instructions import InstructionSet, available, best_instructions, has

_ZEN4 = dict.fromkeys(("avx2", "fma3", "avx512_vnni", "avx512_bf16"), True)
_ICE_LAKE = dict.fromkeys(("avx2", "fma3", "avx512_vnni"), True)
_ALDER_LAKE = dict.fromkeys(("avx2", "fma3", "avx_vnni"), True)
_SAPPHIRE = _ZEN4 | _ALDER_LAKE | {"amx_bf16": True, "amx_int8": True}
_CASES = [
    (_SAPPHIRE, None, "AMX, AVX-512 BF16, AVX-512 VNNI, AVX-VNNI, AVX2, portable"),
    (_SAPPHIRE, "znver4", "AVX-512 BF16, AVX-512 VNNI, AVX-VNNI, AVX2, portable"),
    (_SAPPHIRE, "Haswell", "AVX2, portable"),
    (_ZEN4, None, "AVX-512 BF16, AVX-512 VNNI, AVX2, portable"),
    (_ZEN4, "sapphirerapids", "AVX-512 BF16, AVX-512 VNNI, AVX2, portable"),
    (_ZEN4, "alderlake", "AVX2, portable"),
    (_ZEN4, "generic", "portable"),
    (_ICE_LAKE, None, "AVX-512 VNNI, AVX2, portable"),
    (_ALDER_LAKE, None, "AVX-VNNI, AVX2, portable"),
    ({"neon": True, "bf16": True}, None, "portable"),
    ({"neon": True, "bf16": True}, "apple-m1", "portable"),
]


@pytest.mark.parametrize(("capabilities", "name", "expected"), _CASES)
def test_a_processor_has_what_it_tells_up_to_what_the_one_named_has(
    capabilities: dict[str, bool],
    name: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.cpu, "_init_amx", lambda: True)
    monkeypatch.setattr(instructions, "named_processor", lambda: name)
    monkeypatch.setattr(instructions, "available", available.__wrapped__)
    assert ", ".join(instructions.available()) == expected
    assert best_instructions() == expected.split(", ")[0]
    assert [each for each in InstructionSet if has(each)] == expected.split(", ")


def test_tiles_need_the_leave_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: _SAPPHIRE)
    monkeypatch.setattr(torch.cpu, "_init_amx", lambda: False)
    monkeypatch.setattr(instructions, "named_processor", lambda: None)
    assert available.__wrapped__()[0] is InstructionSet.AVX512_BF16


@pytest.mark.parametrize(
    ("module", "name", "features", "expected"),
    [
        ("guided.model.cpu.kernel", "haswell", None, "haswell "),
        ("guided.runtime.kernel", "haswell", None, "haswell "),
        ("guided.runtime.kernel", "haswell", "+avx512f", "haswell +avx512f"),
        ("guided.runtime.kernel", None, None, None),
    ],
)
def test_kernels_are_compiled_for_the_processor_named(
    module: str, name: str | None, features: str | None, expected: str | None
) -> None:
    """Numba alone adds the features of this machine to those of the named processor."""
    said = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    others = {key: value for key, value in environ.items() if key not in said}
    script = (
        f"import {module}\n"
        "from numba.core.registry import cpu_target\n"
        "print(*cpu_target.target_context.codegen().magic_tuple()[1:])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=others | {key: value for key, value in said.items() if value is not None},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout.removesuffix("\n")
    if expected is None:
        assert not found.startswith("haswell")
        assert "+" in found
    else:
        assert found == expected
