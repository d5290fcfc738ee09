"""Compiles ahead of time what runs for every token and every schema: with mypyc, and kernels.

Everything else about the project is in pyproject.toml; docs/native.md explains the native form.
``GUIDED_NATIVE`` is ``yes``, ``no``, or ``auto`` (the default): if there is a C compiler.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

NATIVE = (
    "guided/decoding/choice.py",
    "guided/decoding/draft_budget.py",
    "guided/decoding/draft_counts.py",
    "guided/decoding/draft_policy.py",
    "guided/decoding/draft_tree.py",
    "guided/decoding/drafter.py",
    "guided/decoding/expansion.py",
    "guided/decoding/judged_proposals.py",
    "guided/decoding/rejection.py",
    "guided/decoding/token_distribution.py",
    "guided/decoding/trace.py",
    "guided/decoding/typical.py",
    "guided/decoding/verify.py",
    "guided/drafters/best_first.py",
    "guided/drafters/lookahead.py",
    "guided/drafters/lookup.py",
    "guided/drafters/suffix.py",
    "guided/drafters/suffix_pools.py",
    "guided/drafters/suffix_trie.py",
    "guided/drafters/text_index.py",
    "guided/drafters/union.py",
    "guided/engine/answer_state.py",
    "guided/engine/beams.py",
    "guided/engine/contrastive.py",
    "guided/engine/deadlines.py",
    "guided/engine/drafting.py",
    "guided/engine/engine.py",
    "guided/engine/group.py",
    "guided/engine/step_deadline.py",
    "guided/engine/request_isolation.py",
    "guided/engine/counters.py",
    "guided/engine/model_call.py",
    "guided/engine/open_requests.py",
    "guided/engine/results.py",
    "guided/engine/runnable.py",
    "guided/engine/sampled.py",
    "guided/engine/scheduler.py",
    "guided/engine/step_committer.py",
    "guided/grammar/context_free.py",
    "guided/grammar/ebnf/parser.py",
    "guided/grammar/lark/bodies.py",
    "guided/grammar/lark/definitions.py",
    "guided/grammar/lark/lower.py",
    "guided/grammar/lark/parser.py",
    "guided/grammar/lark/source.py",
    "guided/grammar/lark/syntax.py",
    "guided/grammar/lark/terminals.py",
    "guided/grammar/lark/tokens.py",
    "guided/grammar/machine/*.py",
    "guided/grammar/network/*.py",
    "guided/grammar/token_parser.py",
    "guided/json_schema/formulas/*.py",
    "guided/json_schema/machine/*.py",
    "guided/json_schema/reader/applicators.py",
    "guided/json_schema/reader/container_keywords.py",
    "guided/json_schema/reader/dialects.py",
    "guided/json_schema/reader/documents.py",
    "guided/json_schema/reader/keywords.py",
    "guided/json_schema/reader/lower.py",
    "guided/json_schema/reader/lowering_check.py",
    "guided/json_schema/reader/locations.py",
    "guided/json_schema/reader/schema_index.py",
    "guided/json_schema/reader/text.py",
    "guided/json_schema/reader/unevaluated.py",
    "guided/json_schema/reader/value_keywords.py",
    "guided/json_schema/reader/schema_context.py",
    "guided/kv/block_cache.py",
    "guided/kv/block_pool.py",
    "guided/kv/block_table.py",
    "guided/kv/prefix_cursor.py",
    "guided/kv/prefix_index.py",
    "guided/kv/reservation.py",
    "guided/kv/sequence_blocks.py",
    "guided/machine/*.py",
    "guided/masks/compiled.py",
    "guided/masks/token_completions.py",
    "guided/masks/forced.py",
    "guided/masks/independent.py",
    "guided/masks/left_context.py",
    "guided/masks/mask_counts.py",
    "guided/masks/mask_delta.py",
    "guided/masks/mask_keys.py",
    "guided/masks/mask_store.py",
    "guided/masks/outline.py",
    "guided/masks/packed.py",
    "guided/masks/piece_speller.py",
    "guided/masks/resolved_walks.py",
    "guided/masks/split_automaton.py",
    "guided/masks/splitting.py",
    "guided/masks/state_masks.py",
    "guided/masks/token_steps.py",
    "guided/masks/walk.py",
    "guided/masks/walker.py",
    "guided/model/batch.py",
    "guided/model/visible.py",
    "guided/regular/*.py",
    "guided/regular/patterns/character_classes.py",
    "guided/regular/patterns/ecma.py",
    "guided/regular/patterns/ecma_characters.py",
    "guided/regular/patterns/python.py",
    "guided/regular/patterns/terminal_edges.py",
    "guided/runtime/at_drop.py",
    "guided/runtime/depth.py",
    "guided/runtime/work_budget.py",
)
_BUILDING = {"build", "build_ext", "install", "bdist_wheel", "editable_wheel", "develop"}
"""The commands of this file that need the extensions."""
_ANALYSIS = """
[mypy]
follow_imports = silent
ignore_missing_imports = True
[mypy-numba.*,torch.*,transformers.*]
follow_imports = skip
[mypy-guided.v1.*]
ignore_errors = True
"""
"""Settings of the type analysis: reading torch's types takes minutes and adds nothing. Stubs are
never silent, and those of the wire conflict with a grpc that is not installed."""
_AS_LIST = ": warning: Treating generator comprehension as list"
"""mypyc's warning for each generator expression; tests/unit/runtime/test_native.py finds those that
it harms."""
_FLAGS = ["-fvisibility=hidden", "-fno-plt", "-w", "-g0"]
"""Functions are visible to no other library, so that calls among them are direct. Nobody reads the
C that mypyc writes, so warnings are useless (mypyc turns unknown ones into errors), and so is the
debug information that Python requests: an eighth of the compiler's time."""
_LIBRARY = "guided.runtime.native"
"""The library that all modules share is guided.runtime.native__mypyc."""
_HEADERS = "build/guided/runtime"
_COMPILERS = ("mypy>=2.4,<3", "types-cachetools")
"""The package that has mypyc, and a package of types that it needs."""
_PREPARE = "from guided.constraint.preparation import prepare_kernels; prepare_kernels()"
_KERNELS = "guided/kernels"
"""Where an installation keeps kernels; see guided/runtime/kernel_cache.py."""
_HOLDS_KERNELS = re.compile(r"^from (numba|guided\.runtime\.kernel)\b", re.MULTILINE)
"""Finds kernels, which numba compiles from their byte code."""


