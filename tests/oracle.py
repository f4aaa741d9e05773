"""What the tables must hold, in plain Python, written rule by rule: no Spark.

Nothing here is shared with the macros: the two agree only when both follow the rules. Times are
whole microseconds since 1970.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Key = tuple[Any, ...]
Values = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A change as it arrived; `key` is empty for a truncate, `row` has the key's columns too."""

    key: Key
    op: str
    sequence: tuple[Any, ...]
    changed_at: int
    row: Values
    file_at: int
    file: str
    position: int
    is_initial: bool = False
    generation: int = 0
    epoch: int = 0
    left_out: frozenset[str] = frozenset()

    @property
    def turn(self) -> tuple[Any, ...]:
        """Rules 1, 18 and 19: what orders events; those of one turn are a tie.

        Sequences are compared within an epoch and a generation; the first load is before all.
        """
        since = self.generation + self.epoch
        if self.is_initial:
            return (since if self.generation else 0, 0)
        return (since, 1, self.sequence)

    @property
    def place(self) -> tuple[Any, ...]:
        """Rule 2: a tie is decided by file, then by position."""
        return (self.turn, self.file_at, self.file, self.position)

    @property
    def is_delete(self) -> bool:
        """Whether the row is gone after this."""
        return self.op in ("D", "T")


@dataclass
class Version:
    """A row of the history."""

    key: Key
    row: Values
    valid_from: int
    valid_to: int | None
    version_number: int
    is_deleted: bool = False


def stories(events: Iterable[Event]) -> dict[Key, list[Event]]:
    """The events of each key, in order, copies left out."""
    events = list(events)
    truncates = [event for event in events if event.op == "T"]
    of_key: dict[Key, list[Event]] = {event.key: [] for event in events if event.op != "T"}
    for event in events:
        if event.op != "T":
            of_key[event.key].append(event)
    # Rule 8: a truncate deletes every key; what is later by rule 1 stays by itself.
    for key, own in of_key.items():
        own.extend(replace(truncate, key=key) for truncate in truncates)
    return {key: _whole(_without_copies(sorted(own, key=_place))) for key, own in of_key.items()}


def _place(event: Event) -> tuple[Any, ...]:
    return event.place


def _without_copies(ordered: Sequence[Event]) -> list[Event]:
    """Rule 3: of equal events only the first in order counts. Rule 7: a delete is its key."""
    kept: list[Event] = []
    for event in ordered:
        if all(_content(event) != _content(other) for other in kept):
            kept.append(event)
    return kept


def _content(event: Event) -> tuple[Any, ...]:
    row = None if event.is_delete else (event.row, event.left_out)
    return (event.op, event.turn, row)


def _whole(story: Sequence[Event]) -> list[Event]:
    """Rule 21: what an event leaves out is as in the event before it, if that is no delete."""
    whole: list[Event] = []
    before: Values = {}
    for event in story:
        left_out = {name: before.get(name) for name in event.left_out}
        whole.append(event if event.is_delete else replace(event, row={**event.row, **left_out}))
        before = {} if event.is_delete else whole[-1].row
    return whole


def current(events: Iterable[Event]) -> dict[Key, Values]:
    """Rule 5: the row of a key is that of its last event, or absent after a delete."""
    last = {key: story[-1] for key, story in stories(events).items()}
    return {key: event.row for key, event in last.items() if not event.is_delete}


def history(
    events: Iterable[Event], tracked: Sequence[str], show_deletes: bool = False
) -> list[Version]:
    """Rules 11 to 16: every version of every key, each key's in order.

    With `show_deletes`, a time without the row is a version, too: it shows the last values.
    """
    versions: list[Version] = []
    for key, story in stories(events).items():
        number = 0
        is_open = False
        for event, at in _taking_effect(story):
            if event.is_delete:
                if is_open:
                    versions[-1].valid_to = at
                    if show_deletes:
                        number += 1
                        row = versions[-1].row
                        versions.append(Version(key, row, at, None, number, is_deleted=True))
                is_open = False
                continue
            if is_open and _alike(versions[-1].row, event.row, tracked):
                # Rule 13: one version that shows the latest values and starts at the first.
                versions[-1].row = event.row
                continue
            if number and (is_open or show_deletes):
                versions[-1].valid_to = at
            number += 1
            versions.append(Version(key, event.row, at, None, number))
            is_open = True
    return versions


def _taking_effect(story: Sequence[Event]) -> list[tuple[Event, int]]:
    """The events that show, and when each takes effect."""
    # A truncate changes nothing of a key that is deleted already, so its time does not count.
    pairs = zip([None, *story], story, strict=False)
    story = [
        event for before, event in pairs if not (before and before.is_delete and event.op == "T")
    ]
    # Rule 16: a change cannot take effect after one that follows it.
    timed = [(event, min(later.changed_at for later in story[n:])) for n, event in enumerate(story)]
    # Rule 15: the last of a turn counts; then, of what is left, the last of an instant.
    of_turn = {event.turn: (event, at) for event, at in timed}
    of_instant = {at: (event, at) for event, at in of_turn.values()}
    return list(of_instant.values())


def _alike(left: Values, right: Values, columns: Sequence[str]) -> bool:
    """Rule 13: None equals None, and differs from ''."""
    return all(left[name] == right[name] for name in columns)
