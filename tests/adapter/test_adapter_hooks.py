"""dbt's suites for hooks of models, seeds, snapshots and runs."""

from typing import Any

import pytest
from dbt.tests.adapter.hooks.test_model_hooks import (
    BaseDuplicateHooksInConfigs,
    BaseHookRefs,
    BaseHooksRefsOnSeeds,
    BasePrePostModelHooks,
    BasePrePostModelHooksInConfig,
    BasePrePostModelHooksInConfigKwargs,
    BasePrePostModelHooksInConfigWithCount,
    BasePrePostModelHooksOnSeeds,
    BasePrePostModelHooksOnSeedsPlusPrefixed,
    BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace,
    BasePrePostModelHooksOnSnapshots,
    BasePrePostSnapshotHooksInConfigKwargs,
)
from dbt.tests.adapter.hooks.test_run_hooks import BaseAfterRunHooks, BasePrePostRunHooks

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]

POSTGRES = "it asserts that the target is a Postgres database"


@pytest.mark.skip(reason=POSTGRES)
class TestPrePostModelHooks(BasePrePostModelHooks):
    pass


@pytest.mark.skip(reason=POSTGRES)
class TestHookRefs(BaseHookRefs):
    pass


class TestPrePostModelHooksOnSeeds(BasePrePostModelHooksOnSeeds):
    pass


class TestHooksRefsOnSeeds(BaseHooksRefsOnSeeds):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixed(BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixedWhitespace(
    BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace
):
    pass


class TestPrePostModelHooksOnSnapshots(BasePrePostModelHooksOnSnapshots):
    pass


@pytest.mark.skip(reason=POSTGRES)
class TestPrePostModelHooksInConfig(BasePrePostModelHooksInConfig):
    pass


@pytest.mark.skip(reason=POSTGRES)
class TestPrePostModelHooksInConfigWithCount(BasePrePostModelHooksInConfigWithCount):
    pass


@pytest.mark.skip(reason=POSTGRES)
class TestPrePostModelHooksInConfigKwargs(BasePrePostModelHooksInConfigKwargs):
    pass


class TestPrePostSnapshotHooksInConfigKwargs(BasePrePostSnapshotHooksInConfigKwargs):
    pass


class TestDuplicateHooksInConfigs(BaseDuplicateHooksInConfigs):
    pass


@pytest.mark.skip(reason=POSTGRES)
class TestPrePostRunHooks(BasePrePostRunHooks):
    pass


class TestAfterRunHooks(BaseAfterRunHooks):
    @pytest.mark.xfail(
        reason="dbt-spark raises DbtRuntimeError, of which the wanted error is a kind", strict=True
    )
    def test_missing_column_pre_hook(self, project: Any) -> None:
        super().test_missing_column_pre_hook(project)
