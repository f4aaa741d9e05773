"""dbt's suites for descriptions that are kept in the tables' comments."""

from typing import Any

import pytest
from dbt.tests.adapter.persist_docs.test_persist_docs import (
    BasePersistDocs,
    BasePersistDocsAllColumnsMissing,
    BasePersistDocsColumnMissing,
    BasePersistDocsCommentOnQuotedColumn,
    BasePersistDocsQuotedColumnCaseSensitive,
    BasePersistDocsQuotedDescriptionNotAppliedOnMismatch,
)

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]


NO_COMMENTS = "dbt-spark's catalog, which it reads, leaves the comments of columns out"


class TestPersistDocs(BasePersistDocs):
    @pytest.mark.xfail(reason=NO_COMMENTS, strict=True)
    def test_has_comments_pglike(self, project: Any) -> None:
        super().test_has_comments_pglike(project)


class TestPersistDocsColumnMissing(BasePersistDocsColumnMissing):
    @pytest.mark.xfail(reason=NO_COMMENTS, strict=True)
    def test_missing_column(self, project: Any) -> None:
        super().test_missing_column(project)


class TestPersistDocsAllColumnsMissing(BasePersistDocsAllColumnsMissing):
    pass


class TestPersistDocsQuotedColumnCaseSensitive(BasePersistDocsQuotedColumnCaseSensitive):
    pass


class TestPersistDocsQuotedDescriptionNotAppliedOnMismatch(
    BasePersistDocsQuotedDescriptionNotAppliedOnMismatch
):
    pass


class TestPersistDocsCommentOnQuotedColumn(BasePersistDocsCommentOnQuotedColumn):
    @pytest.mark.xfail(reason=NO_COMMENTS, strict=True)
    def test_quoted_column_comments(self, run_has_comments: Any) -> None:
        super().test_quoted_column_comments(run_has_comments)
