"""dbt's suites for snapshots: keys of several columns, deletions, new columns, names of columns."""

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.simple_snapshot.new_record_check_mode import BaseSnapshotNewRecordCheckMode
from dbt.tests.adapter.simple_snapshot.new_record_dbt_valid_to_current import (
    BaseSnapshotNewRecordDbtValidToCurrent,
)
from dbt.tests.adapter.simple_snapshot.new_record_timestamp_mode import (
    BaseSnapshotNewRecordTimestampMode,
)
from dbt.tests.adapter.simple_snapshot.test_ephemeral_snapshot_hard_deletes import (
    BaseSnapshotEphemeralHardDeletes,
    BaseSnapshotNewColumnSpecificCheckCols,
    BaseSnapshotNewColumnTimestampStrategy,
    BaseSnapshotNewColumnWithDeletes,
)
from dbt.tests.adapter.simple_snapshot.test_snapshot import BaseSimpleSnapshot, BaseSnapshotCheck
from dbt.tests.adapter.simple_snapshot.test_various_configs import (
    BaseSnapshotColumnNames,
    BaseSnapshotColumnNamesFromDbtProject,
    BaseSnapshotDbtValidToCurrent,
    BaseSnapshotInvalidColumnNames,
    BaseSnapshotMultiUniqueKey,
)

pytestmark = [pytest.mark.functional, pytest.mark.adapter]


@pytest.mark.slow
class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


@pytest.mark.slow
class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


@pytest.mark.slow
class TestSnapshotNewRecordCheckMode(BaseSnapshotNewRecordCheckMode):
    pass


@pytest.mark.slow
class TestSnapshotNewRecordDbtValidToCurrent(BaseSnapshotNewRecordDbtValidToCurrent):
    pass


@pytest.mark.slow
class TestSnapshotNewRecordTimestampMode(BaseSnapshotNewRecordTimestampMode):
    pass


@pytest.mark.slow
class TestSnapshotEphemeralHardDeletes(BaseSnapshotEphemeralHardDeletes):
    pass


@pytest.mark.slow
class TestSnapshotNewColumnTimestampStrategy(BaseSnapshotNewColumnTimestampStrategy):
    pass


@pytest.mark.slow
class TestSnapshotNewColumnSpecificCheckCols(BaseSnapshotNewColumnSpecificCheckCols):
    pass


class TestSnapshotNewColumnWithDeletes(BaseSnapshotNewColumnWithDeletes):
    pass


@pytest.mark.slow
class TestSimpleSnapshot(BaseSimpleSnapshot):
    pass


@pytest.mark.slow
class TestSnapshotCheck(BaseSnapshotCheck):
    pass


@pytest.mark.slow
class TestSnapshotColumnNames(BaseSnapshotColumnNames):
    pass


@pytest.mark.slow
class TestSnapshotColumnNamesFromDbtProject(BaseSnapshotColumnNamesFromDbtProject):
    pass


@pytest.mark.slow
class TestSnapshotInvalidColumnNames(BaseSnapshotInvalidColumnNames):
    @pytest.mark.xfail(reason="dbt-spark's snapshot refuses it in older words", strict=True)
    def test_snapshot_invalid_column_names(self, project: Any) -> None:
        super().test_snapshot_invalid_column_names(project)


@pytest.mark.slow
class TestSnapshotDbtValidToCurrent(BaseSnapshotDbtValidToCurrent):
    @pytest.mark.xfail(reason="it takes rows by their place, which Delta does not keep")
    def test_valid_to_current(self, project: Any) -> None:
        super().test_valid_to_current(project)


class TestSnapshotMultiUniqueKey(BaseSnapshotMultiUniqueKey):
    pass
