"""What `make lab` asks of the Jupyter server: that a kernel's messages reach the page at once.

A move on the panel is answered by several short messages. As the server is, they are held back until
the page has confirmed the first one, which takes up to 40 ms on Linux (Nagle's algorithm, RFC 896,
and delayed acknowledgements, RFC 1122, section 4.2.3.2).
"""

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """The server's own connection of a page to a kernel, with TCP_NODELAY."""

    def connect(self):
        self.websocket_handler.set_nodelay(True)
        return super().connect()
