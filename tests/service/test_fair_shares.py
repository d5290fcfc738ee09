"""Places are shared fairly among clients, and no client's queue shuts others out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from guided_service.admission import Admission, Client, OverloadedError
from guided_service.fair_shares import Share, Waiter


async def served(
    admission: Admission, loads: Mapping[Client, tuple[int, float]], tokens: float
) -> Counter[str]:
    """Each client's tokens when all together had ``tokens``; a load is requests and their cost."""
    had: Counter[str] = Counter()
    is_full = asyncio.Event()

    async def call(client: Client, key: float, asked: float, cost: float) -> None:
        async with admission.admitted(key, client=client, cost=asked) as place:
            for _ in range(int(cost) // 10 + 1):
                await asyncio.sleep(0)
            place.cost = cost
        if not is_full.is_set():
            had[client.name] += int(cost)
        if had.total() >= tokens:
            is_full.set()

    calls = [
        # All requests of the first client come before any of the second.
        asyncio.create_task(call(client, 1000.0 * place + number, 500.0, cost))
        for place, (client, (requests, cost)) in enumerate(loads.items())
        for number in range(requests)
    ]
    await is_full.wait()
    for task in calls:
        task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    return had


@pytest.mark.parametrize("places", [1, 4, 64])
def test_shares_are_by_weight_whatever_requests_cost(places: int) -> None:
    """Three with answers of 10, 100 and 50 tokens, of which the last counts twice."""
    loads = {Client("a"): (6000, 10.0), Client("b"): (900, 100.0), Client("c", 2.0): (1800, 50.0)}

    async def use() -> Counter[str]:
        return await served(Admission(places, 10_000), loads, 80_000)

    had = asyncio.run(use())
    fair = 80_000 / 4
    assert had["a"] == pytest.approx(fair, rel=0.1)
    assert had["b"] == pytest.approx(fair, rel=0.1)
    assert had["c"] == pytest.approx(2 * fair, rel=0.1)


def test_a_thousand_requests_of_one_do_not_delay_the_first_of_another() -> None:
    order: list[str] = []

    async def call(admission: Admission, client: str, key: float) -> None:
        async with admission.admitted(key, client=Client(client), cost=100.0):
            order.append(client)
            await asyncio.sleep(0)

    async def use() -> None:
        admission = Admission(8, 4096)
        crowd = [asyncio.create_task(call(admission, "crowd", n)) for n in range(1000)]
        await asyncio.sleep(0)
        assert (admission.in_flight, admission.waiting) == (8, 992)
        # It comes last, and has the lowest priority.
        await call(admission, "other", 1e6)
        await asyncio.gather(*crowd)

    asyncio.run(use())
    assert order.index("other") <= 16
    assert order.count("crowd") == 1000


def test_within_a_client_the_order_is_that_of_queue_keys() -> None:
    order: list[str] = []

    async def call(admission: Admission, client: str, key: float) -> None:
        async with admission.admitted(key, client=Client(client)):
            order.append(f"{client}{key:g}")
            await asyncio.sleep(0)

    async def use() -> None:
        admission = Admission(1, 100)
        async with admission.admitted(0, client=Client("first")):
            calls = [
                asyncio.create_task(call(admission, client, key))
                for client, key in (("a", 3), ("a", 1), ("a", 2), ("b", -1000), ("b", -999))
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*calls)

    asyncio.run(use())
    # However urgent the requests of one client are, they do not starve those of another.
    assert order == ["b-1000", "a1", "b-999", "a2", "a3"]


def test_one_client_leaves_places_to_others() -> None:
    async def use() -> None:
        admission, leave = Admission(4, 100, places_of_one=2), asyncio.Event()

        async def call(client: str) -> None:
            async with admission.admitted(0, client=Client(client)):
                await leave.wait()

        calls = [asyncio.create_task(call("crowd")) for _ in range(10)]
        await asyncio.sleep(0)
        assert (admission.in_flight, admission.waiting) == (2, 8)
        calls += [asyncio.create_task(call("other"))]
        await asyncio.sleep(0)
        assert (admission.in_flight, admission.waiting) == (3, 8)
        leave.set()
        await asyncio.gather(*calls)
        assert (admission.in_flight, admission.waiting) == (0, 0)

    asyncio.run(use())


def test_in_a_full_queue_the_longest_gives_way() -> None:
    async def use() -> list[str]:
        admission, leave = Admission(1, 4), asyncio.Event()
        sent_away: list[str] = []

        async def call(client: str, key: float) -> None:
            try:
                async with admission.admitted(key, client=Client(client)):
                    await leave.wait()
            except OverloadedError as error:
                sent_away.append(f"{client}{key:g}: {error.message.partition(',')[0]}")

        calls = [asyncio.create_task(call("crowd", key)) for key in (0, 5, 2, 3, 4)]
        await asyncio.sleep(0)
        calls += [asyncio.create_task(call("crowd", 1)), asyncio.create_task(call("other", 9))]
        for _ in range(3):
            await asyncio.sleep(0)
        assert admission.waiting == 4
        leave.set()
        await asyncio.gather(*calls)
        return sent_away

    assert asyncio.run(use()) == [
        "crowd1: 1 requests are in flight",
        "crowd5: the queue is full",
    ]


def test_a_batch_is_told_beforehand_whether_there_is_room() -> None:
    async def use() -> None:
        admission = Admission(1, 10)
        async with admission.admitted(0, client=Client("crowd")):
            waiting = [asyncio.create_task(_enter(admission, Client("crowd"))) for _ in range(10)]
            await asyncio.sleep(0)
            admission.check_room(9, Client("other"))
            with pytest.raises(OverloadedError):
                admission.check_room(10, Client("other"))
            with pytest.raises(OverloadedError):
                admission.check_room(1, Client("crowd"))
            # Half the weight, half the queue.
            admission.check_room(4, Client("other", 0.5))
            with pytest.raises(OverloadedError):
                admission.check_room(5, Client("other", 0.5))
        await asyncio.gather(*waiting)

    asyncio.run(use())


async def _enter(admission: Admission, client: Client) -> None:
    async with admission.admitted(0, client=client):
        pass


def test_requests_that_left_are_forgotten() -> None:
    """For example calls that are reset as fast as they come, while all places are taken."""

    async def use() -> None:
        share = Share(1.0, 0.0, 1.0)
        loop = asyncio.get_running_loop()
        for number in range(1000):
            waiter = Waiter(float(-number), number, loop.create_future())
            share.join(waiter)
            waiter.turn.cancel()
            share.leave()
        assert (share.num_waiting, share.is_idle) == (0, True)
        assert len(share._line) <= 20

    asyncio.run(use())


def test_a_full_queue_that_has_just_been_left_takes_a_request() -> None:
    """A caller leaves with its whole batch at the moment when another one comes."""

    async def use() -> list[str]:
        admission, leave, order = Admission(1, 2), asyncio.Event(), list[str]()

        async def call(client: str) -> None:
            async with admission.admitted(0, client=Client(client)):
                order.append(client)
                await leave.wait()

        calls = [asyncio.create_task(call("first"))]
        calls += [asyncio.create_task(call("crowd")) for _ in range(2)]
        await asyncio.sleep(0)
        assert admission.waiting == 2
        calls += [asyncio.create_task(call("other"))]
        for each in calls[1:3]:
            each.cancel()  # they learn of it after the other has come
        for _ in range(3):
            await asyncio.sleep(0)
        assert (admission.in_flight, admission.waiting) == (1, 1)
        leave.set()
        await calls[-1]
        await asyncio.gather(*calls, return_exceptions=True)
        assert (admission.in_flight, admission.waiting) == (0, 0)
        return order

    assert asyncio.run(use()) == ["first", "other"]


def test_a_client_that_has_nothing_here_is_forgotten() -> None:
    async def use() -> None:
        admission = Admission(1, 100)
        async with admission.admitted(0, client=Client("stays")):
            for number in range(50):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await _enter(admission, Client(f"{number}"))
            assert [share.running for share in admission._shares] == [1]
        assert not [*admission._shares]

    asyncio.run(use())
