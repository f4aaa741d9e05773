"""Lake Formation: add missing tags and grants that the models' YAML declares.

Never removes any. Reports tags and grants that were added here and are no longer declared.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from tidemark import aws
from tidemark.errors import ConfigError

PERMISSIONS = ("ALL", "SELECT", "INSERT", "DELETE", "DESCRIBE", "ALTER", "DROP")
# Lake Formation's limit per call.
_GRANTS_AT_ONCE = 20
_SHAPE = (
    "expected {tags: {domain: insurance}, grants: [{principal: arn:aws:iam::..., "
    "permissions: [SELECT]}]}, or for a column {tags: {...}}"
)


# The kind (tag, tag of a column, or grant), the key or principal, and the value.
Entry = tuple[str, str, str]


class AccessError(aws.AwsError):
    """Lake Formation refused a tag or a grant."""


@dataclass(frozen=True)
class Access:
    """Tags of a table, tags of its columns by name, and permissions by principal."""

    tags: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    grants: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def entries(self) -> set[Entry]:
        """Each tag and each permission as a separate entry."""
        found = {("tag", key, value) for key, value in self.tags.items()}
        for column, tags in self.columns.items():
            found |= {(f"tag of {column}", key, value) for key, value in tags.items()}
        for principal, permissions in self.grants.items():
            found |= {("grant", principal, permission) for permission in permissions}
        return found

    def allows(self, principal: str, permission: str) -> bool:
        """Whether the principal has the permission on the whole table."""
        return bool({permission, "ALL"} & self.grants.get(principal, frozenset()))


@dataclass(frozen=True)
class Place:
    """A table of the Data Catalog, and the names of its columns."""

    database: str
    table: str
    columns: Set[str]

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def resource(self) -> dict[str, str]:
        """The table in the form of Lake Formation's API."""
        return {"DatabaseName": self.database, "Name": self.table}


def declared(where: str, table: Any, columns: Mapping[str, Any]) -> Access:
    """Parse `meta.lake_formation` of a table and of its columns.

    Raises a ConfigError that starts with `where`.
    """
    try:
        return Access(
            _tags(table, ("tags", "grants")),
            {name: _tags(each, ("tags",)) for name, each in columns.items() if each is not None},
            _grants((table or {}).get("grants", [])),
        )
    except ValueError as error:
        raise ConfigError(f"{where}: meta.lake_formation is wrong: {error}; {_SHAPE}.") from error


def _tags(meta: Any, known: Iterable[str]) -> dict[str, str]:
    if meta is None:
        return {}
    if not isinstance(meta, Mapping):
        raise ValueError(f"'{meta}' is not a mapping")
    unknown = [str(key) for key in meta if key not in known]
    if unknown:
        raise ValueError(f"'{unknown[0]}' is not a known setting")
    tags = meta.get("tags", {})
    if not isinstance(tags, Mapping):
        raise ValueError(f"the tags '{tags}' are not a mapping")
    for key, value in tags.items():
        if not (isinstance(key, str) and isinstance(value, str) and key and value):
            raise ValueError(f"the tag {key}: {value} must map one text to one text")
    # Lake Formation keeps both in lower case.
    return {key.lower(): value.lower() for key, value in tags.items()}


def _grants(grants: Any) -> dict[str, frozenset[str]]:
    if not isinstance(grants, list):
        raise ValueError(f"the grants '{grants}' are not a list")
    found: dict[str, frozenset[str]] = {}
    for grant in grants:
        if not isinstance(grant, Mapping) or set(grant) != {"principal", "permissions"}:
            raise ValueError(f"the grant '{grant}' must have principal and permissions only")
        principal, permissions = grant["principal"], grant["permissions"]
        if not isinstance(principal, str) or not principal:
            raise ValueError(f"the principal '{principal}' is not a text")
        if not isinstance(permissions, list) or not permissions:
            raise ValueError(f"the permissions '{permissions}' are not a list")
        wrong = [str(each) for each in permissions if each not in PERMISSIONS]
        if wrong:
            raise ValueError(f"'{wrong[0]}' is not one of {', '.join(PERMISSIONS)}")
        found[principal] = found.get(principal, frozenset()) | frozenset(permissions)
    return found


def as_text(entries: Set[Entry]) -> str:
    """The entries as text for a table parameter."""
    return json.dumps(sorted(entries), separators=(",", ":"))


def entries_of(text: str) -> set[Entry]:
    """The entries that `as_text` wrote, or none if the text has another format."""
    try:
        return {(str(kind), str(name), str(value)) for kind, name, value in json.loads(text)}
    except (TypeError, ValueError):
        return set()


