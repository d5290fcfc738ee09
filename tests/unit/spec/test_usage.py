"""Costs can be added and subtracted, and have the counts of each drafter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from guided.spec import DrafterUsage, Usage

counts = st.integers(0, 1000)
drafters = st.builds(DrafterUsage, st.sampled_from("abc"), *[counts] * 6)
usages = st.builds(
    Usage,
    *[counts] * 11,
    st.lists(drafters, max_size=3, unique_by=lambda one: one.name).map(tuple),
    counts,
    counts,
)


@given(st.lists(usages, max_size=4))
def test_a_total_is_the_sum_of_every_count(every: list[Usage]) -> None:
    total = Usage.total(every)
    assert total.forced_tokens == sum(usage.forced_tokens for usage in every)
    assert total.target_nanoseconds == sum(usage.target_nanoseconds for usage in every)
    assert total.mask_nanoseconds == sum(usage.mask_nanoseconds for usage in every)
    of_all = [one for usage in every for one in usage.by_drafter]
    assert [one.name for one in total.by_drafter] == list(dict.fromkeys(o.name for o in of_all))
    for one in total.by_drafter:
        its = [each for each in of_all if each.name == one.name]
        assert one.drafted_tokens == sum(each.drafted_tokens for each in its)
        assert one.draft_nanoseconds == sum(each.draft_nanoseconds for each in its)


@given(usages, usages)
def test_what_came_after_an_earlier_total_is_what_was_added(before: Usage, added: Usage) -> None:
    since = Usage.total([before, added]).since(before)
    assert {one.name: one for one in since.by_drafter} == {
        one.name: one for one in added.by_drafter if one != DrafterUsage(one.name)
    }
    assert Usage.total([since, before]).sampled_tokens == before.sampled_tokens + (
        added.sampled_tokens
    )
    assert before.since(before) == Usage()


def test_rates_of_a_drafter_are_those_of_its_own_tokens() -> None:
    one = DrafterUsage("a", 20, 15, 5, 2, 1, 1_500_000_000)
    assert (one.acceptance_rate, one.mean_accepted_length, one.correction_rate) == (0.75, 3.0, 0.4)
    assert one.draft_seconds == 1.5
    usage = Usage(by_drafter=(one, DrafterUsage("b", draft_nanoseconds=500_000_000)))
    assert usage.draft_seconds == 2.0
    assert DrafterUsage("b").acceptance_rate == 0.0
