"""What the site has besides docs/: pages from elsewhere, and links among all of them.

In the repository links lead from file to file. Those to files that are no pages of the site become
the file's path; one that leads to no file stops the build.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
from reference import proto_page, python_page

_ROOT: Final = Path(__file__).parents[2]
_MORE: Final = {
    "README.md": "index.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "benchmarks/RESULTS.md": "RESULTS.md",
    "benchmarks/results/masks.md": "results/masks.md",
    "benchmarks/results/grammars.md": "results/grammars.md",
    "benchmarks/results/correctness.md": "results/correctness.md",
    "benchmarks/results/speculation.md": "results/speculation.md",
    "benchmarks/results/forward.md": "results/forward.md",
    "benchmarks/results/end-to-end.md": "results/end-to-end.md",
    "benchmarks/results/service.md": "results/service.md",
    "benchmarks/results/attacks.md": "results/attacks.md",
    "benchmarks/results/hosts.md": "results/hosts.md",
    "benchmarks/results/gpu.md": "results/gpu.md",
}
"""Pages that lie outside of docs/, and where the site has them."""
_DECISIONS: Final = "decisions/index.md"
_LINK: Final = re.compile(
    r"^ *```.*?^ *```|`[^`\n]+`|(?P<mark>!?)\[(?P<text>[^\]\n]*)\]\((?P<to>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
"""A link, or code, in which there is none."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere, and a list of the decisions."""
    for source, name in _MORE.items():
        text = (_ROOT / source).read_text("utf-8")
        files.append(File.generated(config, name, content=text))
    decided = sorted((_ROOT / "docs" / "decisions").glob("*.md"))
    lines = [f"- [{_title(file)}]({file.name})" for file in decided]
    content = "# Decisions\n\n" + "\n".join(lines) + "\n"
    files.append(File.generated(config, _DECISIONS, content=content))
    for name, text in (("python.md", python_page(_ROOT)), ("grpc.md", proto_page(_ROOT))):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Have links lead to pages of the site."""
    name = page.file.src_uri
    back = {site: source for source, site in _MORE.items()}
    source = back.get(name, f"docs/{name}")
    if name == _DECISIONS:
        return markdown

    def led(found: re.Match[str]) -> str:
        to, _, anchor = (found["to"] or "").partition("#")
        if not to or "://" in to or to.startswith("mailto:"):
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), to))
        if not (_ROOT / target).exists():
            raise PluginError(f"{source} links to {found['to']}, and there is no {target}")
        site = _on_site(target, files)
        if site is None:
            shown = found["text"]
            return shown if target in shown else f"{shown} (`{target}`)"
        way = posixpath.relpath(site, posixpath.dirname(name) or ".")
        return f"{found['mark']}[{found['text']}]({way}{'#' * bool(anchor)}{anchor})"

    return _LINK.sub(led, markdown)


def _on_site(target: str, files: Files) -> str | None:
    """Where the site has a file of the repository, if it does."""
    if target == "docs/decisions":
        return _DECISIONS
    site = _MORE.get(target, target.removeprefix("docs/"))
    is_page = target in _MORE or target.startswith("docs/")
    found = files.get_file_from_path(site) if is_page else None
    return site if found is not None and found.inclusion.is_included() else None


def _title(file: Path) -> str:
    return file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
