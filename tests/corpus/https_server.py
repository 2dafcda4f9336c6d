"""A server on this machine that speaks https, and answers as a test wants it to."""

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""For ``SSL_CERT_FILE``, so that clients trust the server."""

Answer = bytes | Callable[[socket.socket], None]


def page(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """An answer with these headers, or with the length of its body where there are none."""
    lines = [f"HTTP/1.1 {status}", *(headers or [f"Content-Length: {len(body)}"]), "", ""]
    return "\r\n".join(lines).encode() + body


class Server(socketserver.ThreadingTCPServer):
    """Gives each path its answer: bytes, or what a function does with the connection.

    Attributes:
        requests: the paths that were asked for.
        handshake: what to do with a new connection in place of TLS; None for TLS.
    """

    daemon_threads = True

    def __init__(self, answers: Mapping[str, Answer]):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.requests: list[str] = []
        self.handshake: Callable[[socket.socket], None] | None = None
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(CERTIFICATE)

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.server_address[1]}{path}"

    def handle_error(self, request, client_address):
        raise


class _Handler(socketserver.BaseRequestHandler):
    server: Server

    def handle(self):
        with contextlib.suppress(OSError):  # clients hang up
            if self.server.handshake:
                self.server.handshake(self.request)
                return
            with self.server.tls.wrap_socket(self.request, server_side=True) as connection:
                path = connection.recv(2**16).split()[1].decode()
                self.server.requests.append(path)
                answer = self.server.answers.get(path, page(b"", "404 Not Found"))
                connection.sendall(answer) if isinstance(answer, bytes) else answer(connection)


@contextlib.contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[Server]:
    """A server while the context lasts."""
    with Server(answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
