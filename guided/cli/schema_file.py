"""Reading the schema that a command names."""

from __future__ import annotations

from pathlib import Path

from guided.errors import InvalidConstraintError

__all__ = ["read_schema_file"]


def read_schema_file(file: Path) -> str:
    """The text of a schema; raises InvalidConstraintError for what is no file of UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidConstraintError(
            f"{file} is not UTF-8: byte {error.start} is wrong", position=error.start
        ) from error
    except OSError as error:
        raise InvalidConstraintError(f"{file} cannot be read: {error.strerror}") from error
