"""A log or a topic that begins anew: refused while nobody has said so, in order once it is said."""

import json
from typing import Any

import pytest

from tests import scenario
from tests.functional.test_commands import tidemark
from tests.functional.test_landing import COLUMNS, dead_letters, land
from tests.project import Project
from tidemark.ingest import ledger

pytestmark = pytest.mark.functional

NINE = 1_709_283_600  # 2024-03-01 09:00
HOUR = 3600
OLD, NEW = "mysql-bin-changelog.000913", "mysql-bin-changelog.000002"
TABLES = ("current.cur_back__{}", "history.hist_back__{}")


def event(op: str, key: int, name: str, hours: float, place: Any = None) -> str:
    """A change of a key so many hours after nine, at a file and position of MySQL's log."""
    row = {"id": key, "name": name}
    source: dict[str, Any] = {"ts_ms": int((NINE + hours * HOUR) * 1000)}
    if place:
        source |= {"file": place[0], "pos": place[1], "row": 0}
    before, after = (row, None) if op == "d" else (None, row)
    envelope = {"op": op, "before": before, "after": after, "source": source}
    return json.dumps(envelope) + "\n"


def landed_and_refused(project: Project) -> list[tuple[int, dict[str, str]]]:
    """Of each table: how many files landed, and which were set aside."""
    return [(landed.files, landed.reasons) for landed in land(project) if landed.is_new]


