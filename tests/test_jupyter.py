"""The Jupyter server as `make lab` starts it: what a kernel says is not held back."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.websocket import websocket_connect

from leaselab.jupyter import PromptConnection

TOKEN = "a-token-for-the-tests"
NAME = f"{PromptConnection.__module__}.{PromptConnection.__qualname__}"
DEFAULT = f"{ZMQChannelsWebsocketConnection.__module__}.ZMQChannelsWebsocketConnection"


async def no_delay(app):
    """Whether the server's socket to a page that has connected to a kernel has TCP_NODELAY."""
    listening, port = bind_unused_port()
    server = HTTPServer(app.web_app)
    server.add_sockets([listening])
    kernels, token = f"127.0.0.1:{port}/api/kernels", f"token={TOKEN}"
    try:
        made = await AsyncHTTPClient().fetch(f"http://{kernels}?{token}", method="POST", body="{}")
        kernel = json.loads(made.body)["id"]
        page = await websocket_connect(f"ws://{kernels}/{kernel}/channels?{token}")
        [connection] = ZMQChannelsWebsocketConnection._open_sockets
        stream = connection.websocket_handler.ws_connection.stream
        found = stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        page.close()
        while ZMQChannelsWebsocketConnection._open_sockets:
            await asyncio.sleep(0.01)
        return bool(found)
    finally:
        server.stop()
        await app.kernel_manager.shutdown_all(now=True)


@pytest.mark.parametrize("connection, at_once", [(NAME, True), (DEFAULT, False)])
def test_what_a_kernel_says_is_passed_on_at_once(connection, at_once, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    app = ServerApp()
    app.initialize(
        [
            "--allow-root",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={tmp_path}",
            f"--ServerApp.kernel_websocket_connection_class={connection}",
        ],
        find_extensions=False,
        new_httpserver=False,
    )
    assert app.io_loop.run_sync(lambda: no_delay(app), timeout=60) is at_once


def test_make_lab_asks_for_it():
    set_up = Path(__file__).parent.parent / ".ci" / "set_up"
    assert f'"kernel_websocket_connection_class": "{NAME}"' in set_up.read_text(encoding="utf-8")
