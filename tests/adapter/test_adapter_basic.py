"""dbt's basic suites: materializations, tests, ephemeral models, `--empty`, copies, aliases."""

from typing import Any

import pytest
from dbt.tests.adapter.aliases.test_aliases import (
    BaseAliasErrors,
    BaseAliases,
    BaseSameAliasDifferentDatabases,
    BaseSameAliasDifferentSchemas,
)
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.adapter.empty.test_empty import (
    BaseTestEmpty,
    BaseTestEmptyInlineSourceRef,
    BaseTestEmptySeedFlag,
    MetadataWithEmptyFlag,
)
from dbt.tests.adapter.ephemeral.test_ephemeral import (
    BaseEphemeralErrorHandling,
    BaseEphemeralMulti,
    BaseEphemeralNested,
)
from dbt.tests.adapter.simple_copy.test_copy_uppercase import BaseSimpleCopyUppercase
from dbt.tests.adapter.simple_copy.test_simple_copy import EmptyModelsArentRunBase, SimpleCopyBase

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]

SUBQUERY = "dbt-spark hands these macros the subquery that `--empty` makes of a ref"


class TestAliases(BaseAliases):
    pass


class TestAliasErrors(BaseAliasErrors):
    pass


class TestSameAliasDifferentSchemas(BaseSameAliasDifferentSchemas):
    pass


@pytest.mark.skip(reason="Spark has no databases above the schema")
class TestSameAliasDifferentDatabases(BaseSameAliasDifferentDatabases):
    pass


class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestEmpty(BaseEmpty):
    pass


class TestEphemeral(BaseEphemeral):
    pass


class TestGenericTests(BaseGenericTests):
    pass


class TestSingularTests(BaseSingularTests):
    pass


class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestTableMaterialization(BaseTableMaterialization):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass


class TestEmptyFlag(BaseTestEmpty):
    pass


class TestEmptyInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


@pytest.mark.skip(reason="`--empty` of seeds comes with dbt-core 1.12")
class TestEmptySeedFlag(BaseTestEmptySeedFlag):
    pass


class TestMetadataWithEmptyFlag(MetadataWithEmptyFlag):
    @pytest.mark.parametrize(
        "model",
        [
            "control",
            "alter_relation_comment",
            "alter_column_comment",
            *(
                pytest.param(name, marks=pytest.mark.xfail(reason=SUBQUERY, strict=True))
                for name in (
                    "get_columns_in_relation",
                    "alter_column_type",
                    "alter_relation_add_remove_columns",
                    "truncate_relation",
                )
            ),
        ],
    )
    def test_run(self, project: Any, model: str) -> None:
        super().test_run(project, model)


class TestEphemeralMulti(BaseEphemeralMulti):
    @pytest.mark.xfail(reason="it compares the text of Postgres's DDL", strict=True)
    def test_ephemeral_multi(self, project: Any) -> None:
        super().test_ephemeral_multi(project)


class TestEphemeralNested(BaseEphemeralNested):
    @pytest.mark.xfail(reason="it compares the text of Postgres's DDL", strict=True)
    def test_ephemeral_nested(self, project: Any) -> None:
        super().test_ephemeral_nested(project)


class TestEphemeralErrorHandling(BaseEphemeralErrorHandling):
    pass


@pytest.mark.skip(reason="its profile is Postgres, whose names have an upper case")
class TestSimpleCopyUppercase(BaseSimpleCopyUppercase):
    pass


class TestSimpleCopyBase(SimpleCopyBase):
    @pytest.mark.xfail(reason="Spark's own catalog has no materialized views", strict=True)
    def test_simple_copy_with_materialized_views(self, project: Any) -> None:
        super().test_simple_copy_with_materialized_views(project)


class TestEmptyModelsArentRunBase(EmptyModelsArentRunBase):
    pass
