"""The key-value store's two faces."""

from __future__ import annotations

from collections.abc import Sequence

from . import plans
from .config import RegistryConfig
from .keys import Keys
from .running import AsyncRun, Run


class KeyValues:
    """Namespaces of strings, the order configuration of topics among them (RocketMQ: KVConfigManager).

    Every method raises InvalidInput, CorruptData, StoreUnavailable, StoreRefused.
    """

    def __init__(self, config: RegistryConfig, run: Run) -> None:
        self._config = config
        self._keys = Keys(config.namespace)
        self._run = run

    def put(self, namespace: str, key: str, value: str) -> bool:
        """Set a value; see plans.kv_put."""
        return self._run(plans.kv_put(self._config, namespace, key, value))

    def delete(self, namespace: str, key: str) -> bool:
        """Remove a value; see plans.kv_delete."""
        return self._run(plans.kv_delete(self._config, namespace, key))

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value; see plans.kv_get."""
        return self._run(plans.kv_get(self._keys, namespace, key))

    def entries(self, namespace: str) -> dict[str, str] | None:
        """Return all of a namespace; see plans.kv_list."""
        return self._run(plans.kv_list(self._keys, namespace))

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces; see plans.kv_namespaces."""
        return self._run(plans.kv_namespaces(self._keys))

    def order_configs(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the order configuration of topics; see plans.order_configs."""
        return self._run(plans.order_configs(self._keys, topics))


class AsyncKeyValues:
    """Namespaces of strings, the order configuration of topics among them (RocketMQ: KVConfigManager).

    Every method raises InvalidInput, CorruptData, StoreUnavailable, StoreRefused.
    """

    def __init__(self, config: RegistryConfig, run: AsyncRun) -> None:
        self._config = config
        self._keys = Keys(config.namespace)
        self._run = run

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

    async def order_configs(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the order configuration of topics; see plans.order_configs."""
        return await self._run(plans.order_configs(self._keys, topics))
