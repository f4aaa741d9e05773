"""A project of somebody else, the jaffle shop. Tests install Tidemark into copies of it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_THEIRS = Path(__file__).parent / "functional" / "jaffle_shop"
PEOPLE = "id,name,born\n1,Ada,1815-12-10\n2,Grace,1906-12-09\n"

# Some columns of the tables after the first build: their models, hook, source, dispatch and names
# of schemas work as before, and read what Tidemark builds.
_BUILT = {
    ("jaffle.orders", "label, customer, runs"): [
        ("order-1", "Ada", "1"),
        ("order-2", "Grace", "1"),
    ],
    ("jaffle.members", "name"): [("Ada",), ("Grace",)],
    ("jaffle_current.cur_club__people", "id, name"): [("1", "Ada"), ("2", "Grace")],
    ("jaffle_history.hist_club__people", "id, is_current"): [("1", "True"), ("2", "True")],
}


@dataclass(frozen=True)
class JaffleShop:
    """A copy of the project, in a folder of its own."""

    folder: Path

    @property
    def landing(self) -> Path:
        """Where the files of the club arrive."""
        return self.folder / "landing"

    def land_people(self, text: str) -> None:
        """A file of the club's people arrives."""
        file = self.landing / "club" / "people" / "people.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def copied_to(folder: Path) -> JaffleShop:
    """The project as its people have it, without Tidemark."""
    return JaffleShop(Path(shutil.copytree(_THEIRS, folder)))


def require_first_build(rows: Callable[[str, str], list[tuple[str, ...]]]) -> None:
    """Compare what PEOPLE and the seeds must give with the rows of tables.

    `rows` gives some columns of a table as texts, in any order.
    """
    for (relation, columns), wanted in _BUILT.items():
        assert sorted(rows(relation, columns)) == wanted, relation
