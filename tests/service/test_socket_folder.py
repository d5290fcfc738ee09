"""Folders of sockets: private, removed at the end, or after a kill by the next server."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from guided_service.socket_folder import SocketFolder, remove_left_folders
from tests.service.server_process import ECHO_SERVER, serving


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, with a short name, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="g") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


def _folders(temporary: Path) -> set[Path]:
    return {*temporary.glob("guided-engine-*")}


def test_the_next_server_removes_what_a_killed_one_left(tmp_path: Path, temporary: Path) -> None:
    with serving(ECHO_SERVER, tmp_path / "first") as living:
        lived = _folders(temporary)
        with serving(ECHO_SERVER, tmp_path / "second") as killed:
            left = _folders(temporary) - lived
            killed.process.kill()
            killed.wait(10)
        assert len(lived) == len(left) == 1
        assert _folders(temporary) == lived | left
        with serving(ECHO_SERVER, tmp_path / "third") as third:
            assert not left & _folders(temporary)
            assert lived < _folders(temporary)
            third.ask_to_stop()
            third.wait(30)
        assert _folders(temporary) == lived
        living.ask_to_stop()
        living.wait(30)
    assert not _folders(temporary)


def test_a_folder_in_use_stays(temporary: Path) -> None:
    folder = SocketFolder()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    remove_left_folders()
    assert _folders(temporary) == {folder.path}
    folder.close()
    assert not _folders(temporary)


def test_a_folder_in_use_stays_whatever_was_removed_from_it(temporary: Path) -> None:
    folder = SocketFolder()
    for inner in folder.path.iterdir():
        inner.unlink()
    remove_left_folders()
    assert _folders(temporary) == {folder.path}
    folder.close()


def test_what_a_server_left_in_any_moment_of_its_life_is_removed(temporary: Path) -> None:
    """Before it had a lock, while it ran, and while it removed the folder itself."""
    for name, files in (("new", ()), ("whole", ("engine",))):
        folder = temporary / f"guided-engine-{name}"
        folder.mkdir()
        for file in files:
            (folder / file).touch()
    remove_left_folders()
    assert not _folders(temporary)


def test_a_folder_that_is_taken_for_left_while_it_is_made_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, found = fcntl.flock, [set[Path]()]

    def late(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        found.append(_folders(temporary))
        remove_left_folders()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    folder = SocketFolder()
    assert len(found[-1]) == 1
    assert _folders(temporary) == {folder.path}
    assert folder.path not in found[-1]
    folder.close()


def test_what_is_not_a_left_folder_stays(temporary: Path) -> None:
    """A link to a folder, and a file."""
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "engine").touch()
    (temporary / "guided-engine-link").symlink_to(elsewhere)
    (temporary / "guided-engine-file").touch()
    before = _folders(temporary)
    remove_left_folders()
    assert _folders(temporary) == before
    assert [*elsewhere.iterdir()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_stays(temporary: Path) -> None:
    folder = temporary / "guided-engine-theirs"
    folder.mkdir()
    (folder / "lock").touch()
    os.chown(folder, 12345, 12345)
    remove_left_folders()
    assert folder.exists()
    os.chown(folder, os.geteuid(), -1)
    remove_left_folders()
    assert not folder.exists()