class Permissions:
    """Reads and adds the tags and grants of tables."""

    def __init__(self) -> None:
        self._client = aws.client("lakeformation")

    def give(self, place: Place, wanted: Access, earlier: Set[Entry]) -> list[str]:
        """Add what the table lacks. Returns one line per addition.

        `earlier` has the entries added before. A line reports each one that still exists although
        it is no longer declared. Raises AccessError.
        """
        unknown = sorted(wanted.columns.keys() - place.columns)
        if unknown:
            raise AccessError(
                f"{place} has no column {unknown[0]}, but meta.lake_formation has tags for it. "
                "Correct the name in the YAML."
            )
        tagged = {kind.removeprefix("tag of ") for kind, _, _ in earlier} | wanted.columns.keys()
        there = self._read(place, tagged & place.columns)
        # A tag has one value: a new value replaces the old one.
        replaced = {each[:2] for each in wanted.entries() if each[0] != "grant"}
        stays = (earlier - wanted.entries()) & there.entries()
        stays = {each for each in stays if each[:2] not in replaced}
        return [
            *self._add(place, wanted, there),
            *(
                f"{place}: the {kind} {name}: {value} is no longer declared, but still exists. To "
                "remove it, use Lake Formation."
                for kind, name, value in sorted(stays)
            ),
        ]

    def _read(self, place: Place, columns: Set[str]) -> Access:
        """The current tags of the table and of some columns, and the grants."""
        with aws.asking(f"Lake Formation, tags of {place}"):
            answer = self._client.get_resource_lf_tags(
                Resource={"Table": place.resource}, ShowAssignedLFTags=True
            )
            tags = _as_tags(answer.get("LFTagsOnTable", ()))
            of_columns = {}
            if columns:
                names = {"ColumnNames": sorted(columns)}
                answer = self._client.get_resource_lf_tags(
                    Resource={"TableWithColumns": place.resource | names}, ShowAssignedLFTags=True
                )
                of_columns = {
                    each["Name"]: _as_tags(each.get("LFTags", ()))
                    for each in answer.get("LFTagsOnColumns", ())
                }
        return Access(tags, of_columns, self._grants(place))

    def _add(self, place: Place, wanted: Access, there: Access) -> list[str]:
        done = []
        missing = _lacking(wanted.tags, there.tags)
        if missing:
            self._tag(str(place), {"Table": place.resource}, missing)
            done.append(f"{place} is tagged {_told(missing)}.")
        for column, tags in wanted.columns.items():
            missing = _lacking(tags, there.columns.get(column, {}))
            if missing:
                name = f"{place}, column {column},"
                names = {"ColumnNames": [column]}
                self._tag(name, {"TableWithColumns": place.resource | names}, missing)
                done.append(f"{name} is tagged {_told(missing)}.")
        grants = {
            principal: lacking
            for principal, permissions in wanted.grants.items()
            if (
                lacking := sorted(each for each in permissions if not there.allows(principal, each))
            )
        }
        self._grant(place, grants)
        return [
            *done,
            *(f"{who} has {', '.join(what)} on {place}." for who, what in grants.items()),
        ]

    def _grants(self, place: Place) -> dict[str, frozenset[str]]:
        """Permissions on the whole table. SELECT is listed as a permission on all columns."""
        found: dict[str, set[str]] = defaultdict(set)
        asked: dict[str, Any] = {"Resource": {"Table": place.resource}}
        while True:
            with aws.asking(f"Lake Formation, permissions on {place}"):
                answer = self._client.list_permissions(**asked)
            for each in answer["PrincipalResourcePermissions"]:
                every = each["Resource"].get("TableWithColumns", {}).get("ColumnWildcard")
                is_whole = "Table" in each["Resource"] or (
                    every is not None and not every.get("ExcludedColumnNames")
                )
                if is_whole and not each.get("Condition"):
                    principal = each["Principal"]["DataLakePrincipalIdentifier"]
                    found[principal] |= set(each["Permissions"])
            if not answer.get("NextToken"):
                return {principal: frozenset(each) for principal, each in found.items()}
            asked["NextToken"] = answer["NextToken"]

    def _tag(self, name: str, resource: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        given = [{"TagKey": key, "TagValues": [value]} for key, value in tags.items()]
        try:
            with aws.asking(f"Lake Formation, tags of {name}"):
                answer = self._client.add_lf_tags_to_resource(Resource=resource, LFTags=given)
        except aws.AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
            raise AccessError(_no_tag(name, tags, str(error))) from error
        failures = answer.get("Failures", ())
        if failures:
            failed = {each["LFTag"]["TagKey"] for each in failures}
            reason = failures[0].get("Error", {})
            text = f"{reason.get('ErrorCode', '')}: {reason.get('ErrorMessage', '')}"
            wrong = {key: value for key, value in tags.items() if key in failed}
            raise AccessError(
                _no_tag(name, wrong, text)
                if "EntityNotFound" in text
                else f"Lake Formation did not tag {name} with {_told(wrong)}: {text}."
            )

    def _grant(self, place: Place, grants: Mapping[str, list[str]]) -> None:
        entries: list[dict[str, Any]] = [
            {
                "Id": str(number),
                "Principal": {"DataLakePrincipalIdentifier": principal},
                "Resource": {"Table": place.resource},
                "Permissions": permissions,
            }
            for number, (principal, permissions) in enumerate(grants.items())
        ]
        failures = []
        for start in range(0, len(entries), _GRANTS_AT_ONCE):
            with aws.asking(f"Lake Formation, grants on {place}"):
                answer = self._client.batch_grant_permissions(
                    Entries=entries[start : start + _GRANTS_AT_ONCE]
                )
            failures += answer.get("Failures", ())
        if failures:
            who = {entry["Id"]: entry["Principal"] for entry in entries}
            told = [
                f"{who[each['RequestEntry']['Id']]['DataLakePrincipalIdentifier']} "
                f"({each.get('Error', {}).get('ErrorMessage', 'no reason given')})"
                for each in failures
            ]
            raise AccessError(
                f"Lake Formation did not grant permissions on {place} to {'; '.join(told)}."
            )


def _as_tags(answer: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {tag["TagKey"]: value for tag in answer for value in tag["TagValues"]}


def _lacking(wanted: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if there.get(key) != value}


def _told(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in tags.items())


def _no_tag(name: str, tags: Mapping[str, str], reason: str) -> str:
    return (
        f"{name} cannot be tagged {_told(tags)}: there is no LF-Tag with this value, or this role "
        "cannot see it. Tidemark does not create tags, because they belong to the whole account. A "
        f"Lake Formation administrator must create it and grant ASSOCIATE to this role. ({reason})"
    )
