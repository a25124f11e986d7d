"""Sequences that the planner's state machine once failed at, as it printed them: each runs at every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from sharedroutes.broker_agent.planner.events import Drain, Pause, Resume
from tests.broker_agent.desk import BROKER, MOVED, SLAVE
from tests.broker_agent.test_planner_machine import PlannerUnderFaults

Step = Callable[[PlannerUnderFaults], None]

PAUSED_WHILE_ANOTHER_KEEPS_IT_OUT: Final[Sequence[Step]] = (
    lambda state: state.start(seed=0, started=False, stops=False),
    lambda state: state.broker_comes_or_goes(),
    lambda state: state.an_owner_leaves(),
    lambda state: state.an_owner_leaves(),
    lambda state: state.the_operator_wants(wish=Pause()),
    lambda state: state.broker_comes_or_goes(),
    lambda state: state.broker_comes_or_goes(),
    lambda state: state.the_operator_wants(wish=Resume()),
    lambda state: state.another_agent_starts(address="10.0.0.2:10911", broker_id=0),
    lambda state: state.store_answers(how="truth"),
    lambda state: state.broker_comes_or_goes(),
    lambda state: state.broker_comes_or_goes(),
    lambda state: state.the_role_changes(role=SLAVE),
    lambda state: state.an_operator_drains_at_another_agent(address="10.0.0.1:10911", broker_id=1),
    lambda state: state.topics_change(),
    lambda state: state.the_operator_wants(wish=Pause()),
)

A_ROLE_OF_ANOTHER_ADDRESS_WHILE_IT_IS_WITHDRAWN: Final[Sequence[Step]] = (
    lambda state: state.start(seed=0, started=True, stops=False),
    lambda state: state.the_operator_wants(wish=Pause()),
    lambda state: state.the_role_changes(role=MOVED),
    lambda state: state.store_answers(how="corrupt"),
    lambda state: state.the_role_changes(role=SLAVE),
    lambda state: state.broker_comes_or_goes(),
    lambda state: state.the_operator_wants(wish=Resume()),
    lambda state: state.the_role_changes(role=BROKER),
    lambda state: state.time_passes(seconds=5.0),
    lambda state: state.store_answers(how="truth"),
)

ANOTHER_ID_IS_WITHDRAWN_AND_RESUMED: Final[Sequence[Step]] = (
    lambda state: state.start(seed=0, started=True, stops=False),
    lambda state: state.the_operator_wants(wish=Pause()),
    lambda state: state.store_answers(how="corrupt"),
    lambda state: state.the_role_changes(role=SLAVE),
    lambda state: state.the_operator_wants(wish=Resume()),
    lambda state: state.the_role_changes(role=BROKER),
)

RESUMED_BEFORE_THE_WRITE_PERMISSION_WAS_TAKEN: Final[Sequence[Step]] = (
    lambda state: state.start(seed=0, started=True, stops=False),
    lambda state: state.an_operator_drains_at_another_agent(address="10.0.0.1:10911", broker_id=0),
    lambda state: state.topics_change(),
    lambda state: state.store_answers(how="request lost"),
    lambda state: state.the_operator_wants(wish=Drain(wait_s=0.0)),
    lambda state: state.topics_change(),
    lambda state: state.the_operator_wants(wish=Resume()),
    lambda state: state.store_answers(how="corrupt"),
)

TOLD_TO_END_WHILE_A_STANDBY_IS_BEING_REGISTERED: Final[Sequence[Step]] = (
    lambda state: state.start(seed=0, started=True, stops=True),
    lambda state: state.topics_change(),
    lambda state: state.an_operator_drains_at_another_agent(address="10.0.0.1:10911", broker_id=0),
    lambda state: state.store_answers(how="truth"),
    lambda state: state.store_loses_data(everything=True),
    lambda state: state.the_role_changes(role=SLAVE),
    lambda state: state.the_agent_hands_over(watch_s=0.0),
)

RESUMED_AFTER_THE_ANSWER_TO_A_PAUSE_WAS_LOST: Final[Sequence[Step]] = (
    lambda state: state.start(seed=0, started=True, stops=False),
    lambda state: state.the_operator_wants(wish=Pause()),
    lambda state: state.store_answers(how="answer lost"),
    lambda state: state.the_operator_wants(wish=Resume()),
)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(PAUSED_WHILE_ANOTHER_KEEPS_IT_OUT, id="paused while another keeps it out"),
        pytest.param(A_ROLE_OF_ANOTHER_ADDRESS_WHILE_IT_IS_WITHDRAWN, id="another address while withdrawn"),
        pytest.param(ANOTHER_ID_IS_WITHDRAWN_AND_RESUMED, id="another id withdrawn, then resumed"),
        pytest.param(RESUMED_BEFORE_THE_WRITE_PERMISSION_WAS_TAKEN, id="a drain that was resumed fails"),
        pytest.param(TOLD_TO_END_WHILE_A_STANDBY_IS_BEING_REGISTERED, id="told to end while it registers"),
        pytest.param(RESUMED_AFTER_THE_ANSWER_TO_A_PAUSE_WAS_LOST, id="the answer to a pause is lost"),
    ],
)
def test_a_sequence_that_failed_once_ends_in_what_is_true(steps: Sequence[Step]) -> None:
    state = PlannerUnderFaults()
    for step in steps:
        step(state)
        state.there_is_always_something_to_wait_for()
    state.teardown()
