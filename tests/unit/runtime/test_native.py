"""The modules compiled ahead of time, which contain nothing that must not be compiled."""

from __future__ import annotations

import ast
import runpy
import tomllib
from pathlib import Path

import pytest

from guided.runtime.native import is_native

_ROOT = Path(__file__).parents[3]
_BUILT = sorted(_ROOT.glob("guided/runtime/*__mypyc*.so"))


@pytest.fixture
def native_modules(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(_ROOT)
    names = runpy.run_path("setup.py", run_name="setup")["native_modules"]()
    return [_ROOT / name for name in names]


def test_a_build_requires_what_compiled_modules_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(_ROOT)
    required = runpy.run_path("setup.py", run_name="setup")["compilers"]()
    needed = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {*needed["dependencies"], *needed["optional-dependencies"]["compiler"]} < {*required}
    assert any(name.startswith("mypy") for name in required)


def test_what_was_built_is_used() -> None:
    assert is_native() == bool(_BUILT)


def test_kernels_are_left_to_numba(native_modules: list[Path]) -> None:
    assert native_modules
    for file in native_modules:
        assert "@kernel" not in file.read_text("utf-8"), file


def test_no_generator_expression_is_stored(native_modules: list[Path]) -> None:
    # Compiled, a generator expression is a list that is built at once: the same for a function
    # that consumes all of it, but one that is stored may never end.
    stored = [
        f"{file.relative_to(_ROOT)}:{node.lineno}"
        for file in native_modules
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Return | ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.GeneratorExp)
    ]
    assert not stored


def test_a_name_of_errors_has_one_type(native_modules: list[Path]) -> None:
    # Compiled, a name has the type that it had first: another error bound to it is a TypeError.
    mixed = [
        f"{file.relative_to(_ROOT)}:{function.lineno}"
        for file in native_modules
        for function in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef)
        and len({name for name, _ in _bound(function)}) < len(_bound(function))
    ]
    assert not mixed


def test_nothing_is_a_class_of_c(native_modules: list[Path]) -> None:
    # Compiled, attributes lie where the class of C has its own, and are the same in all threads.
    found = [
        f"{file.relative_to(_ROOT)}:{node.lineno}"
        for file in native_modules
        for node in _classes(file)
        if any(isinstance(base, ast.Attribute) for base in node.bases)
    ]
    assert not found


def test_no_interpreted_class_derives_from_a_compiled_one(native_modules: list[Path]) -> None:
    # It could not be instantiated: that raises a TypeError.
    compiled = {
        (".".join(file.relative_to(_ROOT).with_suffix("").parts), node.name)
        for file in native_modules
        for node in _classes(file)
        if not {ast.unparse(base) for base in node.bases} & _LEFT_TO_PYTHON
    }
    interpreted = {*(_ROOT / "guided").rglob("*.py")} - {*native_modules}
    found = [
        f"{file.relative_to(_ROOT)}:{node.lineno}"
        for file in interpreted
        for node in _classes(file)
        for base in node.bases
        if (_imported(file).get(_name(base)), _name(base)) in compiled
    ]
    assert not found


_LEFT_TO_PYTHON = {"NamedTuple", "Protocol", "StrEnum", "Enum", "IntEnum", "TypedDict"}
"""Classes that derive from these are not compiled, in any module."""


def _classes(file: Path) -> list[ast.ClassDef]:
    tree = ast.parse(file.read_text("utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _imported(file: Path) -> dict[str, str | None]:
    """Return by name the module that it is imported from."""
    tree = ast.parse(file.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names}


def _name(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0]


def _bound(function: ast.FunctionDef) -> set[tuple[str, str]]:
    """Return the names that errors are bound to, each with the caught types."""
    return {
        (node.name, ast.dump(node.type))
        for node in ast.walk(function)
        if isinstance(node, ast.ExceptHandler) and node.name and node.type
    }
