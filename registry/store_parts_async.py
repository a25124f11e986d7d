"""What a store offers as `admin` and `kv`, beside what owners of brokers and clients need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from . import plans
from .config import RegistryConfig
from .keys import Keys
from .model import Broker
from .plans import Plan, Progress, Stream, advance

if TYPE_CHECKING:
    from .export_file import AsyncLines
    from .plans.export_import import ImportSummary
    from .plans.repair.differences import Difference

T = TypeVar("T")

OnProgress: TypeAlias = Callable[[Progress], object]
"""Called now and then with the progress of an operation."""


class AsyncRun(Protocol):
    """Runs a plan, as AsyncRouteStore.run does."""

    async def __call__(self, plan: Plan[T]) -> T:
        """Run the plan; raises StoreUnavailable, StoreRefused and what the plan raises."""


class _Part:
    def __init__(self, config: RegistryConfig, run: AsyncRun) -> None:
        self._config = config
        self._keys = Keys(config.namespace)
        self._run = run


class AsyncAdmin(_Part):
    """Operations on brokers and topics of others. Every method raises StoreUnavailable and StoreRefused."""

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Take the write permission of a broker away until it is given back; see plans.set_write_perm."""
        return await self._run(plans.set_write_perm(self._config, broker_name, writable=False))

    async def add_write_perm(self, broker_name: str) -> int:
        """Give a broker its write permission back; see plans.set_write_perm."""
        return await self._run(plans.set_write_perm(self._config, broker_name, writable=True))

    async def withdraw(self, broker: Broker, *, reason: str) -> bool:
        """Take a broker out of the registry, whoever registered it, and keep it out; see plans.withdraw."""
        return await self._run(plans.withdraw(self._config, broker, reason=reason))

    async def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Remove a topic everywhere, or from one cluster; see plans.delete_topic."""
        return await self._run(plans.delete_topic(self._config, topic, cluster))

    def verify(self, progress: OnProgress | None = None) -> AsyncIterator[Difference]:
        """Yield what is wrong in the registry; see plans.repair.walk."""
        from .plans.repair.walk import verify

        return iterate_async(self._run, verify(self._config), progress)

    def rebuild(self, progress: OnProgress | None = None) -> AsyncIterator[Difference]:
        """Repair what is wrong in the registry, and yield what was done; see plans.repair.walk.

        Nothing happens before it is iterated.
        """
        from .plans.repair.walk import rebuild

        return iterate_async(self._run, rebuild(self._config), progress)

    async def forget(self, broker_name: str) -> int:
        """Remove a broker that will not come back; return how many topics it had; see bulk_load.forget."""
        from .plans.bulk_load import forget

        return await self._run(forget(self._config, broker_name))

    async def export(self, progress: OnProgress | None = None) -> AsyncIterator[bytes]:
        """Yield the whole registry as lines of JSON, each with its line feed; see export_file."""
        from .export_file import Writer
        from .plans.export_import import export

        writer = Writer(self._config.namespace)
        yield writer.header()
        async for record in iterate_async(self._run, export(self._config), progress):
            for line in writer.lines(record):
                yield line
        yield writer.end()

    async def import_(
        self,
        lines: AsyncLines,
        *,
        replace_live: bool = False,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ImportSummary:
        """Import the lines of an export; see export_import.import_record for what becomes of each broker.

        Lines that can be iterated again (a list; not a generator or an open file) are all checked before
        anything is written; others are checked as they come. `progress` counts lines.
        Raises InvalidInput with the number of a wrong line, NewerSchema.
        """
        from . import export_file
        from .plans.export_import import ImportSummary, import_record

        total = export_file.check(lines)
        await self._run(plans.check_schema(self._keys))
        reader, summary = export_file.Reader(), ImportSummary()
        async for line, record in reader.records_async(lines):
            await self._run(
                import_record(self._config, line, record, summary, replace_live=replace_live, dry_run=dry_run)
            )
            if progress is not None:
                progress(Progress(reader.lines, max(total, reader.lines)))
        return summary


class AsyncKeyValues(_Part):
    """Namespaces of strings, the order configuration of topics among them (RocketMQ: KVConfigManager).

    Every method raises InvalidInput, CorruptData, StoreUnavailable, StoreRefused.
    """

    async def put(self, namespace: str, key: str, value: str) -> bool:
        """Set a value; see plans.kv_put."""
        return await self._run(plans.kv_put(self._config, namespace, key, value))

    async def delete(self, namespace: str, key: str) -> bool:
        """Remove a value; see plans.kv_delete."""
        return await self._run(plans.kv_delete(self._config, namespace, key))

    async def get(self, namespace: str, key: str) -> str | None:
        """Return a value; see plans.kv_get."""
        return await self._run(plans.kv_get(self._keys, namespace, key))

    async def entries(self, namespace: str) -> dict[str, str] | None:
        """Return all of a namespace; see plans.kv_list."""
        return await self._run(plans.kv_list(self._keys, namespace))

    async def namespaces(self) -> list[str]:
        """Return the names of all namespaces; see plans.kv_namespaces."""
        return await self._run(plans.kv_namespaces(self._keys))


async def iterate_async(run: AsyncRun, stream: Stream[T], progress: OnProgress | None) -> AsyncIterator[T]:
    """Yield the items of a stream; each page is read when the one before it has been consumed."""
    try:
        while (page := await run(advance(stream))) is not None:
            for item in page.found:
                yield item
            if progress is not None:
                progress(page.progress)
    finally:
        stream.close()
