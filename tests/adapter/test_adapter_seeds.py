"""dbt's suites for seeds."""

from typing import Any

import pytest
from dbt.tests.adapter.simple_seed.test_seed import (
    BaseBasicSeedTests,
    BaseSeedConfigFullRefreshOff,
    BaseSeedConfigFullRefreshOn,
    BaseSeedCustomSchema,
    BaseSeedParsing,
    BaseSeedSpecificFormats,
    BaseSeedWithEmptyDelimiter,
    BaseSeedWithUniqueDelimiter,
    BaseSeedWithWrongDelimiter,
    BaseSimpleSeedEnabledViaConfig,
    BaseSimpleSeedWithBOM,
    BaseTestEmptySeed,
)
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]

CASCADE = "Postgres drops the views on a seed with its table, Spark leaves them"


class TestBasicSeedTests(BaseBasicSeedTests):
    @pytest.mark.xfail(reason=CASCADE, strict=True)
    def test_simple_seed_full_refresh_flag(self, project: Any) -> None:
        super().test_simple_seed_full_refresh_flag(project)


class TestSeedConfigFullRefreshOn(BaseSeedConfigFullRefreshOn):
    @pytest.mark.xfail(reason=CASCADE, strict=True)
    def test_simple_seed_full_refresh_config(self, project: Any) -> None:
        super().test_simple_seed_full_refresh_config(project)


class TestSeedConfigFullRefreshOff(BaseSeedConfigFullRefreshOff):
    pass


class TestSeedCustomSchema(BaseSeedCustomSchema):
    pass


class TestSeedWithUniqueDelimiter(BaseSeedWithUniqueDelimiter):
    pass


class TestSeedWithWrongDelimiter(BaseSeedWithWrongDelimiter):
    pass


class TestSeedWithEmptyDelimiter(BaseSeedWithEmptyDelimiter):
    pass


class TestSimpleSeedEnabledViaConfig(BaseSimpleSeedEnabledViaConfig):
    pass


class TestSeedParsing(BaseSeedParsing):
    pass


@pytest.mark.skip(reason="it copies a file that it looks for beside this one")
class TestSimpleSeedWithBOM(BaseSimpleSeedWithBOM):
    pass


@pytest.mark.skip(
    reason="its 20,000 rows take minutes: dbt sends a seed as one statement of values"
)
class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    pass


class TestEmptySeed(BaseTestEmptySeed):
    pass


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    """With Spark's word for text."""

    @staticmethod
    def seed_enabled_types() -> dict[str, str]:
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types() -> dict[str, str]:
        return dict.fromkeys(["seed_id_str", "looks_like_a_bool", "looks_like_a_date"], "string")

    @pytest.mark.xfail(reason="its tests expect Postgres's names of types", strict=True)
    def test_simple_seed_with_column_override(self, project: Any) -> None:
        super().test_simple_seed_with_column_override(project)
