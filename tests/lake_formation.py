"""What moto's Lake Formation and its checks of rights lack, added to moto's own classes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from moto.core.exceptions import JsonRESTError
from moto.iam.access_control import IAMRequest
from moto.lakeformation.models import LakeFormationBackend
from moto.lakeformation.responses import LakeFormationResponse

from tests.aws_server import AwsServer

_get_tags = LakeFormationBackend.get_resource_lf_tags


def mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags are added to those there, their values are checked, SELECT is listed as AWS lists it."""
    monkeypatch.setattr(LakeFormationBackend, "add_lf_tags_to_resource", _add_tags)
    monkeypatch.setattr(LakeFormationBackend, "get_resource_lf_tags", _tags)
    monkeypatch.setattr(LakeFormationBackend, "list_permissions", _list_permissions)


def refuse_grants_to(principal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal that AWS does not know: the batch's other grants are made."""

    def answer(self: Any) -> str:
        entries = self._get_param("Entries")
        good = [each for each in entries if principal not in each["Principal"].values()]
        self.lakeformation_backend.batch_grant_permissions(self.current_account, good)
        reason = {"ErrorCode": "InvalidInputException", "ErrorMessage": "Invalid principal"}
        bad = [each for each in entries if each not in good]
        return json.dumps({"Failures": [{"RequestEntry": each, "Error": reason} for each in bad]})

    monkeypatch.setattr(LakeFormationResponse, "batch_grant_permissions", answer)


@contextmanager
def rights_checked(server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While in here, callers have the rights of their IAM policies and no others."""

    def denied(self: Any) -> None:
        # moto answers in XML, whatever the service speaks.
        raise JsonRESTError(
            "AccessDeniedException",
            f"User: {self._access_key.arn} is not authorized to perform: {self._action}",
        )

    monkeypatch.setattr(IAMRequest, "_raise_access_denied", denied)
    _reset_auth(server, "0")
    try:
        yield
    finally:
        _reset_auth(server, "inf")


def _reset_auth(server: AwsServer, first: str) -> None:
    requests.post(f"{server.url}/moto-api/reset-auth", data=first, timeout=30).raise_for_status()


def _add_tags(
    self: Any, catalog_id: str, resource: dict[str, Any], tags: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    known = self.list_lf_tags(catalog_id)
    bad = [tag for tag in tags if not set(tag["TagValues"]) <= set(known.get(tag["TagKey"], ()))]
    if bad:
        reason = {
            "ErrorCode": "EntityNotFoundException",
            "ErrorMessage": "Tag or tag value does not exist.",
        }
        return [{"LFTag": tag, "Error": reason} for tag in bad]
    for tag in tags:
        tag["CatalogId"] = catalog_id
    columns = resource.get("TableWithColumns", {})
    table = columns or resource["Table"]
    place = (self.account_id, table["DatabaseName"], table["Name"])
    keys: list[Any] = [
        (self.lf_columns_tags, (*place, name)) for name in columns.get("ColumnNames", ())
    ]
    for tagged, key in keys or [(self.lf_table_tags, place)]:
        have = {tag["TagKey"]: tag for tag in tagged.get(key, ())}
        tagged[key] = [*(have | {tag["TagKey"]: tag for tag in tags}).values()]
    return []


def _tags(self: Any, catalog_id: str, resource: dict[str, Any]) -> Any:
    if "Table" in resource:
        # moto knows no table without one.
        place = (self.account_id, resource["Table"]["DatabaseName"], resource["Table"]["Name"])
        self.lf_table_tags.setdefault(place, [])
    return _get_tags(self, catalog_id, resource)


def _list_permissions(
    self: Any, catalog_id: str, principal: Any, resource: Any, resource_type: Any
) -> list[dict[str, Any]]:
    found = []
    for each in self.grants[catalog_id].permissions if catalog_id in self.grants else ():
        table = each.resource.get("Table") or each.resource.get("TableWithColumns") or {}
        asked = (resource.table.database_name, resource.table.name)
        if (table.get("DatabaseName"), table.get("Name")) != asked:
            continue
        whole = {"DatabaseName": asked[0], "Name": asked[1]}
        by_columns = {"TableWithColumns": {**whole, "ColumnWildcard": {}}}
        for permission in each.permissions:
            is_whole = "Table" in each.resource
            place = by_columns if is_whole and permission == "SELECT" else each.resource
            found.append(
                {
                    "Principal": each.principal,
                    "Resource": place,
                    "Permissions": [permission],
                    "PermissionsWithGrantOption": [],
                }
            )
    return found
