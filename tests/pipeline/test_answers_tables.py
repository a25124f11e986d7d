"""What the table of answers promises of each of them."""

from __future__ import annotations

import pytest

from sharedroutes.pipeline.report import ANSWERS
from sharedroutes.pipeline.tables import Table

TABLES = [answer.table for answer in ANSWERS.values()]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_a_schema_with_a_meaning_for_each_column(table: Table) -> None:
    assert tuple(table.schema.names) == table.names
    assert len(set(table.names)) == len(table.names)
    assert all(column.meaning for column in table.columns)