def native_modules() -> list[str]:
    """Return the files to compile."""
    files = [file for pattern in NATIVE for file in sorted(Path().glob(pattern))]
    return [
        str(file)
        for file in files
        if file.name != "__init__.py" and not _HOLDS_KERNELS.search(file.read_text("utf-8"))
    ]


def is_wanted() -> bool:
    """Return what GUIDED_NATIVE says; exits if it requires a missing compiler."""
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


def has_kernels() -> bool:
    """Whether kernels are compiled, which takes no C compiler."""
    return os.environ.get("GUIDED_NATIVE") != "no"


def compilers() -> list[str]:
    """Return what must be installed to compile: all that kernels use, and mypyc."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    used = [*project["dependencies"], *project["optional-dependencies"]["compiler"]]
    return [*_COMPILERS, *used] if is_wanted() else used


def extensions() -> list[Extension]:
    """Return the extensions that mypyc makes of the files."""
    from mypyc.build import mypycify  # only here, since it is not needed without

    said = io.StringIO()
    try:
        with TemporaryDirectory() as folder, redirect_stdout(said):
            config = Path(folder, "mypy.ini")
            config.write_text(_ANALYSIS, "utf-8")
            # Compiled as one whole, so that the subclasses of every class are known; the shared
            # library is inside the package, where an editable install finds it too.
            return mypycify(
                [f"--config-file={config}", *native_modules()],
                opt_level="1",  # as fast as 2, and a quarter less to compile
                multi_file=True,
                group_name=_LIBRARY,
            )
    finally:
        told = (line for line in said.getvalue().splitlines() if not line.endswith(_AS_LIST))
        sys.stdout.writelines(f"{line}\n" for line in told)


class BuildOnAllCores(build_ext):
    """Compiles one source per core at a time."""

    def build_extensions(self) -> None:
        compile_some = self.compiler.compile

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                compiled = pool.map(lambda source: compile_some([source], **options), sources)
                return [file for files in compiled for file in files]

        self.compiler.compile = compile_all
        for extension in self.extensions:
            # For a library within a package mypyc puts the headers there, and the sources beside
            # it.
            extension.include_dirs = [*extension.include_dirs, _HEADERS]
            if self.compiler.compiler_type == "unix":
                extension.extra_compile_args = [*extension.extra_compile_args, *_FLAGS]
        super().build_extensions()


class BuildWithKernels(build):
    """Also compiles the kernels, for the processor of this machine."""

    def run(self) -> None:
        # An earlier build may have left files of former modules there, which would be packed as
        # well.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if has_kernels():
            root = Path(self.build_lib).absolute()
            self.announce("compiling kernels (a minute or two)", level=2)
            # The path also finds what was installed for the build.
            path = os.pathsep.join((str(root), os.environ.get("PYTHONPATH", "")))
            said = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}
            command = [sys.executable, "-c", _PREPARE]
            done = subprocess.run(command, check=False, env={**os.environ, **said}, cwd=root)
            if done.returncode:
                failed = "the kernels could not be compiled"
                if os.environ.get("GUIDED_NATIVE") == "yes":
                    sys.exit(failed)
                sys.stderr.write(f"warning: {failed}: they are when they are first used\n")
            # Numba writes them beside the sources.
            for file in root.glob("guided/**/__pycache__/*.nb[ci]"):
                package = file.parent.parent.relative_to(root / "guided")
                folder = root / _KERNELS / package
                folder.mkdir(parents=True, exist_ok=True)
                file.replace(folder / file.name)


if __name__ == "__main__":
    setup(
        cmdclass={"build": BuildWithKernels, "build_ext": BuildOnAllCores},
        ext_modules=extensions() if _BUILDING & {*sys.argv} and is_wanted() else [],
        # Build front ends run this command to ask what a wheel needs.
        setup_requires=compilers() if "egg_info" in sys.argv and has_kernels() else [],
    )
