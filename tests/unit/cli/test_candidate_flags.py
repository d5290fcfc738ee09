"""The flags about several answers."""

from __future__ import annotations

import pytest
import typer

from guided.cli.flags import read_beams
from guided.spec import Beams


def test_beams_are_those_of_the_flags() -> None:
    assert read_beams(None, None, early_stopping=False) is None
    assert read_beams(3, None, early_stopping=False) == Beams(3)
    assert read_beams(3, 0.5, early_stopping=True) == Beams(3, 0.5, True)


@pytest.mark.parametrize(("penalty", "early"), [(1.0, False), (None, True)])
def test_what_is_said_about_no_beams_is_refused(penalty: float | None, early: bool) -> None:
    with pytest.raises(typer.BadParameter, match="need --beams"):
        read_beams(None, penalty, early_stopping=early)
