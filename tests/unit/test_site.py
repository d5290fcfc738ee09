"""The nav of the site leads to every page of docs/; without one `make docs` stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".ci" / "site"


class Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types here
    """YAML whose Python objects, with which the site's headings are spelt, are passed over."""


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
