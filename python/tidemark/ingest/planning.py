"""What there is to land: the files that are there, against the ledger. It needs no Spark."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidemark import storage
from tidemark.feeds import Feed
from tidemark.ingest import books, files, ledger
from tidemark.ingest.books import Books
from tidemark.ingest.files import LandedFile
from tidemark.ingest.landed import Landed
from tidemark.ingest.reasons import Why
from tidemark.storage import LandingFolder

# Smaller files do not make a run large.
_COUNTS_FROM = 1 << 20

# The files of a feed, None without a folder, or why they cannot be listed.
Listed = list[LandedFile] | Exception | None


def listed(root: LandingFolder, feed: Feed, own: Books) -> Listed:
    """The feed's files. What goes wrong is given back: one table's trouble is not the others'."""
    try:
        found = files.listed(root, feed, ledger.Versions(own, feed))
        return found or ([] if root.has(feed.path) else None)
    except Exception as error:
        return error


def of_landing_folder(
    own: Books, feeds: Sequence[Feed]
) -> tuple[list[tuple[Landed, ledger.Plan | None]], ledger.Ledger]:
    """As `plan`, of the files that are in the landing folder now."""
    root = storage.landing_folder()
    root.require()
    return plan(own, feeds, [listed(root, feed, own) for feed in feeds])


def new_bytes(own: Books | None) -> int:
    """About how many bytes of a local landing folder are new, before it is known what is a feed's.

    Small files are not counted. 0 when a folder cannot be read: if it is a feed's, landing says so.
    """
    known: set[tuple[str, int]] = set()
    if own:
        large = own.read(books.LEDGER, ("file", "size"), f"size >= {_COUNTS_FROM}")
        known = {(row["file"], row["size"]) for row in books.rows(large)}
    root = storage.landing_folder()
    try:
        found = [(file.path.lstrip("/"), file.size) for file in root.walk("", {})]
    except OSError:
        return 0
    return sum(size for path, size in found if size >= _COUNTS_FROM and (path, size) not in known)


def plan(
    own: Books, feeds: Sequence[Feed], found: Sequence[Listed]
) -> tuple[list[tuple[Landed, ledger.Plan | None]], ledger.Ledger]:
    """What is to be landed of each feed, in their order, and what the ledger says of the files."""
    pairs = list(zip(feeds, found, strict=True))
    there = {feed.name: each for feed, each in pairs if isinstance(each, list)}
    book = ledger.read(own, there, feeds)
    return [_plan(own, feed, each, book) for feed, each in pairs], book


def _plan(
    own: Books, feed: Feed, found: Listed, book: ledger.Ledger
) -> tuple[Landed, ledger.Plan | None]:
    landed = Landed(feed)
    if isinstance(found, Exception):
        # Imported late: Spark's own errors need its words for them.
        from tidemark.spark import session

        landed.failure = session.readable(found)
        return landed, None
    landed.has_folder = found is not None
    there = {file.path for file in found or []}
    missing = _missing(own, feed, there)
    if missing:
        landed.failure = str(Why.FILES_MISSING(count=len(missing), first=min(missing)))
        return landed, None
    lost = book.wanted(feed) - there
    if lost:
        landed.notes.append(Why.WISH_WITHOUT_FILE(files=", ".join(sorted(lost))))
    planned = book.plan(feed, found or [])
    if planned and feed.format == "dms":
        planned = _without_left_over(planned, found or [], book.paths(feed))
    return landed, planned


def _missing(own: Books, feed: Feed, there: set[str]) -> set[str]:
    return ledger.landed_paths(own, feed) - there if feed.missing_files == "fail" else set()


def _without_left_over(
    planned: ledger.Plan, found: Sequence[LandedFile], landed: Iterable[str]
) -> ledger.Plan:
    left_over = files.left_over(found, set(landed))
    mine = {file.path for file in planned.files} - planned.confirmed
    return replace(
        planned, left_over={path: why for path, why in left_over.items() if path in mine}
    )
