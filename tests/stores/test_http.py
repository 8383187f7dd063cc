"""The HTTP client: each request is made once, has a deadline, and says what happened."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from ray_committer.errors import StoreUnavailableError, ThrottledError
from ray_committer.stores.answers import StoreUnusableError
from ray_committer.stores.http import HttpClient
from tests.servers.ports import free_port

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A real HTTP server on a thread of its own; `answer` may be changed by a test."""

    def __init__(self) -> None:
        self.answer: Handler = _echo
        self.requests = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"http://{self.host}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        return await self.answer(request)


async def _echo(request: web.Request) -> web.Response:
    body = await request.read()
    return web.Response(body=request.raw_path.encode() + b" " + body, headers={"X-Kept": "yes"})


def status(code: int, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=code, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def client() -> Iterator[HttpClient]:
    client = HttpClient(deadline_seconds=0.5)
    yield client
    client.close()
    client.close()


def get(client: HttpClient, server: Server) -> int:
    return client.request("GET", f"{server.url}/a", path="/the/path", headers={}).status


def test_the_url_is_sent_as_it_is_quoted(server: Server, client: HttpClient):
    found = client.request("PUT", f"{server.url}/a%3A0%252F?x=%2B", path="/p", headers={}, data=b"body")
    assert found.body == b"/a%3A0%252F?x=%2B body"
    assert (found.status, found.headers["x-kept"]) == (200, "yes")


@pytest.mark.parametrize("code", [201, 204, 304, 400, 401, 403, 404, 409, 412])
def test_an_answer_that_tells_what_was_done_is_returned(server: Server, client: HttpClient, code: int):
    server.answer = status(code)
    assert get(client, server) == code


def test_a_redirection_is_an_answer_and_not_followed(server: Server, client: HttpClient):
    server.answer = status(307, Location=f"{server.url}/b")
    answer = client.request("PUT", f"{server.url}/a", path="/p", headers={}, data=b"body")
    assert (answer.status, answer.headers["location"]) == (307, f"{server.url}/b")
    assert server.requests == 1


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("-1", 0.0),
        ("soon", None),
        ("1e30", 60.0),
        ("inf", None),
        ("nan", None),
    ],
)
def test_throttling_is_an_error_of_its_own(
    server: Server, client: HttpClient, code: int, header: str | None, seconds: float | None
):
    server.answer = status(code, **({"Retry_After": header} if header else {}))
    with pytest.raises(ThrottledError) as caught:
        get(client, server)
    assert (caught.value.filename, caught.value.retry_after_seconds) == ("/the/path", seconds)
    assert server.requests == 1


def test_a_date_to_retry_after_is_understood(server: Server, client: HttpClient):
    soon = datetime.now(UTC) + timedelta(seconds=30)
    server.answer = status(429, Retry_After=format_datetime(soon, usegmt=True))
    with pytest.raises(ThrottledError) as caught:
        get(client, server)
    assert caught.value.retry_after_seconds == pytest.approx(30, abs=5)


def test_a_clock_that_is_wrong_does_not_stop_the_commit(server: Server, client: HttpClient):
    server.answer = status(429, Retry_After="Sun, 22 Nov 2099 06:00:00 GMT")
    with pytest.raises(ThrottledError) as caught:
        get(client, server)
    assert caught.value.retry_after_seconds == 60


@pytest.mark.parametrize("code", [408, 500, 502, 504])
def test_a_server_in_trouble_did_not_tell(server: Server, client: HttpClient, code: int):
    server.answer = status(code)
    with pytest.raises(StoreUnavailableError, match=f"GET at {server.host}: .*{code}") as caught:
        get(client, server)
    assert caught.value.filename == "/the/path"
    assert server.requests == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.filename, str(again)) == (
        StoreUnavailableError,
        "/the/path",
        str(caught.value),
    )


@pytest.mark.slow
def test_no_answer_in_time_did_not_tell(server: Server, client: HttpClient):
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    server.answer = never
    with pytest.raises(StoreUnavailableError, match=r"no answer within 0\.5 s"):
        get(client, server)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_web_page_is_no_answer_of_a_store(server: Server, client: HttpClient, method: str):
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>Log in</html>", content_type="text/html", charset="utf-8")

    server.answer = page
    text = r"is not the store's \(HTTP 200, 19 bytes, text/html\): check .* a login page"
    with pytest.raises(StoreUnavailableError, match=text) as caught:
        client.request(method, f"{server.url}/a", path="/the/path", headers={})
    assert caught.value.filename == "/the/path"


def test_an_empty_answer_of_any_kind_is_one(server: Server, client: HttpClient):
    server.answer = status(200, Content_Type="text/html")
    assert get(client, server) == 200


