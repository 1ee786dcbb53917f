"""Write docs/states.md from the states, their sentences and the table of moves in cantle.model: ``python tools/states.py``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cantle.model import arq, intent, lease
from cantle.model.arq import BINDABLE, RESOLVED, TRANSITIONS, ArqState
from cantle.model.intent import IntentState
from cantle.model.lease import LeaseState, OnExpiry, Stage

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "states.md"


def page() -> str:
    """The text of the page."""
    return f"""# States

Made by `python tools/states.py` from `arq.py`, `lease.py` and `intent.py` in `cantle/model/`; a test holds it to them.

## Accelerator requests (ARQs)

The names are Cyborg's, as clients know them. Nova takes those marked *resolved* for an answer.

```mermaid
{diagram()}
```

| state | what is true in it, and who leaves it |
|---|---|
{_rows(ArqState, sentences(Path(arq.__file__), "ArqState"), _reading)}

Every state has a way out: an unbind or a delete is always accepted. A unit is claimed in BindStarted and Bound. After that its claim goes
on, *unwanted*, until its host has said that nobody holds the unit; only then is it lent again. So a request can be gone, or bound
elsewhere, while its old unit is still being taken back.

A unit that fails when its request is Bound already (after a reboot, say) leaves the request Bound: the reason is shown on it, the host
goes on trying, and only a release, an expiry or an unbind ends the loan.

### A failure that is announced

Nova takes a `BindFailed` that it sees before it waits for the event as resolved, and builds the guest without its device. So where Nova is
told of events, a failure is *announced* first: the state is BindFailed, and clients of the accelerator API are shown BindStarted. The
event `failed` is sent again every 2 s meanwhile ([events.md](events.md)).

```mermaid
stateDiagram-v2
    announced: BindFailed, shown as BindStarted
    BindStarted --> announced: the host failed, or was silent until the deadline
    announced --> BindFailed: Nova's arq_binding_timeout is over
    announced --> Unbound
    announced --> [*]: delete
```

Without Nova, and for requests of a lease, BindFailed is shown at once.

## Leases

A lease has no state of its own. It is read off its requests and claims ([leases.md](leases.md)).

```mermaid
{lease_diagram()}
```

| state | what is true in it, and who leaves it |
|---|---|
{_rows(LeaseState, sentences(Path(lease.__file__), "LeaseState"), lambda _state: "")}

A unit that is being taken back is in one of three stages. It can be lent again when it is in none of them.

| stage | what is true in it, and who leaves it |
|---|---|
{_rows(Stage, sentences(Path(lease.__file__), "Stage"), lambda _state: "")}

What happens when the time of a lease is over:

| on_expiry | what it means |
|---|---|
{_rows(OnExpiry, sentences(Path(lease.__file__), "OnExpiry"), lambda _state: "")}

## Intents

An intent's state is read off its version and the versions its host has reported: the one it has applied, and the one it tried last
([intents.md](intents.md)).

| state | what is true in it, and who leaves it |
|---|---|
{_rows(IntentState, sentences(Path(intent.__file__), "IntentState"), lambda _state: "")}
"""


def diagram() -> str:
    """The moves between ARQ states as a mermaid diagram, from the table the engine goes by."""
    lines = ["stateDiagram-v2", f"    [*] --> {ArqState.INITIAL}"]
    for before in ArqState:
        lines += [f"    {before} --> {after}" for after in ArqState if after in TRANSITIONS[before]]
        if before is not ArqState.DELETING:
            lines.append(f"    {before} --> [*]: delete")
    return "\n".join(lines)


def lease_diagram() -> str:
    """How a lease goes, and by what."""
    lines = ["stateDiagram-v2", f"    [*] --> {LeaseState.PENDING}: create"]
    for before, moves in lease.TRANSITIONS.items():
        lines += [f"    {before} --> {after}: {why}" for after, why in moves.items()]
    return "\n".join([*lines, f"    {LeaseState.RELEASED} --> [*]"])


def sentences(module: Path, name: str) -> dict[str, str]:
    """By member of an enumeration, the sentence that stands below it in the source."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    said: dict[str, str] = {}
    for above, below in zip(found.body, found.body[1:], strict=False):
        if isinstance(above, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            said[ast.unparse(above.targets[0])] = str(below.value.value)
    return said


def _rows(states: Iterable[Any], said: Mapping[str, str], reading: Callable[[Any], str]) -> str:
    return "\n".join(f"| {state.value}{reading(state)} | {said[state.name]} |" for state in states)


def _reading(state: ArqState) -> str:
    words = (["resolved"] if state in RESOLVED else []) + (["can be bound"] if state in BINDABLE else [])
    return f" [{', '.join(words)}]" if words else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
