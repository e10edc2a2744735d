"""Serves the page, and what it shows, as server-sent events. GET only, and only to who knows the URL."""

from __future__ import annotations

import hmac
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from farandole.launch.dashboard.board import Board, Cursor

CONNECTIONS_MAX = 64
BROWSERS_MAX = 16
# For a whole request, up to the last byte of its head, and for a browser to take each thing that was sent.
TIMEOUT_S = 10.0
# A browser is told at least so often that this process lives.
BEAT_S = 2.0
# Of the kernel's own buffer for a browser that does not read: more would only be old when it is read.
SEND_BYTES = 1 << 18

PAGE = Path(__file__).parent / "page"
JOB_PAGE = "page.html"
# Draws the curves: https://www.chartjs.org, as Debian has it.
CHART = "chart.min.js"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether a name or address in a URL or a Host header, in brackets or not, can mean only this host."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_address(address: str) -> tuple[str, int]:
    """Host, without brackets, and port.

    Raises:
        ValueError: `address` is not HOST:PORT.
    """
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{address} is not HOST:PORT")
    return host.strip("[]"), int(port)


class Server(ThreadingHTTPServer):
    """The page of one job, or of several and each of them.

    Every connection has a thread; those beyond CONNECTIONS_MAX are answered with 503 at once, and so is a page beyond
    BROWSERS_MAX that wants events.

    Args:
        address: where to listen; port 0: a free one.
        board: what is shown.

    Raises:
        OSError: nothing can listen there.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], board: Board) -> None:
        self.board = board
        self.secret = secrets.token_urlsafe(24)
        self.files = {file.name: file.read_bytes() for file in PAGE.iterdir() if file.suffix in TYPES}
        if CHART not in self.files:
            raise FileNotFoundError(f"{PAGE / CHART} is missing; in a source tree `make deps` fetches Chart.js")
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.local = is_loopback(address[0])
        self._connections = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._browsers = 0
        self._lock = threading.Lock()
        super().__init__(address, _Handler)
        host = address[0] if ":" not in address[0] else f"[{address[0]}]"
        self.url = f"http://{host}:{self.server_address[1]}/{self.secret}/"

    @property
    def browsers(self) -> int:
        """How many pages are told events."""
        return self._browsers

    def admit(self, change: int) -> bool:
        """Counts a page that comes or goes; whether there is room for it."""
        with self._lock:
            fits = self._browsers + change <= BROWSERS_MAX
            self._browsers += change if fits else 0
            return fits

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts the connection's thread, or refuses it."""
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.setblocking(False)
        try:
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\ntoo many connections\n")
        except OSError:
            pass
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, from its request to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error; anything else is printed with its traceback."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "farandole"
    sys_version = ""

    def setup(self) -> None:
        self.request.settimeout(TIMEOUT_S)
        super().setup()
        # The socket's own timeout is that of one read: who sends a byte now and then would stay for ever.
        self._deadline = threading.Timer(TIMEOUT_S, self._shut)
        self._deadline.daemon = True
        self._deadline.start()

    def finish(self) -> None:
        self._deadline.cancel()
        super().finish()

    def _shut(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It has gone by itself.

    def do_GET(self) -> None:
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.server.local and not is_loopback(name):
            return self._refuse(403, f"this page is for browsers of its own host, not for the name {name!r}")
        _, secret, *rest = [*self.path.partition("?")[0].split("/", 2), ""]
        if not hmac.compare_digest(secret.encode(), self.server.secret.encode()):
            return self._refuse(403, "open the whole URL that farandole dashboard has printed; it holds a secret")
        self._deadline.cancel()
        board = self.server.board
        *names, wanted = rest[0].split("/")
        if not names and wanted not in ("", "events", *self.server.files) and board.has(wanted):
            return self._answer(301, "text/plain", b"", Location=f"{wanted}/")
        if len(self.path.split("/")) < 3 or len(names) > 1 or (names and not board.has(names[0])):
            return self._refuse(404, "there is no such page, or its job is over")
        if wanted == "events":
            return self._events(board, names)
        wanted = wanted or (JOB_PAGE if names else board.page)
        if wanted not in self.server.files:
            return self._refuse(404, "there is no such page")
        kind = TYPES[Path(wanted).suffix]
        self._answer(200, f"{kind}; charset=utf-8", self.server.files[wanted])

    def _events(self, board: Board, names: list[str]) -> None:
        if not self.server.admit(1):
            return self._refuse(503, f"{BROWSERS_MAX} browsers look already; close one of them")
        try:
            with board.looking(names[0]) if names else nullcontext(board) as shown:
                if shown is None:
                    return self._refuse(
                        503, "no room to watch this job: as many are looked at as may be, or it is over"
                    )
                self._tell(shown)
        finally:
            self.server.admit(-1)

    def _tell(self, board: Board) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        self._head(200, "text/event-stream; charset=utf-8")
        self.wfile.write(b"retry: 1000\n")
        cursor = Cursor()
        while (news := board.news(cursor, BEAT_S)) is not None:
            self.wfile.write(f"data: {news}\n\n".encode())

    def _refuse(self, code: int, sentence: str) -> None:
        self._answer(code, "text/plain; charset=utf-8", f"{sentence}\n".encode())

    def _answer(self, code: int, kind: str, body: bytes, **more: str) -> None:
        self._head(code, kind, {"Content-Length": str(len(body)), **more})
        self.wfile.write(body)

    def _head(self, code: int, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, **HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _not_allowed(self) -> None:
        self._head(405, "text/plain", {"Allow": "GET"})

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _not_allowed

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the path of each request has the secret."""


def serving(server: Server) -> Callable[[], None]:
    """Begins to serve in a thread; what is returned ends that, and every page's stream."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()

    def end() -> None:
        server.board.close()
        server.shutdown()
        thread.join()
        server.server_close()

    return end