@pytest.mark.slow
def test_a_log_that_goes_back_lands_once_epochs_are_declared(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    """23. The tables are as if the epochs had been declared from the start."""
    declared = "2024-03-01 12:00:00"
    project.add("back.told", COLUMNS, "id", format="debezium", epochs=[declared])
    project.add("back.untold", COLUMNS, "id", format="debezium")

    def arrives(name: str, *events: str) -> None:
        for table in ("told", "untold"):
            project.land(f"back/{table}/{name}", "".join(events))

    before = [event("c", 1, "a", 0, (OLD, 100)), event("c", 2, "a", 0, (OLD, 200))]
    arrives("1.json", *before, event("u", 1, "b", 2, (OLD, 300)))
    assert tidemark(project, "run") == 0
    capfd.readouterr()
    arrives("2.json", event("r", 3, "a", 3.1, (NEW, 4)), event("u", 1, "c", 4, (NEW, 90)))
    arrives("3.json", event("c", 4, "a", 4.1, (NEW, 95)))
    arrives("4.json", event("d", 2, "a", 4.2, (NEW, 98)), event("d", 4, "a", 5, (NEW, 99)))
    assert tidemark(project, "run") == 0

    reason = (
        "its changes contradict their positions: a key (the column value of tidemark.dead_letter) "
        "changed at 2024-03-01 13:00:00 at "
        "position 0000000002|00000000000000000090|0000000000, and at 2024-03-01 09:00:00 at the "
        "later position 0000000913|00000000000000000100|0000000000. If the source's log or the "
        "topic was created again, add the time to epochs and run tidemark replay. If the changes "
        "are correct: tidemark confirm back/untold/2.json"
    )
    assert f"back.untold: set aside back/untold/2.json: {reason}" in capfd.readouterr().out
    letters = dead_letters(project, "back")
    assert {value for _, _, _, value, _ in letters} <= {"id 1", "id 2", "id 4"}
    refused = {file: reason for file, _, _, _, reason in letters}
    assert list(refused) == ["2.json", "4.json"]
    assert refused["2.json"] == reason
    current = project.rows("current.cur_back__untold", ["id", "name"])
    assert current == [(1, "b"), (2, "a"), (4, "a")]

    yaml = project.folder / "models/staging/back/_back__sources.yml"
    head, name, rest = yaml.read_text().partition("name: untold\n")
    rest = rest.replace("key: id\n", f"key: id\n              epochs: {declared}\n", 1)
    yaml.write_text(head + name + rest)
    assert tidemark(project, "replay") == 1
    said = capfd.readouterr()
    assert (
        f"sequence was place in the source and is now place in the source, anew since {declared}"
        in said.out + said.err
    )
    assert project.rows("current.cur_back__untold", ["id", "name"]) == current
    models = [table.format("untold").split(".")[1] for table in TABLES]
    project.build("--full-refresh", "--select", *models)
    for table in TABLES:
        told, untold = (
            scenario.rows_as_text(project, table.format(name)) for name in ("told", "untold")
        )
        assert sorted(map(str, told)) == sorted(map(str, untold))
    assert project.rows("current.cur_back__untold", ["id", "name"]) == [(1, "c"), (3, "a")]
    # And goes on from there.
    arrives("5.json", event("u", 1, "d", 6, (NEW, 100)))
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_back__untold", ["name"], "id")[0] == ("d",)


@pytest.mark.slow
def test_what_is_confirmed_or_only_late_is_taken(project: Project) -> None:
    project.add("place.t", COLUMNS, "id", format="debezium")

    def arrives(name: str, *events: str) -> None:
        project.land(f"place/t/{name}", "".join(events))

    first = [event("c", 1, "a", 0, (OLD, 100)), event("u", 1, "b", 8, (OLD, 900))]
    arrives("1.json", *first)
    assert landed_and_refused(project) == [(1, {})]

    # Late, an hour's disagreement, a snapshot, copies, another key, a change without a time.
    arrives("2.json", event("u", 1, "late", 2, (OLD, 200)))
    arrives("3.json", event("u", 1, "x", 7.1, (OLD, 950)), event("u", 1, "x", 8.1, (OLD, 960)))
    arrives("4.json", event("r", 1, "x", 20, (OLD, 1)), event("r", 1, "x", -9, (OLD, 9999)))
    arrives("5.json", *first)
    arrives("6.json", event("c", 2, "a", 30, (NEW, 4)))
    arrives("7.json", event("u", 1, "x", 0, (OLD, 150)).replace(str(NINE * 1000), "0"))
    assert landed_and_refused(project) == [(6, {})]

    # A clock was in the future for a moment.
    arrives("8.json", event("u", 1, "x", 99, (OLD, 2000)))
    assert landed_and_refused(project) == [(1, {})]
    arrives("9.json", event("u", 1, "y", 9, (OLD, 2100)), event("u", 1, "z", 9.1, (OLD, 2200)))
    arrives("9b.json", event("c", 3, "a", 9, (OLD, 2300)))
    ((files, reasons),) = landed_and_refused(project)
    assert (files, list(reasons)) == (1, ["place/t/9.json"])
    (reason,) = reasons.values()
    assert "changed at 2024-03-05 12:00:00 at position 0000000913|" in reason
    assert ledger.confirm(project.spark, "place/t/9.json", "test") == "place.t"
    assert landed_and_refused(project) == [(1, {})]
    arrives("10.json", event("u", 1, "zz", 10, (OLD, 2400)))
    assert landed_and_refused(project) == [(1, {})], "the same is not asked twice"


@pytest.mark.slow
def test_a_topic_made_anew_is_refused_also_in_one_load(project: Project) -> None:
    by_offset = {"format": "debezium", "sequence": "offset"}
    project.add("topic.t", COLUMNS, "id", **by_offset)
    project.add("topic.whole", COLUMNS, "id", format="debezium")
    file = "topic/t/orders+0+0000000000.json"
    first = event("c", 1, "a", 0) + event("u", 1, "b", 2)
    project.land(file, first, modified=NINE + 3 * HOUR)
    old = event("c", 1, "a", 0, (OLD, 100)) + event("u", 2, "b", 2, (OLD, 200))
    project.land("topic/whole/1.json", old)
    project.land("topic/whole/2.json", event("u", 2, "c", 4, (NEW, 4)))
    project.land("topic/whole/3.json", event("c", 3, "c", 4, (NEW, 9)))
    (of_topic, (files, reasons)) = landed_and_refused(project)
    assert of_topic == (1, {})
    assert (files, list(reasons)) == (2, ["topic/whole/2.json"])

    # The same records again, then other ones under the same name.
    project.land(file, first, modified=NINE + 4 * HOUR)
    assert landed_and_refused(project) == [(1, {})]
    project.land(file, event("u", 1, "c", 5), modified=NINE + 6 * HOUR)
    ((files, reasons),) = landed_and_refused(project)
    assert (files, list(reasons)) == (0, [file])
    zero = "0" * 20
    assert (
        f"changed at 2024-03-01 14:00:00 at position {zero}, and at 2024-03-01 09:00:00 "
        f"at the same position {zero}. If the source's log or the topic was created"
    ) in reasons[file]
