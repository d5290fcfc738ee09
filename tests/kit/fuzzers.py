"""All fuzzers by name, and the command that runs them.

``python -m tests.kit.fuzzers [SUBJECT ...] [--seconds 600] [--seed N] [--case SEED:INDEX]``, or
``make fuzz SECONDS=600``. Each subject has the whole time; findings are printed, written below
``--write`` as ready tests, and end the run with status 1.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import typer

from tests.kit.campaign import Finding, Report, Subject, run_campaign, try_case
from tests.kit.fuzz_forced import FORCED, ForcedSubject
from tests.kit.fuzz_front_ends import FRONT_ENDS, FrontEndSubject
from tests.kit.fuzz_grammars import Grammars
from tests.kit.fuzz_patterns import EcmaPatterns, PythonPatterns
from tests.kit.fuzz_schemas import SCHEMA_SUBJECTS
from tests.kit.fuzz_types import TypesSubject

__all__ = ["SUBJECTS"]

SUBJECTS: Mapping[str, Callable[[], Subject[Any]]] = {
    **{name: partial(FrontEndSubject, name) for name in FRONT_ENDS},
    PythonPatterns.name: PythonPatterns,
    EcmaPatterns.name: EcmaPatterns,
    Grammars.name: Grammars,
    **SCHEMA_SUBJECTS,
    **{name: partial(ForcedSubject, name) for name in FORCED},
    "types": TypesSubject,
}
"""The makers of subjects by name."""


def _run(name: str, seed: int, seconds: float) -> Report:
    return run_campaign(SUBJECTS[name](), seed, seconds)


def _tell(subject: str, finding: Finding, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"test_{subject}_{finding.seed.replace(':', '_')}.py"
    file.write_text(finding.test, "utf-8")
    typer.echo(f"{subject} {finding.seed}: {finding.fault.kind}: {finding.fault.detail}")
    typer.echo(f"    {finding.case}\n    {file}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*", choices=[*SUBJECTS, []], default=[])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--case", help="one case of one subject, as its finding names it")
    parser.add_argument("--write", type=Path, default=Path("build/findings"))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    names: list[str] = options.subjects or [*SUBJECTS]
    if options.case is not None:
        tried = [(name, try_case(SUBJECTS[name](), options.case, Counter())) for name in names]
        findings = [(name, finding) for name, finding in tried if finding is not None]
        for name, finding in findings:
            _tell(name, finding, options.write)
        return 1 if findings else 0
    for name, lacking in [(name, SUBJECTS[name]().lacks()) for name in names]:
        if lacking:
            typer.echo(f"{name}: left out, {lacking}")
            names.remove(name)
    typer.echo(f"seed {options.seed}, {options.seconds:g} s each: {' '.join(names)}")
    failed = False
    with ProcessPoolExecutor(options.workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        runs = [pool.submit(_run, name, options.seed, options.seconds) for name in names]
        for run in as_completed(runs):
            report = run.result()
            for finding in report.findings:
                _tell(report.subject, finding, options.write)
            failed = failed or bool(report.findings)
            found = ", ".join(f"{count} times {kind}" for kind, count in report.counts.items())
            judged = f"{report.tries} cases" + (f" ({report.tally})" if report.tally else "")
            counts = f"{judged}, {found or 'no finding'}, slowest {report.slowest:.1f} s"
            typer.echo(f"{report.subject}: {counts}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
