"""dbt's suites for unit tests."""

import pytest
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_invalid_input import BaseUnitTestInvalidInput
from dbt.tests.adapter.unit_testing.test_quoted_reserved_word_column_names import (
    BaseUnitTestQuotedReservedWordColumnNames,
)
from dbt.tests.adapter.unit_testing.test_types import (
    BaseUnitTestingTypes,
    BaseUnitTestingVarcharFixtureNoTruncation,
)

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]


class TestUnitTestCaseInsensivity(BaseUnitTestCaseInsensivity):
    pass


class TestUnitTestInvalidInput(BaseUnitTestInvalidInput):
    pass


class TestUnitTestQuotedReservedWordColumnNames(BaseUnitTestQuotedReservedWordColumnNames):
    pass


class TestUnitTestingTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        """Spark's types, each as SQL and as YAML."""
        return [
            ["1", "1"],
            ["2.5", "2.5"],
            ["cast(2.5 as decimal(10, 2))", "2.5"],
            ["'1'", "1"],
            ["'string'", "string"],
            ["true", "true"],
            ["date'2020-01-02'", "2020-01-02"],
            ["timestamp'2013-11-03 00:00:00-0'", "2013-11-03 00:00:00-0"],
        ]


class TestUnitTestingVarcharFixtureNoTruncation(BaseUnitTestingVarcharFixtureNoTruncation):
    pass
