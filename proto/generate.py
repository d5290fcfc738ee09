"""Generate the Python stubs of the public API: ``python proto/generate.py [DESTINATION]``.

The destination is the folder that holds the package ``guided``; by default the repository itself.
The folders under ``proto/guided`` mirror the package, so the generated imports are right as they
are. Stubs of what lies under ``proto/google`` are those of ``googleapis-common-protos``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

__all__ = ["generate"]

PROTO = Path(__file__).resolve().parent


def generate(destination: Path) -> None:
    """Write the message and service stubs, with their types, under ``destination``."""
    well_known_types = Path(grpc_tools.__file__).parent / "_proto"
    # The plugins live beside the interpreter, which need not be on the search path.
    scripts = Path(sys.executable).parent
    sources = sorted(
        path.relative_to(PROTO).as_posix() for path in (PROTO / "guided").rglob("*.proto")
    )
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTO}",
            f"--proto_path={well_known_types}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--python_out={destination}",
            f"--grpc_python_out={destination}",
            f"--mypy_out={destination}",
            f"--mypy_grpc_out={destination}",
            *sources,
        ]
    )
    if status != 0:
        sys.exit(f"protoc ended with status {status} on {', '.join(sources)}")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO.parent)
