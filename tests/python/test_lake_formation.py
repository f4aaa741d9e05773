"""Tags and grants: what lacks is added, nothing is taken away, and what fails is a sentence."""

from typing import Any

import pytest

from tests import lake_formation as server
from tests.aws_server import AwsServer
from tidemark.aws.lake_formation import Access, AccessError, Permissions, Place

SALES = Place("marts", "sales", {"id", "price"})
TABLE = {"Table": SALES.resource}
ANALYSTS, AUDITORS = ("arn:aws:iam::123456789012:role/" + name for name in ("analysts", "auditors"))


@pytest.fixture
def lake(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    server.mend(monkeypatch)
    found = aws.client("lakeformation")
    for key, values in {"domain": ["sales", "hr"], "steward": ["ada"], "pii": ["low"]}.items():
        found.create_lf_tag(TagKey=key, TagValues=values)
    return found


def tags(lake: Any) -> dict[str, list[str]]:
    found = lake.get_resource_lf_tags(Resource=TABLE).get("LFTagsOnTable", [])
    return {each["TagKey"]: each["TagValues"] for each in found}


def changes(aws: AwsServer) -> list[str]:
    return [call for call in aws.calls if not call.startswith(("/Get", "/List"))]


def test_what_lacks_is_added_and_what_is_there_is_left_alone(aws: AwsServer, lake: Any) -> None:
    steward = [{"TagKey": "steward", "TagValues": ["ada"]}]
    lake.add_lf_tags_to_resource(Resource=TABLE, LFTags=steward)
    who = {"DataLakePrincipalIdentifier": ANALYSTS}
    lake.grant_permissions(Principal=who, Resource=TABLE, Permissions=["ALL"])
    wanted = Access(
        {"domain": "sales"},
        {"price": {"pii": "low"}},
        {ANALYSTS: frozenset({"SELECT"}), AUDITORS: frozenset({"SELECT", "DESCRIBE"})},
    )
    assert Permissions().give(SALES, wanted, set()) == [
        "marts.sales is tagged domain=sales.",
        "marts.sales, column price, is tagged pii=low.",
        f"{AUDITORS} has DESCRIBE, SELECT on marts.sales.",
    ]
    assert tags(lake) == {"steward": ["ada"], "domain": ["sales"]}
    assert changes(aws)[-3:] == [
        "/AddLFTagsToResource",
        "/AddLFTagsToResource",
        "/BatchGrantPermissions",
    ]
    aws.calls.clear()
    assert Permissions().give(SALES, wanted, wanted.entries()) == []
    assert changes(aws) == []


def test_another_value_takes_the_place_of_the_first(lake: Any) -> None:
    first, second = Access({"domain": "sales"}), Access({"domain": "hr"})
    Permissions().give(SALES, first, set())
    assert Permissions().give(SALES, second, first.entries()) == [
        "marts.sales is tagged domain=hr."
    ]
    assert tags(lake) == {"domain": ["hr"]}


def test_what_is_declared_no_longer_is_told_while_it_is_there(lake: Any) -> None:
    first = Access({"domain": "sales"}, {"price": {"pii": "low"}}, {})
    Permissions().give(SALES, first, set())
    told = Permissions().give(SALES, Access(), first.entries())
    assert [line.split(" is no longer declared")[0] for line in told] == [
        "marts.sales: the tag domain: sales",
        "marts.sales: the tag of price pii: low",
    ]
    lake.remove_lf_tags_from_resource(
        Resource=TABLE, LFTags=[{"TagKey": "domain", "TagValues": ["sales"]}]
    )
    (left,) = Permissions().give(SALES, Access(), first.entries())
    assert "tag of price" in left


@pytest.mark.parametrize("tag", [{"unknown": "x"}, {"domain": "unknown"}])
def test_a_tag_that_nobody_created_is_named_and_not_created(lake: Any, tag: dict[str, str]) -> None:
    ((key, value),) = tag.items()
    with pytest.raises(AccessError, match=f"cannot be tagged {key}={value}: there is no LF-Tag"):
        Permissions().give(SALES, Access(tag), set())
    assert sorted(each["TagKey"] for each in lake.list_lf_tags()["LFTags"]) == [
        "domain",
        "pii",
        "steward",
    ]


def test_a_tag_of_a_column_that_is_not_there_is_refused(lake: Any) -> None:
    with pytest.raises(AccessError, match="marts.sales has no column prize, but"):
        Permissions().give(SALES, Access(columns={"prize": {"pii": "low"}}), set())


def test_a_grant_that_fails_in_a_batch_is_named_and_the_others_are_made(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.refuse_grants_to(ANALYSTS, monkeypatch)
    wanted = Access(grants={who: frozenset({"SELECT"}) for who in (ANALYSTS, AUDITORS)})
    with pytest.raises(AccessError, match=rf"marts.sales to {ANALYSTS} \(Invalid principal\)\.$"):
        Permissions().give(SALES, wanted, set())
    (made,) = lake.list_permissions(Resource=TABLE)["PrincipalResourcePermissions"]
    assert made["Principal"]["DataLakePrincipalIdentifier"] == AUDITORS
