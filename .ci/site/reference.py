"""Pages of the site that are made of the code: all public names, and the API's definition."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["proto_page", "public_names", "python_page"]

_SECTIONS: Final = {
    "client": "Clients, requests and answers",
    "spec": "Constraints, options and reports",
    "stats": "Models and counters",
    "constraint": "Checking",
    "errors": "Errors",
}
"""By the package below ``guided`` that a name comes from, in the order of the page."""
_BY_THEMSELVES: Final = {
    "Options of a request": ("guided.client.options.Options",),
    "Masks for a host of your own": (
        "guided.compiler.compiler.Compiler",
        "guided.compiler.compiler.Compiled",
        "guided.compiler.matcher.Matcher",
        "guided.compiler.batch.fill_bitmasks",
        "guided.compiler.batch.fill_tree",
    ),
    "Tests of what calls guided": ("guided.testing.server.Server",),
}
"""What is not exported: keyword arguments, and what other packages offer, by where it is."""


def public_names(root: Path) -> Mapping[str, list[str]]:
    """What ``guided`` exports, by the package that it comes from; read, not imported."""
    tree = ast.parse((root / "guided" / "__init__.py").read_text("utf-8"))
    found: dict[str, list[str]] = {}
    exported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported = ast.literal_eval(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("guided."):
            package = node.module.split(".")[1]
            names = [alias.name for alias in node.names if alias.name in exported]
            found.setdefault(package, []).extend(names)
    return {package: sorted(names) for package, names in found.items() if names}


def python_page(root: Path) -> str:
    """Directives of mkdocstrings for each public name, below the heading of its package."""
    names = public_names(root)
    lines = ["# Python", "", "What `import guided` offers. The pages before say how it is used."]
    for package, title in _SECTIONS.items():
        lines += ["", f"## {title}", ""]
        lines += [f"::: guided.{name}\n" for name in names[package]]
    for title, paths in _BY_THEMSELVES.items():
        lines += ["", f"## {title}", ""]
        lines += [f"::: {path}\n" for path in paths]
    return "\n".join(lines) + "\n"


def proto_page(root: Path) -> str:
    """The definition of the API as it stands, a section for each file."""
    parts = [
        "# gRPC\n\nThe API's definition; [using.md](using.md#clients-in-other-languages) says"
        " how clients are made of it.\n"
    ]
    for file in sorted((root / "proto" / "guided" / "v1").glob("*.proto")):
        parts.append(f"## {file.name}\n\n```protobuf\n{file.read_text('utf-8')}```\n")
    return "\n".join(parts)
