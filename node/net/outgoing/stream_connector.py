"""Lets aiohttp's client run over the streams of `node.system.streams`, in place of sockets of its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from aiohttp import BaseConnector, ClientConnectorError, ClientConnectorSSLError, ClientRequest, ClientTimeout

from node.system.streams import Streams

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.tracing import Trace


class StreamConnector(BaseConnector):
    """Opens a stream for each connection; there is no limit to their number, and no proxy."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(limit=0)
        self._streams = streams

    def close(self, *, abort_ssl: bool = False) -> Awaitable[None]:
        """Closes all connections; TLS does not wait for the far end, as in aiohttp's own connector."""
        return super().close(abort_ssl=True)

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp names it
    ) -> ResponseHandler:
        """Overrides BaseConnector's, as aiohttp's own connectors do. Raises its errors."""
        context = req.ssl if isinstance(req.ssl, ssl.SSLContext) else None
        host, port = req.url.host or "", req.url.port or 0
        try:
            async with asyncio.timeout(timeout.sock_connect):
                _, protocol = await self._streams.open(host, port, self._factory, context)
        except ssl.SSLError as error:
            raise ClientConnectorSSLError(req.connection_key, error) from error
        except TimeoutError:
            raise
        except OSError as error:
            raise ClientConnectorError(req.connection_key, error) from error
        return protocol
