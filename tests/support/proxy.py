"""A TCP proxy on loopback that can be slow, silent or closed, for tests of a network between a sweep and its database."""

import contextlib
import socket
import threading
import time

from postgres import free_port


class Proxy:
    """Forwards to a port. `delay`: seconds before each piece of data; `cut`: close all connections and refuse new ones."""

    def __init__(self, target: int) -> None:
        self.target, self.port, self.delay, self.is_cut = target, free_port(), 0.0, False
        self.open: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.target))
            self.open += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                time.sleep(self.delay)
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            one.close()

    def cut(self) -> None:
        self.is_cut = True
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.open = []

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self.cut()
        self.listener.close()
