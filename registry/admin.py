"""What operators do to a registry, in two faces."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from . import plans
from .config import RegistryConfig
from .differences import Difference, Mended
from .keys import Keys
from .model import Broker
from .plans import Progress
from .running import AsyncRun, Run
from .streaming import OnProgress, aiterate, iterate

if TYPE_CHECKING:
    from .transfer import ImportSummary


class Admin:
    """Operations on brokers and topics of others. Every method raises StoreUnavailable and StoreRefused."""

    def __init__(self, config: RegistryConfig, run: Run) -> None:
        self._config = config
        self._run = run

    def wipe_write_perm(self, broker_name: str) -> int:
        """Let nobody send to a broker until it is allowed again; see plans.set_write_perm."""
        return self._run(plans.set_write_perm(self._config, broker_name, writable=False))

    def add_write_perm(self, broker_name: str) -> int:
        """Give a broker back the write permission that was wiped; see plans.set_write_perm."""
        return self._run(plans.set_write_perm(self._config, broker_name, writable=True))

    def withdraw(self, broker: Broker, *, reason: str) -> bool:
        """Take a broker out, whoever registered it, and keep it out; see plans.withdraw."""
        return self._run(plans.withdraw(self._config, broker, reason=reason))

    def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Remove a topic everywhere, or from one cluster; see plans.delete_topic."""
        return self._run(plans.delete_topic(self._config, topic, cluster))

    def verify(self, progress: OnProgress | None = None) -> Iterator[Difference]:
        """Yield what is not as it should be; see plans.verify."""
        return iterate(self._run, plans.verify(self._config), progress)

    def rebuild(self, progress: OnProgress | None = None) -> Iterator[Mended]:
        """Mend what is not as it should be, and yield what was done; see plans.rebuild.

        Nothing happens before it is iterated.
        """
        return iterate(self._run, plans.rebuild(self._config), progress)

    def forget(self, broker_name: str) -> int:
        """Remove a broker that will not come back; return how many topics it had; see plans.forget."""
        return self._run(plans.forget(self._config, broker_name))

    def export(self, progress: OnProgress | None = None) -> Iterator[bytes]:
        """Yield the whole registry as lines of JSON, each with its line feed; see plans.export."""
        from .transfer import Writer  # noqa: PLC0415 - only this needs it, and it stays in memory

        writer = Writer(self._config.namespace)
        yield writer.header()
        for record in iterate(self._run, plans.export(self._config), progress):
            yield from writer.lines(record)
        yield writer.end()

    def import_(
        self,
        lines: Iterable[bytes | str],
        *,
        replace_live: bool = False,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ImportSummary:
        """Import the lines of an export; see plans.import_broker for what becomes of each broker.

        Lines that can be iterated again (a list; not a generator or an open file) are all checked before
        anything is written, others are checked as they come. `progress` is told the lines.
        Raises InvalidInput with the number of a wrong line, NewerSchema.
        """
        from . import transfer  # noqa: PLC0415 - only this needs it, and it stays in memory

        total = 0
        if iter(lines) is not lines:
            total = transfer.check(lines)
        self._run(plans.check_schema(Keys(self._config.namespace)))
        reader, summary = transfer.Reader(), transfer.ImportSummary()
        for unit in reader.units(lines):
            self._run(
                transfer.import_unit(self._config, unit, summary, replace_live=replace_live, dry_run=dry_run)
            )
            if progress is not None:
                progress(Progress(reader.lines, max(total, reader.lines)))
        return summary


class AsyncAdmin:
    """Operations on brokers and topics of others. Every method raises StoreUnavailable and StoreRefused."""

    def __init__(self, config: RegistryConfig, run: AsyncRun) -> None:
        self._config = config
        self._run = run

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Let nobody send to a broker until it is allowed again; see plans.set_write_perm."""
        return await self._run(plans.set_write_perm(self._config, broker_name, writable=False))

    async def add_write_perm(self, broker_name: str) -> int:
        """Give a broker back the write permission that was wiped; see plans.set_write_perm."""
        return await self._run(plans.set_write_perm(self._config, broker_name, writable=True))

    async def withdraw(self, broker: Broker, *, reason: str) -> bool:
        """Take a broker out, whoever registered it, and keep it out; see plans.withdraw."""
        return await self._run(plans.withdraw(self._config, broker, reason=reason))

    async def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Remove a topic everywhere, or from one cluster; see plans.delete_topic."""
        return await self._run(plans.delete_topic(self._config, topic, cluster))

    def verify(self, progress: OnProgress | None = None) -> AsyncIterator[Difference]:
        """Yield what is not as it should be; see plans.verify."""
        return aiterate(self._run, plans.verify(self._config), progress)

    def rebuild(self, progress: OnProgress | None = None) -> AsyncIterator[Mended]:
        """Mend what is not as it should be, and yield what was done; see plans.rebuild.

        Nothing happens before it is iterated.
        """
        return aiterate(self._run, plans.rebuild(self._config), progress)

    async def forget(self, broker_name: str) -> int:
        """Remove a broker that will not come back; return how many topics it had; see plans.forget."""
        return await self._run(plans.forget(self._config, broker_name))

    async def export(self, progress: OnProgress | None = None) -> AsyncIterator[bytes]:
        """Yield the whole registry as lines of JSON, each with its line feed; see plans.export."""
        from .transfer import Writer  # noqa: PLC0415 - only this needs it, and it stays in memory

        writer = Writer(self._config.namespace)
        yield writer.header()
        async for record in aiterate(self._run, plans.export(self._config), progress):
            for line in writer.lines(record):
                yield line
        yield writer.end()

    async def import_(
        self,
        lines: AsyncIterable[bytes | str] | Iterable[bytes | str],
        *,
        replace_live: bool = False,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ImportSummary:
        """Import the lines of an export; see plans.import_broker for what becomes of each broker.

        Lines that can be iterated again (a list; not a generator or an open file) are all checked before
        anything is written, others are checked as they come. `progress` is told the lines.
        Raises InvalidInput with the number of a wrong line, NewerSchema.
        """
        from . import transfer  # noqa: PLC0415 - only this needs it, and it stays in memory

        total = 0
        if isinstance(lines, Iterable) and iter(lines) is not lines:
            total = transfer.check(lines)
        await self._run(plans.check_schema(Keys(self._config.namespace)))
        reader, summary = transfer.Reader(), transfer.ImportSummary()
        async for unit in transfer.aunits(reader, lines):
            await self._run(
                transfer.import_unit(self._config, unit, summary, replace_live=replace_live, dry_run=dry_run)
            )
            if progress is not None:
                progress(Progress(reader.lines, max(total, reader.lines)))
        return summary
