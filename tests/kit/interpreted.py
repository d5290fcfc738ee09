"""Modules from their sources, even if a compiled form exists beside them."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import guided

__all__ = ["interpreted"]


def interpreted(name: str) -> ModuleType:
    """A copy of a module of ``guided`` from its source, whose classes tests may derive from.

    Compiled classes allow only compiled subclasses.
    """
    source = Path(guided.__file__).parents[1] / f"{name.replace('.', '/')}.py"
    spec = spec_from_file_location(f"{name}_as_written", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
