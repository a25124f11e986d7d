"""What operators ask of a front: the key-value store, write permissions, topics to delete, settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from ..registry import AsyncRouteStore, InvalidInput, NotFound, RegistryConfig, plans
from ..registry.plans import Plan
from ..remoting import RemotingCommand, RequestCode, ResponseCode, response_to
from . import answers, bodies, header
from .config import Current
from .process_config import ProcessConfig
from .settings import as_properties, changed, switches

_BLACKLIST: Final = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")


_NEEDED: Final = (plans.register, plans.withdraw)
"""Imported here already: when a front first calls them, an upgrade may have replaced the files."""

Operation: TypeAlias = Callable[[RemotingCommand, RegistryConfig], Awaitable[RemotingCommand]]
"""Answers a request; the settings say who has sent it, which stands in the records of what it changes."""


class Operators:
    """What a front does for operators (RocketMQ: mqadmin)."""

    def __init__(self, store: AsyncRouteStore, process: ProcessConfig, current: Current) -> None:
        self._store = store
        self._process = process
        self._current = current
        self.operations: Final[dict[int, Operation]] = {
            RequestCode.PUT_KV_CONFIG: self._put,
            RequestCode.GET_KV_CONFIG: self._get,
            RequestCode.DELETE_KV_CONFIG: self._delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._entries,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.GET_NAMESRV_CONFIG: self._config,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
        }

    async def _put(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        namespace, key = header.optional(request, "namespace"), header.optional(request, "key")
        if namespace is None or key is None:
            return response_to(request, ResponseCode.SYSTEM_ERROR, remark="namespace or key is null")
        await self._store.run(plans.kv_put(config, namespace, key, header.text(request, "value")))
        return response_to(request, ResponseCode.SUCCESS)

    async def _get(self, request: RemotingCommand, _: RegistryConfig) -> RemotingCommand:
        namespace, key = header.text(request, "namespace"), header.text(request, "key")
        value = await self._store.kv.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {namespace} Key: {key}"
            return response_to(request, ResponseCode.QUERY_NOT_FOUND, {}, remark=remark)
        return response_to(request, ResponseCode.SUCCESS, {"value": value})

    async def _delete(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        namespace, key = header.text(request, "namespace"), header.text(request, "key")
        await self._store.run(plans.kv_delete(config, namespace, key))
        return response_to(request, ResponseCode.SUCCESS)

    async def _entries(self, request: RemotingCommand, _: RegistryConfig) -> RemotingCommand:
        namespace = header.text(request, "namespace")
        table = await self._store.kv.entries(namespace)
        if table is None:
            remark = f"No config item, Namespace: {namespace}"
            return response_to(request, ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return response_to(request, ResponseCode.SUCCESS, body=answers.kv_table(table))

    async def _wipe(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        name = header.text(request, "brokerName")
        count = await self._count(plans.set_write_perm(config, name, writable=False))
        return response_to(request, ResponseCode.SUCCESS, {"wipeTopicCount": str(count)})

    async def _add(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        name = header.text(request, "brokerName")
        count = await self._count(plans.set_write_perm(config, name, writable=True))
        return response_to(request, ResponseCode.SUCCESS, {"addTopicCount": str(count)})

    async def _count(self, change: Plan[int]) -> int:
        try:
            return await self._store.run(change)
        except NotFound:  # as the original answers
            return 0

    async def _delete_topic(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        topic, cluster = header.text(request, "topic"), header.optional(request, "clusterName")
        await self._store.run(plans.delete_topic(config, topic, cluster or None))
        return response_to(request, ResponseCode.SUCCESS)

    async def _config(self, request: RemotingCommand, _: RegistryConfig) -> RemotingCommand:
        body = answers.configuration(as_properties(self._process, self._current.config))
        return response_to(request, ResponseCode.SUCCESS, body=body)

    async def _update_config(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        """Change settings; what cannot be recorded is not done."""
        wanted = bodies.properties(request.body)
        if any(key in wanted for key in _BLACKLIST):
            remark = "Can not update config in black list."
            return response_to(request, ResponseCode.NO_PERMISSION, remark=remark)
        if wanted and not self._current.config.update_config:
            remark = "the settings of this front cannot be changed by mqadmin: see update_config"
            return response_to(request, ResponseCode.NO_PERMISSION, remark=remark)
        try:
            news = (
                switches(changed(self._current.config, wanted)).items()
                - switches(self._current.config).items()
            )
            if news:
                await self._store.run(plans.record_settings(config, dict(sorted(news))))
            self._current.config = changed(self._current.config, wanted)
        except InvalidInput as error:
            return response_to(request, ResponseCode.NO_PERMISSION, remark=str(error))
        return response_to(request, ResponseCode.SUCCESS)
