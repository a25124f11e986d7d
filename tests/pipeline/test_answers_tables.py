"""What the answers about sessions, availability, detection and churn promise of their tables."""

from __future__ import annotations

import pytest

from sharedroutes.pipeline.answers import availability, churn, detection, sessions, uptime
from sharedroutes.pipeline.tables import Table

TABLES = [
    found
    for module in (availability, churn, detection, sessions, uptime)
    for name, found in vars(module).items()
    if isinstance(found, Table) and name in module.__all__
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_a_schema_with_a_meaning_for_each_column(table: Table) -> None:
    assert tuple(table.schema.names) == table.names
    assert len(set(table.names)) == len(table.names)
    assert all(column.meaning for column in table.columns)


def test_no_two_of_them_have_the_same_name() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)
