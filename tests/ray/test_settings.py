"""The ``args`` of the application: which models there are, and what is refused."""

from __future__ import annotations

import pytest

from guided.errors import RequestError
from guided_service.ray.settings import checked_settings, settings_by_model


def test_one_model_has_no_name_of_ours() -> None:
    settings = {"model": "m", "threads": 4}
    assert settings_by_model(settings) == {"": settings}


def test_each_of_several_models_has_the_common_settings_and_its_own() -> None:
    settings = {
        "threads": 4,
        "max_requests_in_flight": 128,
        "models": [{"name": "chat", "model": "m"}, {"name": "code", "model": "n", "threads": 2}],
    }
    assert settings_by_model(settings) == {
        "chat": {"threads": 4, "max_requests_in_flight": 128, "model": "m"},
        "code": {"threads": 2, "max_requests_in_flight": 128, "model": "n"},
    }
    assert checked_settings(settings).max_requests_in_flight == 128


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models": []}, "args: models lists no model"),
        ({"models": {"a": "m"}}, "args: models lists no model"),
        ({"model": "m", "models": [{"name": "a", "model": "n"}]}, "args sets model and models"),
        ({"models": [{"name": "a b", "model": "n"}]}, "args: models has a model named 'a b'"),
        ({"models": ["m"]}, "args: models has a model named None"),
        ({"models": [{"name": "a"}]}, "args: a does not say which model it is"),
        ({"models": [{"name": "a", "model": "m"}] * 2}, "args: two models have the name 'a'"),
        (
            {"models": [{"name": "a", "model": "m", "tokens": "t"}]},
            "args: a sets 'tokens', which is no setting of an engine",
        ),
        ({"models": [{"name": "a", "model": "m", "threads": 0}]}, "args: threads: "),
        ({"port": 1}, "args sets 'port', which is not a setting of this application"),
    ],
)
def test_what_is_wrong_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError) as caught:
        checked_settings(settings)
    assert str(caught.value).startswith(said)
