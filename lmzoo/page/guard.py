"""Which requests the server of the page answers: those of the page itself, of a size that it may send."""

import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from lmzoo.core.errors import one_line, printable

HOST = "127.0.0.1"

POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
"""The header Content-Security-Policy: a browser asks nobody but this server."""

JOIN, DATA = "/gradio_api/queue/join", "/gradio_api/queue/data"
"""Where the page sends the values of its fields, and where it then listens to what is drawn."""

OURS = re.compile(rf"({re.escape(HOST)}|localhost)(:[0-9]{{1,5}})?")
"""The header Host of a request to this machine."""

FILES = r"theme\.css|favicon\.ico|(assets|static)/[\w./-]{1,200}|gradio_api/(app_id|startup-events)"

OPEN = {"GET": re.compile(f"/({FILES})?|{DATA}"), "POST": re.compile(JOIN)}
"""The paths that the page needs, by method. Others of Gradio's write files, ask other machines, or never end."""

MOST_BYTES = 2**16
"""Of the body of a request, which has at most four texts of 2,000 characters."""

SESSIONS = 64
"""Browsers whose state Gradio stores, that may wait for a drawing, and whose drawings are stored until fetched."""

KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
"""Of the body of a request to `JOIN`."""

SESSION = re.compile(r"[a-z0-9]{1,32}")
"""The name that a browser gives itself."""

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


class RefusalError(Exception):
    """Why a request is not answered.

    Attributes:
        status: of the HTTP response.
    """

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def limited(blocks: Any) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Limit what Gradio stores of a page; the ``lifespan`` of its application, which guards it before it answers.

    `SESSIONS` is its ``state_session_capacity``, too: a session holds all that was drawn for it last, some 0.1 MB.
    """
    blocks.queue(max_size=SESSIONS)
    blocks._queue.pending_messages_per_session.max_size = SESSIONS  # each has the drawings nobody has fetched
    blocks._queue.ANALYTICS_MAX_EVENTS = SESSIONS  # of all of which Gradio computes statistics after each event
    values = {number: len(made.inputs) for number, made in blocks.fns.items() if made.fn}

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        app.middleware_stack = guarded(app.middleware_stack, values)  # around Gradio's own, which fails of some headers
        yield

    return lifespan


def guarded(app: App, values: Mapping[int, int]) -> App:
    """An ASGI application that answers this machine's own page alone, with the header that has `POLICY`.

    A page of another site may send requests here, too, and may give its own name this machine's address (DNS
    rebinding). Its requests have another ``Host`` or ``Origin`` than ours, and are refused.

    Args:
        values: how many each function of the page takes, by its number.
    """

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":  # refused before it is accepted
            await send({"type": "websocket.close"})
        if scope["type"] == "http":
            await _answered(app, values, scope, receive, send)
        elif scope["type"] == "lifespan":
            await app(scope, receive, send)

    return answer


async def _answered(app: App, values: Mapping[int, int], scope: Any, receive: Any, send: Any) -> None:
    """Answer a request: by the application, or with why not."""
    is_begun = is_done = False

    async def with_policy(message: Any) -> None:
        nonlocal is_begun, is_done
        if message["type"] == "http.response.start":
            is_begun = True
            message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
        elif message["type"] == "http.response.body":
            is_done = not message.get("more_body")
        await send(message)

    try:
        check_address(scope)
        if scope["path"] != DATA:
            scope = {**scope, "query_string": b""}  # what Gradio would take from it is no part of this page
        if scope["method"] == "POST":
            receive = await _checked(receive, values)
        await app(scope, receive, with_policy)
    except RefusalError as refusal:
        await _refuse(send, refusal)
    except Exception as error:  # of Gradio, whose traceback a stranger could write into the terminal
        logging.getLogger("uvicorn.error").error("%s: %s", printable(scope["path"][:80]), one_line(error))
        if not is_begun:
            await _refuse(send, RefusalError(500, "the server has failed"))
        elif not is_done:
            await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Any, refusal: RefusalError) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": str(refusal)}).encode()})


def check_address(scope: Mapping[str, Any]) -> None:
    """Raise a `RefusalError` of what is for another machine, of another site's page, or no part of the page."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    host, origin = headers.get(b"host", "").lower(), headers.get(b"origin")
    if not OURS.fullmatch(host) or origin not in (None, f"http://{host}", f"https://{host}"):
        raise RefusalError(403, "the page is only served to this machine")
    paths = OPEN.get(scope["method"])
    if paths is None or not paths.fullmatch(scope["path"]):
        raise RefusalError(403, "the page does not need this")
    is_data = scope["path"] == DATA
    if is_data and not SESSION.fullmatch(scope["query_string"].decode("latin-1").removeprefix("session_hash=")):
        raise RefusalError(400, "session_hash: must be lower-case letters and digits")


async def _checked(receive: Any, values: Mapping[int, int]) -> Any:
    """Read the body of a request; the function that then receives it again."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > MOST_BYTES:
            raise RefusalError(413, f"the body has more than {MOST_BYTES:,} bytes")
    check_values(body, values)
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> Any:
        return next(messages, None) or await receive()

    return again


def check_values(body: bytes, values: Mapping[int, int]) -> None:
    """Raise a `RefusalError` of a body that does not hold as many values as a function of the page takes."""
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusalError(400, "the body is no JSON") from None
    if not isinstance(sent, dict) or not sent.keys() <= KEYS:
        raise RefusalError(400, f"the body is no object with {', '.join(sorted(KEYS))}")
    function, trigger, session = sent.get("fn_index"), sent.get("trigger_id"), sent.get("session_hash")
    if type(function) is not int or function not in values:
        raise RefusalError(400, "fn_index: is no function of this page")
    if not isinstance(sent.get("data"), list) or len(sent["data"]) != values[function]:
        raise RefusalError(400, f"data: must be {values[function]} values")
    if any(isinstance(value, list | dict) for value in sent["data"]):  # which may name files to Gradio
        raise RefusalError(400, "data: must be strings, numbers, true or false, or null")
    if trigger is not None and type(trigger) is not int:
        raise RefusalError(400, "trigger_id: must be an integer")
    if not isinstance(session, str) or not SESSION.fullmatch(session):
        raise RefusalError(400, "session_hash: must be lower-case letters and digits")
