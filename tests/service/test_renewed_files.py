"""Files that are read again when they change: what holds while they are at fault."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from guided.errors import ServiceError
from guided_service.renewed_files import RenewedFiles


class Reading:
    """Files with a number, a clock, and how often they were read."""

    def __init__(self, folder: Path) -> None:
        self.now, self.times, self.is_at_hand = 0.0, 0, True
        self.file = folder / "number"
        self.file.write_text("1")
        self.renewed = RenewedFiles("number", (self.file,), self.read, clock=lambda: self.now)

    def read(self) -> int:
        self.times += 1
        text = self.file.read_text()
        if not self.is_at_hand or not text.isdecimal():
            raise ServiceError(f"no number: {text}")
        return int(text)

    def renew(self) -> tuple[bool, int]:
        return self.renewed.renew(), self.renewed.value


def test_a_change_is_read_once(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    assert reading.renew() == (False, 1)
    reading.file.write_text("22")
    assert [reading.renew() for _ in range(3)] == [(True, 22), (False, 22), (False, 22)]
    assert reading.times == 2


def test_files_at_fault_are_reported_once_however_many_connections_come(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    reading.file.write_text("two")
    with capture_logs() as lines:
        for _ in range(50):
            reading.now += 0.1
            assert reading.renew() == (False, 1)
        reading.file.write_text("three")
        assert reading.renew() == (False, 1)
    assert [line["event"] for line in lines] == 2 * ["number not read again; what was read holds"]
    assert reading.times <= 1 + 6 + 1
    reading.file.write_text("4444")
    assert reading.renew() == (True, 4444)


def test_files_that_could_not_be_read_for_a_moment_are_read_later(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    reading.file.write_text("22")
    reading.is_at_hand = False
    assert reading.renew() == (False, 1)
    reading.is_at_hand = True
    reading.now += 2
    assert reading.renew() == (True, 22)
