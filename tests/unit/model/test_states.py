"""The table of an ARQ's moves is total, has no dead end, and is what the docs show."""

from __future__ import annotations

from pathlib import Path

from tools.states import PAGE, diagram, lease_diagram, page, sentences

from cantle.model import arq, lease
from cantle.model.arq import BINDABLE, RESOLVED, TRANSITIONS, ArqState
from cantle.model.lease import LeaseState


def test_every_state_is_in_the_table_and_moves_to_states_only() -> None:
    assert set(TRANSITIONS) == set(ArqState)
    assert set().union(*TRANSITIONS.values()) <= set(ArqState)


def test_every_state_the_engine_sets_is_reached_and_can_be_left_by_an_unbind() -> None:
    reached = {ArqState.INITIAL}
    while more := set().union(*(TRANSITIONS[state] for state in reached)) - reached:
        reached |= more
    assert reached == set(ArqState) - {ArqState.DELETING}
    assert all(state is ArqState.UNBOUND or ArqState.UNBOUND in TRANSITIONS[state] for state in reached)
    assert {state for state in ArqState if ArqState.BIND_STARTED in TRANSITIONS[state]} == BINDABLE


def test_what_a_client_takes_for_an_answer_is_not_left_by_itself() -> None:
    assert not RESOLVED & {ArqState.INITIAL, ArqState.BIND_STARTED, ArqState.UNBOUND}


def test_every_state_is_followed_by_its_sentence() -> None:
    for module, states in ((arq, ArqState), (lease, LeaseState)):
        said = sentences(Path(str(module.__file__)), states.__name__)
        assert set(said) == {state.name for state in states}
        assert all(sentence.endswith(".") for sentence in said.values())


def test_the_page_of_states_is_the_one_the_tool_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tools/states.py"
    assert diagram() in page()


def test_every_state_of_a_lease_is_in_its_table_is_reached_and_leads_to_released() -> None:
    table = lease.TRANSITIONS
    assert set(table) == set(LeaseState)
    for state in LeaseState:
        met = {state}
        while more := {after for before in met for after in table[before]} - met:
            met |= more
        assert LeaseState.RELEASED in met, state
        assert state is not LeaseState.PENDING or met == set(LeaseState)
    assert lease_diagram() in page()
