"""Running the steps of a change so that a failure leaves the host as it was.

Each step that succeeds pushes how to take it back. When a later one fails, what was pushed runs in reverse. Undo lives in memory
only: an agent killed half-way finds a half-done state, which every plan starts from as well as from an untouched one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeAlias

from cantle.errors import CantleError, HostError
from cantle.kernel.root import Root
from cantle.model.step import Step


class Undo:
    """A stack of ways back, as a context manager: leaving it by an exception runs them in reverse, leaving it normally forgets them.

    The exception goes on unchanged when every way back worked. Otherwise it is a HostError ``undo-incomplete`` (caused by the first
    one), whose ``details["undo"]`` lists what could not be taken back, and why. One failing way back never stops the others.
    """

    def __init__(self) -> None:
        self._ways: list[tuple[str, Callable[[], None]]] = []

    def push(self, sentence: str, way_back: Callable[[], None]) -> None:
        """Remember how to take back what was just done. ``sentence`` names it in an error: ``bind 0000:af:00.0 to nvidia again``."""
        self._ways.append((sentence, way_back))

    def hand_over(self, to: Undo) -> None:
        """Let a caller's stack answer for what was done here: for a change that is one part of a larger one."""
        to._ways += self._ways
        self._ways = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._ways = []
            return
        failures = self._run()
        if not failures:
            return
        message = f"{error}; and this could not be taken back: {'; '.join(failures)}"
        if not isinstance(error, CantleError):
            error.add_note(message)
            return
        path, errno = (error.path, error.errno) if isinstance(error, HostError) else ("", None)
        raise HostError(
            "undo-incomplete", message, path=path, errno=errno, first=error.code, undo=tuple(failures)
        ) from error

    def _run(self) -> list[str]:
        failures = []
        while self._ways:
            sentence, way_back = self._ways.pop()
            try:
                way_back()
            except Exception as error:  # noqa: BLE001 - the ways back below this one must run whatever it raised; it is reported
                failures.append(f"{sentence}: {error}")
        return failures


#: Runs one step and pushes its way back. May return a note for the person who asked: something that worked otherwise than usual.
Executor: TypeAlias = Callable[[Root, Step, Undo], str | None]
#: The code for each step name. Rooms that know more kinds of steps merge theirs: ``{**vfio.EXECUTORS, **mdev.EXECUTORS}``.
Executors: TypeAlias = Mapping[str, Executor]


def run_steps(root: Root, steps: Iterable[Step], executors: Executors, undo: Undo | None = None) -> list[str]:
    """Run steps in order, all or nothing; the notes of those that had one.

    :param undo: the stack of a larger change, which then answers for these steps too.
    :raises HostError: ``unknown-step`` before anything is touched; ``undo-incomplete`` (see :class:`Undo`).
    :raises CantleError: what a step raised; everything done before it was taken back.
    """
    steps = tuple(steps)
    unknown = sorted({step.name for step in steps} - executors.keys())
    if unknown:
        raise HostError(
            "unknown-step",
            f"nothing here runs the step {', '.join(unknown)}; plan again with this version",
            steps=unknown,
        )
    notes = []
    with Undo() as own:
        for step in steps:
            note = executors[step.name](root, step, own)
            if note is not None:
                notes.append(note)
        if undo is not None:
            own.hand_over(undo)
    return notes
