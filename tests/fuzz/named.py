"""A service whose answers tell for whom they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from sharedroutes.nameserver.server.connection import Connection
from sharedroutes.remoting import RemotingCommand, ResponseCode, encode, response_to
from tests.nameserver.server.rig import ROUTE, Answers


class Named(Answers):
    """Names the connection in each answer: at once, later, by an error, or not at all, by the code."""

    def answer(
        self, request: RemotingCommand, connection: Connection
    ) -> bytes | Awaitable[RemotingCommand | None] | None:
        answer = response_to(request, ResponseCode.SUCCESS, remark=str(connection.number))
        how = request.code % 5
        if how == ROUTE % 5:
            return encode(answer)
        if how == 1:
            raise LookupError(connection.number)
        return None if how == 2 else self._later(answer)

    def closed(self, connection: Connection) -> None:
        """Note nothing: there are too many."""

    async def _later(self, answer: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(0)
        return answer
