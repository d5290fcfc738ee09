"""Settings from options, the environment and a file, in this order."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, TomlConfigSettingsSource

from guided.errors import RequestError
from guided_service.config import ServerConfig

__all__ = ["read_config"]


def read_config(given: Mapping[str, object], file: Path | None) -> ServerConfig:
    """The settings that were given, and for others those of the environment or of a TOML file.

    Raises RequestError for a file that cannot be read or names a setting that there is not, and
    pydantic's ValidationError for a value that is wrong.
    """
    if file is None:
        return ServerConfig.model_validate(given)
    _check_file(file)

    class WithFile(ServerConfig):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - there is none
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - nor such
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    return WithFile.model_validate(given)


def _check_file(file: Path) -> None:
    """Raise RequestError unless the file is TOML and names settings only."""
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}") from error
    known = ServerConfig.model_fields
    for name in settings:
        if name not in known:
            close = get_close_matches(name, known, 1) or sorted(known)
            raise RequestError(
                f"{file} sets {name!r}, which is no setting of a server",
                hint=f"there is {', '.join(close)}",
            )
