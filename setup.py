"""Compiles the Python that runs for every token and every schema, ahead of time, with mypyc.

Everything else about the project stands in pyproject.toml, and how this is meant in docs/native.md.
``GUIDED_NATIVE`` is ``yes``, ``no``, or ``auto`` (the default): if there is a C compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections import defaultdict
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = (
    "guided/automata/*.py",
    "guided/constraint/compiled.py",
    "guided/constraint/free_text.py",
    "guided/constraint/mask_store.py",
    "guided/constraint/position.py",
    "guided/decoding/acceptance_rates.py",
    "guided/decoding/choice.py",
    "guided/decoding/cost_curve.py",
    "guided/decoding/draft_budget.py",
    "guided/decoding/draft_counts.py",
    "guided/decoding/draft_tree.py",
    "guided/decoding/guess.py",
    "guided/decoding/guesser.py",
    "guided/decoding/lookup_drafter.py",
    "guided/decoding/text_index.py",
    "guided/decoding/token_table.py",
    "guided/decoding/tree_growth.py",
    "guided/decoding/verify.py",
    "guided/engine/engine.py",
    "guided/engine/isolation.py",
    "guided/engine/meter.py",
    "guided/engine/room.py",
    "guided/engine/running.py",
    "guided/engine/scheduler.py",
    "guided/engine/sequence.py",
    "guided/engine/step_times.py",
    "guided/engine/urgency.py",
    "guided/engine/waiting_line.py",
    "guided/frontends/lark/definitions.py",
    "guided/frontends/lark/literals.py",
    "guided/frontends/lark/lower.py",
    "guided/frontends/lark/parser.py",
    "guided/frontends/lark/references.py",
    "guided/frontends/lark/source.py",
    "guided/frontends/lark/syntax.py",
    "guided/frontends/lark/terminals.py",
    "guided/frontends/lark/tokens.py",
    "guided/frontends/regex/case.py",
    "guided/frontends/regex/edges.py",
    "guided/frontends/regex/lazy.py",
    "guided/frontends/regex/python.py",
    "guided/grammar/*.py",
    "guided/kv/block_cache.py",
    "guided/kv/block_pool.py",
    "guided/kv/block_table.py",
    "guided/kv/free_blocks.py",
    "guided/kv/prefix_cursor.py",
    "guided/kv/prefix_index.py",
    "guided/kv/reservation.py",
    "guided/kv/sequence_blocks.py",
    "guided/kv/window.py",
    "guided/model/batch.py",
    "guided/model/seen_rows.py",
    "guided/model/sight.py",
    "guided/network/*.py",
    "guided/recognizer/*.py",
    "guided/tokens/forced.py",
    "guided/tokens/inner.py",
    "guided/tokens/mask_delta.py",
    "guided/tokens/outline.py",
    "guided/tokens/packed.py",
    "guided/tokens/row_traits.py",
    "guided/tokens/walk.py",
)
_BUILDING = {"build", "build_ext", "install", "bdist_wheel", "editable_wheel", "develop"}
"""Of the commands by which this file is run, those that need the extensions."""
_HOLDS_KERNELS = re.compile(r"^from (numba|guided\.automata\.kernel)\b", re.MULTILINE)
"""Kernels are compiled by numba, from their byte code."""


def native_modules() -> list[str]:
    """The files to compile."""
    files = [file for pattern in NATIVE for file in sorted(Path().glob(pattern))]
    return [
        str(file)
        for file in files
        if file.name != "__init__.py" and not _HOLDS_KERNELS.search(file.read_text("utf-8"))
    ]


def is_wanted() -> bool:
    """What GUIDED_NATIVE says; leaves where it asks for a compiler that is not there."""
    wanted = os.environ.get("GUIDED_NATIVE", "auto")
    if wanted not in ("yes", "no", "auto"):
        sys.exit(f"GUIDED_NATIVE is {wanted!r}; say yes, no or auto")
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if wanted == "no" or shutil.which(compiler):
        return wanted != "no"
    found = f"the C compiler {compiler!r} was not found"
    if wanted == "yes":
        sys.exit(f"{found}; install it, or say GUIDED_NATIVE=no for guided as it is interpreted")
    sys.stderr.write(f"warning: {found}: guided stays interpreted, a quarter slower\n")
    return False


def extensions() -> list[Extension]:
    """What mypyc makes of the files."""
    from mypyc.build import mypycify  # only here, since it is not needed without

    options = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    packages: dict[str, list[str]] = defaultdict(list)
    for file in native_modules():
        packages[Path(file).parent.as_posix().replace("/", ".")].append(file)
    # What the modules of a package share lies beside it, as guided/automata__mypyc.
    groups = [(files, package) for package, files in packages.items()]
    return mypycify([*options, *native_modules()], opt_level="2", separate=groups)


class BuildOnAllCores(build_ext):
    """Compiles one package on each core."""

    def finalize_options(self) -> None:
        self.parallel = self.parallel or True
        super().finalize_options()


if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildOnAllCores},
        ext_modules=extensions() if _BUILDING & {*sys.argv} and is_wanted() else [],
    )
