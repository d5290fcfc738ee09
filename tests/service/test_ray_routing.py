"""The records of engines, and of those that have ended."""

from __future__ import annotations

from guided_service.ray.affinity import Affinity
from guided_service.ray.routing import Routing

IDLE = {0: 0.0, 1: 0.0}


def test_nothing_is_kept_of_engines_that_have_ended() -> None:
    routing = Routing[int](16, str)
    shared = Affinity((b"shared",), b"constraint", 300, 256)
    for engine in IDLE:
        routing.sent(shared, engine)
        routing.sent(Affinity((str(engine).encode(),)), engine)
    routing.keep(IDLE.keys())
    assert routing.choices(shared, IDLE)[0] == [0, 1]
    assert len(routing) == 4
    routing.keep({1})
    assert routing.choices(shared, IDLE)[0] == [1]
    assert len(routing) == 3, "what only the other one had is gone"


def test_what_is_kept_does_not_grow_with_those_that_came_and_went() -> None:
    routing = Routing[int](16, str)
    for engine in range(100):
        routing.sent(Affinity((str(engine).encode(),)), engine)
        routing.keep({engine})
    assert len(routing) == 1


def test_the_weight_of_a_constraint_is_that_of_the_request() -> None:
    routing = Routing[int](16, str)
    routing.sent(Affinity((b"a", b"b")), 0)  # 512 bytes
    routing.sent(Affinity((), b"constraint"), 1)
    for weight, best in ((1, [0]), (511, [0]), (512, [0, 1]), (513, [1])):
        asked = Affinity((b"a", b"b"), b"constraint", 600, weight)
        assert routing.choices(asked, IDLE)[0] == best
