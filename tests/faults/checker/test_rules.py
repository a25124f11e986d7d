"""Each rule passes what is right, and notices what is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.faults.checker.alterations import ALTERATIONS
from tests.faults.checker.history import Expected, Log, Run, Usage
from tests.faults.checker.report import RULES, check
from tests.faults.checker.story import BOUNDS, BROKERS, Story
from tests.support import examples

STEPS: Final[dict[str, Callable[[Story, str], None]]] = {
    "crash": Story.crash,
    "drain": Story.drain,
    "take over": Story.take_over,
    "new topic": lambda story, broker: story.new_topic(broker, "payments"),
    "corrupt": Story.corrupt,
    "flush": lambda story, _: story.flush(),
}


def told(steps: list[tuple[str, str]]) -> Story:
    """Return the story of these steps, from the start to the end."""
    story = Story()
    story.begin()
    for name, broker in steps:
        STEPS[name](story, broker)
    story.end()
    return story


ALL_STEPS: Final = [(name, BROKERS[number % len(BROKERS)]) for number, name in enumerate(STEPS)]


def test_a_history_in_which_all_is_right_passes_and_exercises_every_rule() -> None:
    report = check(told(ALL_STEPS).events)
    assert report.caught_by == "", "\n".join(report.lines())
    assert all(verdict.checked for verdict in report.verdicts.values())
    assert "not exercised" not in "\n".join(report.lines())


def test_a_slow_start_is_no_violation_since_nothing_is_true_before_everything_works() -> None:
    events = told([]).events
    works = next(index for index, event in enumerate(events) if isinstance(event, Expected))
    late = [replace(event, at_us=event.at_us + 3_000 * BOUNDS.converge_ms) for event in events[works:]]
    assert check([*events[:works], *late]).verdicts["d"].violations == []


def test_a_topic_that_a_broker_has_already_is_not_new_after_a_crash() -> None:
    again = [("new topic", "broker-a"), ("crash", "broker-a"), ("new topic", "broker-a")]
    assert check(told(again).events).caught_by == ""


@pytest.mark.parametrize("name", ALTERATIONS)
def test_each_alteration_is_noticed_by_the_rule_that_owns_it(name: str) -> None:
    rule, alter = ALTERATIONS[name]
    for seed in range(5):
        events = alter(told(ALL_STEPS).events, Random(seed))
        assert events is not None
        report = check(events)
        assert rule in report.caught_by, f"{name}: {report.summary}"
        assert all(violation.reason and violation.events for violation in report.verdicts[rule].violations)


@given(
    steps=st.lists(st.tuples(st.sampled_from(list(STEPS)), st.sampled_from(BROKERS)), max_size=5),
    name=st.sampled_from(list(ALTERATIONS)),
    seed=st.integers(0, 1_000_000),
)
@settings(max_examples=examples(300))
def test_in_any_history_what_is_right_passes_and_what_was_altered_is_noticed(
    steps: list[tuple[str, str]], name: str, seed: int
) -> None:
    story = told(steps)
    assert check(story.events).caught_by == ""
    rule, alter = ALTERATIONS[name]
    events = alter(story.events, Random(seed))
    assume(events is not None)
    assert events is not None
    assert rule in check(events).caught_by


@pytest.mark.parametrize(
    ("steps", "name", "seed"),
    [
        ([("take over", "broker-a")], "a client holds back what lives", 0),
        ([("new topic", "broker-a")], "a client holds back what lives", 6),
        (
            [("drain", "broker-a"), ("corrupt", "broker-b"), ("crash", "broker-a")],
            "a lease is shorter than fronts vouch for",
            341,
        ),
    ],
)
def test_each_history_in_which_an_alteration_was_none_is_altered_now(
    steps: list[tuple[str, str]], name: str, seed: int
) -> None:
    rule, alter = ALTERATIONS[name]
    events = alter(told(steps).events, Random(seed))
    assert events is not None
    assert rule in check(events).caught_by


@pytest.mark.parametrize(("count", "found"), [("threads", ""), ("descriptors", ""), ("connections", "i")])
def test_who_began_without_notifications_may_have_the_threads_and_descriptors_of_them_later(
    count: str, found: str
) -> None:
    story = told([])
    last = next(event for event in reversed(story.events) if isinstance(event, Usage))
    text = "/hosts/broker-a: no notifications, looking every 1.0 s: inotify instance limit reached"
    log = Log(at_us=story.events[1].at_us, who="driver", process=last.process, level="WARNING", text=text)
    grown = replace(last, **{count: getattr(last, count) + 6})
    assert check([*story.events, grown]).caught_by == "i"
    assert check([*story.events, grown, log]).caught_by == found


def test_a_rule_that_had_nothing_to_look_at_says_so() -> None:
    report = check([Run(at_us=1, who="driver", deployment="standalone", seed=1, bounds=BOUNDS)])
    assert report.caught_by == ""
    assert sum("not exercised" in line for line in report.lines()) == len(RULES)


def test_the_report_says_what_is_wrong_with_the_events_that_show_it() -> None:
    events = ALTERATIONS["a message that was taken is not there"].alter(told([]).events, Random(1))
    assert events is not None
    text = "\n".join(check(events).lines())
    assert "1 violations" in text
    assert "said that it took client-" in text
    assert '"what":"sent"' in text
