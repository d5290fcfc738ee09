"""The site links every page of docs/, or `make docs` would stop, and documents all names."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

import guided

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".ci" / "site"


class Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types here
    """Reads YAML without its Python objects, which spell the anchors of the site's headings."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def config() -> Any:
    return yaml.load((SITE / "mkdocs.yml").read_text("utf-8"), Loader)  # noqa: S506 - a safe one


def leaves(entry: Any) -> list[str]:
    """The pages of a part of the nav, whatever they are grouped under."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in leaves(part)]


def test_every_page_is_in_the_nav_once() -> None:
    settings = config()
    elsewhere = tuple((settings["exclude_docs"] + settings["not_in_nav"]).split())
    docs = ROOT / "docs"
    written = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    added = {page for page in leaves(settings["nav"]) if page not in written}
    expected = {page for page in written if not page.startswith(elsewhere)} | added
    assert sorted(leaves(settings["nav"])) == sorted(expected)
    hook = (SITE / "pages.py").read_text("utf-8")
    assert all(f'"{page}"' in hook for page in added), added


def reference() -> ModuleType:
    """The part of the build that makes pages of the code, which needs no mkdocs."""
    spec = spec_from_file_location("reference", SITE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_in_the_reference() -> None:
    told = re.findall(r"^::: (\S+)$", reference().python_page(ROOT), re.MULTILINE)
    assert {f"guided.{name}" for name in guided.__all__} <= {*told}
    assert len({*told}) == len(told)
    for path in told:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path


def test_the_reference_has_the_whole_api() -> None:
    page = reference().proto_page(ROOT)
    for service in ("GenerationService", "GrammarService", "ModelService"):
        assert f"service {service} {{" in page
