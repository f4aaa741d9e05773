"""What to land: the files in the landing folder that the ledger does not have. Needs no Spark."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from tidemark import storage
from tidemark.feeds import Feed
from tidemark.ingest import books, files, ledger
from tidemark.ingest.books import Books
from tidemark.ingest.files import LandedFile
from tidemark.ingest.landed import Landed
from tidemark.reasons import Why
from tidemark.storage import LandingFolder

# Smaller files do not make a run large.
_COUNTS_FROM = 1 << 20

# The files of a feed, None without a folder, or why they cannot be listed.
Listed = list[LandedFile] | Exception | None


def listed(root: LandingFolder, feed: Feed, own: Books) -> Listed:
    """The feed's files, or the error that prevents it: the other tables land."""
    try:
        found = files.listed(root, feed, cache(lambda: ledger.versions(own, feed)))
        return found or ([] if root.has(feed.path) else None)
    except Exception as error:
        return error


def of_landing_folder(own: Books, feeds: Sequence[Feed]) -> tuple[list[Landed], ledger.Ledger]:
    """As `plan`, for the files in the landing folder."""
    root = storage.landing_folder()
    root.require()
    return plan(own, feeds, [listed(root, feed, own) for feed in feeds])


def new_bytes(own: Books | None) -> list[int]:
    """About how many bytes are new in each folder below a local landing folder.

    Also in folders of no feed. Small files do not count. Empty when a folder cannot be read: if it
    is a feed's, landing reports it.
    """
    known: set[tuple[str, int]] = set()
    if own:
        large = own.read(books.LEDGER, ("file", "size"), f"size >= {_COUNTS_FROM}")
        known = {(row["file"], row["size"]) for row in books.rows(large)}
    root = storage.landing_folder()
    try:
        found = [(file.path.lstrip("/"), file.size) for file in root.walk("", dict)]
    except OSError:
        return []
    of_folders: Counter[str] = Counter()
    for path, size in found:
        if size >= _COUNTS_FROM and (path, size) not in known:
            of_folders[path.rpartition("/")[0]] += size
    return list(of_folders.values())


def plan(
    own: Books, feeds: Sequence[Feed], found: Sequence[Listed]
) -> tuple[list[Landed], ledger.Ledger]:
    """Each feed with its plan, if it has new files, and what the ledger has of the files."""
    pairs = list(zip(feeds, found, strict=True))
    there = {feed.name: each for feed, each in pairs if isinstance(each, list)}
    book = ledger.read(own, there, feeds)
    return [
        _plan(own, feed, book.unreadable.get(feed.name, each), book) for feed, each in pairs
    ], book


def _plan(own: Books, feed: Feed, found: Listed, book: ledger.Ledger) -> Landed:
    landed = Landed(feed)
    if isinstance(found, Exception):
        # Imported late: only errors need it.
        from tidemark.spark import session

        landed.failure = session.readable(found)
        return landed
    landed.has_folder = found is not None
    there = {file.path for file in found or []}
    missing = ledger.landed_paths(own, feed) - there if feed.missing_files == "fail" else None
    if missing:
        landed.failure = str(Why.FILES_MISSING(count=len(missing), first=min(missing)))
        return landed
    lost = book.wanted(feed) - there
    if lost:
        landed.notes.append(Why.WISH_WITHOUT_FILE(files=", ".join(sorted(lost))))
    landed.plan = book.plan(feed, found or [])
    if landed.plan and feed.format == "dms":
        landed.plan = _with_left_over(landed.plan, found or [], book.paths(feed))
    return landed


def _with_left_over(
    planned: ledger.Plan, found: Sequence[LandedFile], landed: Iterable[str]
) -> ledger.Plan:
    left_over = files.left_over(found, set(landed))
    mine = {file.path for file in planned.files} - planned.confirmed
    return replace(
        planned, left_over={path: why for path, why in left_over.items() if path in mine}
    )