@pytest.mark.slow
def test_the_first_answer_has_to_come_sooner(server: Server):
    async def late(_: web.Request) -> web.Response:
        await asyncio.sleep(2)
        return web.Response()

    client = HttpClient(deadline_seconds=30, first_seconds=1.0)
    server.answer, on_time = late, server.answer
    with pytest.raises(StoreUnavailableError, match=rf"GET at {server.host}: no answer within 1 s"):
        get(client, server)
    server.answer = on_time
    assert get(client, server) == 200
    server.answer = late
    assert get(client, server) == 200


def test_a_lost_connection_did_not_tell_and_is_not_tried_again(server: Server, client: HttpClient):
    async def lose(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.answer = lose
    with pytest.raises(StoreUnavailableError):
        client.request("POST", f"{server.url}/a", path="/the/path", headers={}, data=b"")
    assert server.requests == 1


def test_a_server_that_is_not_there_did_not_tell(client: HttpClient):
    with pytest.raises(StoreUnavailableError, match="Failed to connect"):
        client.request("GET", f"http://127.0.0.1:{free_port()}/", path="/p", headers={})


def test_no_secret_of_the_url_is_told(server: Server, client: HttpClient):
    server.answer = status(500)
    with pytest.raises(StoreUnavailableError) as caught:
        client.request("GET", f"{server.url}/a?sig=secret", path="/p", headers={"X": "secret"})
    assert "secret" not in repr(caught.value)
    assert "secret" not in str(caught.value)


def test_many_threads_share_it(server: Server):
    client = HttpClient(deadline_seconds=30)
    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(lambda _: get(client, server), range(200))) == {200}
    client.close()
    assert server.requests == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "GET"])
def test_a_request_whose_answer_is_lost_is_not_made_again_on_a_connection_that_is_kept(
    server: Server, client: HttpClient, method: str
):
    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    get(client, server)
    server.answer = drop
    with pytest.raises(StoreUnavailableError):
        client.request(method, f"{server.url}/a", path="/the/path", headers={})
    assert server.requests == 2


def test_no_header_is_added_that_a_signature_would_have_to_know(server: Server, client: HttpClient):
    async def kind(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(request.headers.get("Content-Type")))

    server.answer = kind
    for method, data in (("PUT", None), ("PUT", b"data"), ("DELETE", None)):
        found = client.request(method, f"{server.url}/a", path="/a", headers={}, data=data)
        assert found.body == b"None"


def test_a_connection_that_was_closed_meanwhile_is_replaced(server: Server, client: HttpClient):
    async def last(_: web.Request) -> web.Response:
        answer = web.Response()
        answer.force_close()
        return answer

    server.answer = last
    assert [get(client, server) for _ in range(3)] == [200] * 3
    assert server.requests == 3


def test_the_deadline_is_for_the_whole_answer(server: Server, client: HttpClient):
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.1)

    server.answer = drip
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=r"no answer within 0\.5 s"):
        get(client, server)
    assert time.monotonic() - started < 3


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_the_answer(server: Server):
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(3)
        return web.Response()

    server.answer = never
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest's workers ignore it
    started = time.monotonic()
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            get(HttpClient(), server)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 2


def test_names_that_look_like_directories_above_are_sent(server: Server, client: HttpClient):
    found = client.request("GET", f"{server.url}/a/%2E%2E/b", path="/p", headers={})
    assert found.body == b"/a/%2E%2E/b "


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_request_without_a_body_says_so(server: Server, client: HttpClient, method: str):
    async def length(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(request.headers.get("Content-Length")))

    server.answer = length
    assert client.request(method, f"{server.url}/a", path="/a", headers={}).body == b"0"


def test_a_head_has_headers_and_no_body(server: Server, client: HttpClient):
    for method in ("HEAD", "GET", "HEAD"):
        server.answer = _echo if method == "GET" else status(200, ETag="x")
        found = client.request(method, f"{server.url}/a", path="/a", headers={})
        assert (found.status, bool(found.body)) == (200, method == "GET")


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[str]:
    """The URL of a file on a server whose authority is in ``ca.pem``, which nobody trusts yet."""
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "a").write_text("content")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/a"
        server.shutdown()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", None])
def test_a_server_is_trusted_by_the_certificates_of_the_system_a_variable_or_a_setting(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tls: str, variable: str | None
):
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StoreUnusableError, match="its certificate is not trusted"):
        client.request("GET", tls, path="/a", headers={})
    own = str(tmp_path / "ca.pem")
    if variable:
        monkeypatch.setenv(variable, own)
    trusting = HttpClient(trusted=None if variable else own)
    assert trusting.request("GET", tls, path="/a", headers={}).body == b"content"


