"""The system's figures for a process: its memory, threads and descriptors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessFacts", "facts_of", "peak_mebibytes", "shared_mebibytes"]

_KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """The figures of a process at one moment."""

    mebibytes: float
    """Resident memory, including shared pages."""
    threads: int
    open_files: Counter[str]
    """Descriptors by kind, except eventfd and epoll, which a transport makes and keeps."""

    @property
    def descriptors(self) -> int:
        """The number of open descriptors."""
        return self.open_files.total()


def facts_of(process: int) -> ProcessFacts:
    """The figures of a process now; raises an OSError (ProcessLookupError, say) if it has ended."""
    status = _status(process)
    if "VmRSS" not in status:
        raise ProcessLookupError(f"the process {process} has ended")
    return ProcessFacts(
        mebibytes=int(status["VmRSS"].split()[0]) / _KIB_PER_MIB,
        threads=int(status["Threads"]),
        open_files=Counter(_open_files(process)),
    )


def _open_files(process: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue  # it was closed since it was listed
        if not target.startswith("anon_inode:[event"):
            yield target.partition(":[")[0]


def peak_mebibytes(process: int) -> float:
    """The largest resident memory of a process so far."""
    return int(_status(process)["VmHWM"].split()[0]) / _KIB_PER_MIB


def shared_mebibytes(process: int) -> tuple[float, float]:
    """The private memory of a process, and its proportional share of all memory that it uses."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in rollup)}
    own = sizes["Private_Clean"] + sizes["Private_Dirty"]
    return own / _KIB_PER_MIB, sizes["Pss"] / _KIB_PER_MIB


def _status(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)
