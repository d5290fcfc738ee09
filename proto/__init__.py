"""The public API as protobuf files, for clients in any language; installed as ``guided.proto``.

``python -c "import guided.proto; print(guided.proto.FOLDER)"`` tells where they lie.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent
"""The folder to include: all imports are found from there."""