def test_a_directory_of_certificates_is_trusted(tmp_path: Path, tls: str):
    number = subprocess.run(
        ["openssl", "x509", "-subject_hash", "-noout", "-in", tmp_path / "ca.pem"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (tmp_path / "certs").mkdir()
    (tmp_path / "ca.pem").rename(tmp_path / "certs" / f"{number}.0")
    client = HttpClient(trusted=str(tmp_path / "certs"))
    assert client.request("GET", tls, path="/a", headers={}).body == b"content"


def test_another_name_in_a_certificate_never_passes(tmp_path: Path, tls: str):
    client = HttpClient(trusted=str(tmp_path / "ca.pem"))
    url = tls.replace("127.0.0.1", "localhost")
    with pytest.raises(StoreUnusableError, match=r"GET at localhost:.* certificate"):
        client.request("GET", url, path="/a", headers={})


def test_a_file_of_certificates_that_is_missing_is_named(tls: str):
    with pytest.raises(StoreUnusableError, match="/no/such/bundle"):
        HttpClient(trusted="/no/such/bundle").request("GET", tls, path="/a", headers={})


def test_a_server_without_tls_never_passes(server: Server, client: HttpClient):
    url = server.url.replace("http://", "https://")
    with pytest.raises(StoreUnusableError, match="no TLS there"):
        client.request("GET", url, path="/a", headers={})


@pytest.mark.parametrize(
    ("scheme", "code", "error"),
    [
        ("http", 407, StoreUnusableError),
        ("https", 407, StoreUnusableError),
        ("https", 403, StoreUnusableError),
        ("https", 429, StoreUnavailableError),
        ("https", 503, StoreUnavailableError),
    ],
)
def test_a_proxy_that_does_not_connect_says_whether_it_may_later(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, scheme: str, code: int, error: type[OSError]
):
    monkeypatch.setenv("no_proxy", "")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(f"HTTP/1.1 {code} No\r\nContent-Length: 0\r\n\r\n".encode())

        threading.Thread(target=answer, daemon=True).start()
        proxy = f"http://user:secret@127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv(f"{scheme}_proxy", proxy)
        text = rf"GET at store\.example: the proxy from the environment .* \(HTTP {code}\)"
        with pytest.raises(error, match=text) as caught:
            client.request("GET", f"{scheme}://store.example/a", path="/a", headers={})
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("code", [200, 404, 500])
def test_an_answer_without_end_is_not_read(server: Server, code: int):
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=code)
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b" " * 65536)
        return response

    server.answer = endless
    client = HttpClient()
    with pytest.raises(StoreUnusableError, match="has more than 1000000 bytes") as caught:
        client.request("GET", f"{server.url}/a", path="/a", headers={}, most_bytes=1_000_000)
    assert caught.value.filename == "/a"
    server.answer = _echo
    assert get(client, server) == 200


def test_a_forked_child_shares_no_connection(server: Server, client: HttpClient):
    def wrong_answers() -> int:
        names = [f"/{os.getpid()}-{number}" for number in range(100)]
        bodies = [
            client.request("GET", f"{server.url}{name}", path=name, headers={}).body for name in names
        ]
        return sum(body != f"{name} ".encode() for body, name in zip(bodies, names, strict=True))

    get(client, server)
    child = os.fork()
    if child == 0:
        number = 255
        with suppress(BaseException):
            number = wrong_answers()
        os._exit(number)
    assert wrong_answers() == 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("scheme", ["file", "ftp", "gopher"])
def test_only_http_is_spoken(client: HttpClient, tmp_path: Path, scheme: str):
    (tmp_path / "a").write_text("not an answer")
    with pytest.raises(OSError, match="not an HTTP address") as caught:
        client.request("GET", f"{scheme}://{tmp_path}/a", path="/a", headers={})
    assert not isinstance(caught.value, StoreUnavailableError)  # so that it is not repeated


@pytest.mark.parametrize(
    "proxy", ["foo://user:secret@host", "http://user:secret@host:port", "http://s\xe9:secret@ "]
)
def test_no_password_of_a_proxy_is_told(client: HttpClient, monkeypatch: pytest.MonkeyPatch, proxy: str):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(OSError, match="proxy") as caught:
        client.request("GET", "http://store.example/a", path="/a", headers={})
    assert "secret" not in str(caught.value)


def test_trailers_are_not_headers(client: HttpClient):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nETag: real\r\nTransfer-Encoding: chunked\r\n"
                    b"Trailer: ETag\r\n\r\n"
                    b"1\r\na\r\n0\r\nETag: other\r\n\r\n"
                )

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        assert client.request("GET", url, path="/", headers={}).headers["etag"] == "real"
