"""Which requests are answered, by an application of a few lines and by the server itself."""

import asyncio
import gc
import http.client
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from command_line import ROOT

from lmzoo.page import app, guard
from lmzoo.page.zoo import Zoo

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries, which leave event loops open

OURS = {"host": "127.0.0.1:7860"}
VALUES = {0: 2, 3: 1}
JOIN = {"data": ["the", "any"], "fn_index": 0, "session_hash": "abc", "trigger_id": 5, "event_data": "the"}


def asked(
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | None = None,
    query: str = "",
    body: bytes = b"",
    kind: str = "http",
    fails: Exception | None = None,
) -> tuple[int, dict[bytes, bytes], bytes, Any]:
    """The status, headers and body of the answer to a request, and what an application behind the guard got."""
    sent, got = [], None

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        nonlocal got
        got = scope["query_string"], (await receive())["body"]
        if fails:
            raise fails
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    async def send(message: Any) -> None:
        sent.append(message)

    parts = iter([body[i : i + 1000] for i in range(0, len(body), 1000)] or [b""])
    left = len(body)

    async def receive() -> Any:
        nonlocal left
        part = next(parts)
        left -= len(part)
        return {"type": "http.request", "body": part, "more_body": left > 0}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in (OURS if headers is None else headers).items()]
    scope = {"type": kind, "method": method, "path": path, "headers": raw, "query_string": query.encode()}
    asyncio.run(guard.guarded(answer, VALUES)(scope, receive, send))
    if kind == "websocket":
        return 0, {}, b"", sent
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(part.get("body", b"") for part in sent[1:]), got


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OURS, 200),
        ({"host": "localhost:9000", "origin": "http://localhost:9000"}, 200),
        ({"host": "LocalHost"}, 200),
        ({}, 403),
        ({"host": "evil.example:7860"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "evil.example@127.0.0.1"}, 403),
        ({"host": "127.0.0.1:x"}, 403),
        ({"host": "["}, 403),
        ({"host": "[::"}, 403),
        ({"host": "\xff"}, 403),
        (OURS | {"origin": "http://evil.example"}, 403),
        (OURS | {"origin": "http://127.0.0.1:9000"}, 403),
        (OURS | {"origin": "null"}, 403),
        (OURS | {"origin": "http://["}, 403),
        (OURS | {"origin": "http://]:7860"}, 403),
    ],
)
def test_only_the_page_itself_is_answered(headers: dict[str, str], status: int):
    found, sent, body, got = asked(headers=headers)
    assert (found, body == b"page", got is not None) == (status, status == 200, status == 200)
    assert (sent.get(b"content-security-policy") == guard.POLICY.encode()) == (status == 200)


def paths(routes: list[Any]) -> Iterator[str]:
    """The paths of some routes, and of the routers among them, which FastAPI nests since version 0.165."""
    for route in routes:
        if nested := getattr(route, "original_router", None):
            yield from paths(nested.routes)
        elif hasattr(route, "path"):
            yield route.path


def test_only_what_the_page_needs_is_open(zoo: Zoo):
    """Each route that Gradio has is closed but for those that the browser tests were seen to ask for."""
    pytest.importorskip("gradio")
    from gradio.routes import App

    filled = {re.sub(r"\{.*?\}", "x", path) for path in paths(App.create_app(app.build(zoo)).routes)}
    assert {"/gradio_api/process_recording", "/gradio_api/dev/reload", "/gradio_api/upload"} <= filled
    opened = {
        path
        for path in filled
        for method in ("GET", "POST")
        if asked(method, path, body=json.dumps(JOIN).encode())[0] != 403
    }
    assert opened == {
        "/", "/theme.css", "/favicon.ico", "/assets/x", "/static/x", "/gradio_api/app_id", "/gradio_api/startup-events",
        "/gradio_api/queue/join", "/gradio_api/queue/data",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", "/"),
        ("OPTIONS", "/gradio_api/queue/join"),
        ("PUT", "/gradio_api/queue/join"),
        ("POST", "/"),
        ("GET", "//config"),
        ("GET", "/gradio_api/file=/etc/passwd"),
        ("GET", "/gradio_api/file=https://evil.example/x"),
        ("GET", "/gradio_api/proxy=evil.example"),
        ("GET", "/assets/" + "a" * 5000),
        ("GET", "/\n"),
    ],
)
def test_other_methods_and_paths_are_closed(method: str, path: str):
    assert asked(method, path)[0] == 403


def test_a_websocket_is_closed():
    assert asked(kind="websocket")[3] == [{"type": "websocket.close"}]


