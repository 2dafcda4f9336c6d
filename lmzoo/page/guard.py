"""Which requests the server of the page answers: those of the page itself."""

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

SESSIONS = 64
"""Browsers whose state Gradio stores, that may wait for a drawing, and whose drawings are stored until fetched."""

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


def limited(blocks: Any) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Limit what Gradio stores of a page; the ``lifespan`` of its application, which guards it before it answers.

    `SESSIONS` is its ``state_session_capacity``, too: a session holds all that was drawn for it last, some 0.1 MB.
    """
    blocks.queue(max_size=SESSIONS)
    blocks._queue.pending_messages_per_session.max_size = SESSIONS  # each has the drawings nobody has fetched
    blocks._queue.ANALYTICS_MAX_EVENTS = SESSIONS  # of all of which Gradio computes statistics after each event

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        app.middleware_stack = guarded(app.middleware_stack)  # around Gradio's own, which fails of some headers
        yield

    return lifespan


def guarded(app: App) -> App:
    """An ASGI application that answers this machine's own page alone, with the header that has `POLICY`.

    A page of another site may send requests here, too, and may give its own name this machine's address (DNS
    rebinding). Its requests have another ``Host`` or ``Origin`` than ours, and are refused.
    """

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":  # refused before it is accepted
            await send({"type": "websocket.close"})
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        if scope["type"] != "http":
            return
        is_begun = False

        async def with_policy(message: Any) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        if not is_ours(scope):
            return await _refuse(send, 403, "only the page itself is served, to this machine")
        if scope["path"] != DATA:
            scope = {**scope, "query_string": b""}  # what Gradio would take from it is no part of this page
        try:
            await app(scope, receive, with_policy)
        except Exception as error:  # of Gradio, whose traceback a stranger could write into the terminal
            logging.getLogger("uvicorn.error").error("%s: %s", printable(scope["path"][:80]), one_line(error))
            if not is_begun:
                await _refuse(send, 500, "the server has failed")

    return answer


async def _refuse(send: Any, status: int, why: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": why}).encode()})


def is_ours(scope: Mapping[str, Any]) -> bool:
    """Whether a request is for this machine, from no other site's page, and for a part of the page."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    host, origin = headers.get(b"host", "").lower(), headers.get(b"origin")
    if not OURS.fullmatch(host) or origin not in (None, f"http://{host}", f"https://{host}"):
        return False
    return scope["method"] in OPEN and OPEN[scope["method"]].fullmatch(scope["path"]) is not None
