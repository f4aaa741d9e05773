"""What a run tells people."""

from collections.abc import Sequence

from tabulate import tabulate

from tidemark.landing import Landed


def one_line(landed: Sequence[Landed]) -> str:
    """What landed, in one line."""
    new = [entry for entry in landed if entry.files or entry.set_aside]
    if not new:
        return "No new files."
    rows = sum(entry.rows for entry in new)
    rejected = sum(entry.rejected for entry in new)
    text = f"Landed {rows} rows of {sum(entry.files for entry in new)} files."
    if rejected:
        text += f" {rejected} rows went to tidemark.dead_letter."
    aside = sum(entry.set_aside for entry in new)
    if aside:
        text += f" {aside} files were set aside: see tidemark.dead_letter."
    return text


def table(landed: Sequence[Landed]) -> str:
    """What landed, a line for each table that got files."""
    rows = [
        (entry.feed.name, entry.files, entry.rows, entry.rejected, entry.set_aside)
        for entry in landed
        if entry.files or entry.set_aside
    ]
    return tabulate(rows, headers=["table", "files", "rows", "rejected rows", "files set aside"])
