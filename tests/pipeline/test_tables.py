"""Every table is a schema that Spark takes, with a meaning for each column."""

from __future__ import annotations

import pytest

from sharedroutes.pipeline import schemas
from sharedroutes.pipeline.tables import Table

TABLES = [table for table in vars(schemas).values() if isinstance(table, Table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_a_schema_with_a_meaning_for_each_column(table: Table) -> None:
    assert tuple(table.schema.names) == table.names
    assert len(set(table.names)) == len(table.names)
    assert all(column.meaning for column in table.columns)


def test_tables_have_names_of_their_own() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)