def test_what_a_link_to_the_page_adds_does_not_reach_gradio():
    """Such as ``?page=x``, which is a KeyError there."""
    assert asked(query="page=x&deep_link=y")[3] == (b"", b"")


@pytest.mark.parametrize(
    ("query", "status"),
    [("session_hash=abc1", 200), ("", 400), ("session_hash=" + "a" * 33, 400), ("session_hash=a&session_hash=b", 400)],
)
def test_the_name_of_a_browser_is_short(query: str, status: int):
    assert asked(path=guard.DATA, query=query)[0] == status


def test_the_values_of_fields_are_handed_on():
    body = json.dumps(JOIN).encode()
    assert asked("POST", guard.JOIN, body=body)[3] == (b"", body)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"fn_index": 1}, "fn_index"),
        ({"fn_index": True}, "fn_index"),
        ({"fn_index": None}, "fn_index"),
        ({"fn_index": [0]}, "fn_index"),
        ({"data": ["the"]}, "data: must be 2 values"),
        ({"data": "xx"}, "data: must be 2 values"),
        ({"data": ["the", ["any"]]}, "data: must be strings"),
        ({"data": ["the", {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]}, "data: must be strings"),
        ({"session_hash": None}, "session_hash"),
        ({"session_hash": "../x"}, "session_hash"),
        ({"session_hash": "a" * 33}, "session_hash"),
        ({"trigger_id": "5"}, "trigger_id"),
        ({"trigger_id": True}, "trigger_id"),
        ({"batched": True}, "no object with data"),
    ],
)
def test_a_body_that_the_page_does_not_send_is_refused(changes: dict[str, Any], why: str):
    status, _, body, got = asked("POST", guard.JOIN, body=json.dumps(JOIN | changes).encode())
    assert (status, got) == (400, None)
    assert why in json.loads(body)["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 60_000, b"9" * 5000, "{}".encode("utf-16")])
def test_a_body_that_is_no_object_is_refused(body: bytes):
    assert asked("POST", guard.JOIN, body=body)[0] == 400


def test_a_body_is_refused_by_its_length_and_the_longest_of_the_page_fits():
    longest = json.dumps(JOIN | {"data": ["\ud800" * 2000, "\ud800" * 2000], "event_data": "\ud800" * 2000}).encode()
    assert asked("POST", guard.JOIN, body=longest)[0] == 200
    assert asked("POST", guard.JOIN, body=b" " * 2**16 + longest)[0] == 413


def test_a_failure_of_gradio_is_one_short_line(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "error", lambda text, *parts: lines.append(text % parts))
    status, _, body, _ = asked(path="/assets/x.js", fails=ValueError("long\n" * 100_000))
    assert (status, json.loads(body)) == (500, {"detail": "the server has failed"})
    (line,) = lines
    assert line.startswith("/assets/x.js: long long")
    assert len(line) < 400


def requests(address: str, number: int) -> None:
    """Ask for drawings under new names each time; every second one is never fetched."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    for place in range(number):
        body = JOIN | {"session_hash": f"s{place}", "data": ["the bank of england", "any"]}
        connection.request("POST", guard.JOIN, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert (answer.status, b"event_id" in answer.read()) == (200, True)
        if place % 2 == 0 or place % 50 == 49:  # fetched, or the queue would be full
            connection.request("GET", f"{guard.DATA}?session_hash=s{place}")
            assert b'"success":true' in connection.getresponse().read()


@pytest.fixture
def served(folder_of_runs: Path) -> Iterator[Any]:
    pytest.importorskip("gradio")
    page = app.serve(Zoo([folder_of_runs / "ngram"]))
    yield page
    page.close()
    gc.collect()


def test_few_sessions_are_stored(served: Any):
    requests(served.address, guard.SESSIONS + 20)
    queue = served._blocks._queue
    stored = [served._blocks.state_holder.session_data, queue.pending_messages_per_session, queue.event_analytics]
    assert all(0 < len(each) <= guard.SESSIONS for each in stored)


@pytest.mark.slow
def test_two_thousand_sessions_take_less_than_50_megabytes(folder_of_runs: Path):
    """In a process of its own; the first requests are not counted, which import what draws."""
    pytest.importorskip("gradio")
    if not Path("/proc/self/status").exists():
        pytest.skip("has no /proc/self/status")
    script = f"import lmzoo; print(lmzoo.demo({str(folder_of_runs / 'ngram')!r}).address, flush=True); input()"
    server = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None

    def megabytes() -> float:
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1000

    try:
        address = server.stdout.readline().strip()
        requests(address, 200)
        before = megabytes()
        requests(address, 2000)
        assert megabytes() - before < 50
    finally:
        server.communicate("\n", timeout=60)
