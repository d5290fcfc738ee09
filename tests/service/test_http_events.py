"""One event is one line to clients that split lines by any rule."""

from __future__ import annotations

import json

from guided_service.http.events import event

_TEXT = "one\ntwo\rthree\x0bfour\x0cfive\x1csix\x1dseven\x1eeight\x85nine\u2028ten\u2029é"


def test_no_text_breaks_the_line_of_its_event() -> None:
    sent = event({"delta": _TEXT}, "a.name").decode()
    name, data, end = sent.splitlines()
    assert (name, end) == ("event: a.name", "")
    assert json.loads(data.removeprefix("data: ")) == {"delta": _TEXT}
