"""The page as Gradio has it, and its server."""

import asyncio
import gc
import http.client
import json
import math
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import MODELS, ROOT, command

import lmzoo
from lmzoo.core.errors import UserError
from lmzoo.page import app, data, guard
from lmzoo.page.examples import NEWS, WORDS, example
from lmzoo.page.zoo import Zoo
from lmzoo.protocol.sampling import Decoding

TABS = ["Surprisal", "Next word", "Generate", "Hidden states", "Gaps", "Word vectors"]


def labels(blocks, kind: str) -> list[str]:
    found = [part for part in blocks.get_config_file()["components"] if part["type"] == kind]
    return [part["props"]["label"] for part in found if part["props"].get("visible", True)]


def drawing(blocks) -> list:
    """The functions that draw; what a click on an example does happens in the browser."""
    return [made for made in blocks.fns.values() if made.fn]


pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries, which leave event loops open


@pytest.fixture
def gradio() -> Iterator[None]:
    """Where Gradio is installed; what it leaves open is closed while warnings are ignored."""
    pytest.importorskip("gradio")
    yield
    gc.collect()


@pytest.fixture(scope="module")
def blocks(zoo: Zoo):
    """The page of all runs."""
    pytest.importorskip("gradio")
    return app.build(zoo)


def test_there_is_a_tab_for_what_the_runs_can_show(blocks, folder_of_runs: Path, gradio: None):
    assert labels(blocks, "tabitem") == TABS
    assert labels(app.build(Zoo([folder_of_runs / "ngram"])), "tabitem") == TABS[:3]
    assert labels(app.build(Zoo([folder_of_runs / "ppmi"])), "tabitem") == TABS[5:]


def test_what_is_drawn_first_is_of_the_example(zoo: Zoo, blocks):
    parts = blocks.get_config_file()["components"]
    drawn = "".join(str(part["props"].get("value") or "") for part in parts if part["type"] == "html")
    words = example(zoo).text.split()
    assert len(words) > 1
    for name in zoo.models:
        assert f"<h2>{name}</h2>" in drawn
    assert all(re.search(rf"\b{word}\b", drawn) for word in words)
    assert "Likeliest path" in drawn
    assert "3CosAdd" in drawn


@pytest.mark.parametrize("number", [None, -1, 2**40, 1.5, math.nan, -math.inf, "1", True])
def test_a_number_that_a_field_cannot_have_is_drawn_as_a_mistake(blocks, number: float | None):
    """As one types it: Gradio itself would raise."""
    for made in drawing(blocks):
        kinds = [field.get_block_name() for field in made.inputs]
        for place in (place for place, kind in enumerate(kinds) if kind in ("slider", "number")):
            values = [getattr(field, "value", None) for field in made.inputs]
            values[place], label = number, made.inputs[place].label.split(":")[0]
            (drawn,) = asyncio.run(blocks.process_api(made, values))["data"]
            assert (f"{label}: must be " in drawn) == ((label, number) != ("temperature", 1.5))


@pytest.mark.parametrize(
    ("value", "kinds", "message"),
    [
        (5, ["textbox"], "must be a string"),
        (None, ["textbox"], "must be a string"),
        ("the " * 501, ["textbox"], "has 2,004 characters, at most 2,000 are read"),
        ("absent", ["radio"], "must be one of"),
        (None, ["radio"], "must be one of"),
        (0, ["radio"], "must be one of"),
        ("x" * 50_000, ["radio"], "must be one of"),
    ],
)
def test_a_value_that_a_browser_does_not_send_is_drawn_as_a_mistake(
    blocks, capfd: pytest.CaptureFixture[str], value: object, kinds: list[str], message: str
):
    tried = 0
    for made in drawing(blocks):
        for place, field in enumerate(made.inputs):
            if field.get_block_name() in kinds:
                values = [getattr(field, "value", None) for field in made.inputs]
                values[place], tried = value, tried + 1
                drawn, *_ = asyncio.run(blocks.process_api(made, values))["data"]
                assert message in drawn
                assert len(drawn) < 400
    assert tried
    assert capfd.readouterr() == ("", "")


def test_fields_may_be_empty(blocks):
    for made in drawing(blocks):
        values = [getattr(field, "value", None) for field in made.inputs]
        empty = [
            "" if field.get_block_name() == "textbox" else value
            for field, value in zip(made.inputs, values, strict=True)
        ]
        assert made.fn(*empty) is not None


def test_a_vocabulary_that_has_an_example_begins_with_it(zoo: Zoo, monkeypatch: pytest.MonkeyPatch):
    assert example(zoo) is not NEWS
    assert all(word in zoo.vocabulary.index for word in example(zoo).text.split())
    monkeypatch.setattr(zoo.vocabulary, "index", dict.fromkeys([*zoo.vocabulary.index, *NEWS.text.split()], 1))
    assert example(zoo) is NEWS


def test_an_example_of_characters_is_a_text(folder_of_runs: Path, tmp_path: Path):
    text = [f"corpus.{split}={folder_of_runs / split}" for split in ("train", "valid")]
    assert command("corpus=text", *text, "corpus.unit=char", *MODELS["ngram"], f"run_dir={tmp_path}").code == 0
    zoo = Zoo([tmp_path])
    (drawn,) = data.samples(zoo.models[tmp_path.name], "", WORDS, 0, 1, Decoding(top_k=10))
    words = [token.word for token in drawn.tokens if token.word != "<eos>"]
    assert zoo.vocabulary.form.words(example(zoo).text) == words[: len(example(zoo).text)]
    assert len(words) > 1


def test_a_plug_in_may_be_named_by_itself(folder_of_runs: Path):
    with pytest.raises(UserError, match="plugins=none_such: no such module"):
        Zoo([folder_of_runs / "ngram"], plugins="none_such")


def test_the_page_is_served_on_loopback_with_a_policy_and_then_is_gone(
    zoo: Zoo, gradio: None, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gradio.networking.url_ok", lambda url: False)  # as on a machine that is slow to answer
    page = app.serve(zoo)
    host, port = re.fullmatch(r"http://(127\.0\.0\.1):(\d+)/", page.address).groups()  # pyright: ignore
    try:
        with pytest.raises(UserError, match=rf"--port {port}: cannot be used \(Address already in use\)"):
            app.serve(zoo, int(port))
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.getheader("content-security-policy") == guard.POLICY
        text = answer.read().decode()
        assert "Surprisal" in text
        (found,) = re.findall(r"window\.gradio_config = (\{.*?\});</script>", text)
        config = json.loads(found)
        assert (config["analytics_enabled"], config["run_history"]) == (False, False)
        connection.close()
        hosts = {address[0] for address in _listening(int(port))}
        assert hosts == {"127.0.0.1"}
    finally:
        page.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=5)
    assert list(folder.iterdir()) == []
    with pytest.raises(UserError, match=r"--port 70000: cannot be used \(bind\(\): port must be 0-65535"):
        app.check_port(70000)


def _listening(port: int) -> list[tuple[str, int]]:
    """The addresses at which this machine takes connections to a port, by /proc; all hosts would be 0.0.0.0."""
    if not Path("/proc/net/tcp").exists():
        pytest.skip("has no /proc/net/tcp")
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            host, own = local.split(":")
            if int(own, 16) == port and state == "0A":
                found.append((socket.inet_ntoa(bytes.fromhex(host)[::-1]) if table == "tcp" else host, port))
    return found


@pytest.fixture
def taken(gradio: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port that is taken, from which Gradio looks for a free one."""
    with socket.socket() as other:
        other.bind((app.HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("gradio.http_server.INITIAL_PORT_VALUE", port)
        yield port


def test_the_first_free_port_is_taken(zoo: Zoo, taken: int):
    page = app.serve(zoo)
    page.close()
    found = int(page.address.rstrip("/").rpartition(":")[2])
    assert taken < found < taken + 100


def test_where_no_port_is_free_it_is_reported(zoo: Zoo, taken: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradio.http_server.TRY_NUM_PORTS", 1)
    with pytest.raises(UserError, match=rf"empty port in range: {taken}-{taken}; choose a port with --port"):
        app.serve(zoo)


def test_gradio_is_named_where_it_is_missing(zoo: Zoo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(UserError, match=r"lmzoo demo needs gradio, which is not installed; pip install 'lmzoo-torch\["):
        app.serve(zoo)


def test_a_notebook_finds_it_by_its_name():
    assert lmzoo.demo is app.demo
    assert "demo" in dir(lmzoo)


@pytest.mark.slow
def test_no_other_machine_is_asked_and_no_proxy(folder_of_runs: Path, gradio: None, tmp_path: Path):
    """A process in which any other address is an error, behind a proxy that is not there."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\n"
        "real = socket.socket.connect\n"
        "def connect(self, address):\n"
        "    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ('127.0.0.1', '::1'):\n"
        "        print('asks', address, flush=True)\n"
        "    return real(self, address)\n"
        "socket.socket.connect = connect\n"
        "looked = socket.getaddrinfo\n"
        "def getaddrinfo(host, *rest, **named):\n"
        "    if host not in ('127.0.0.1', 'localhost', None): print('looks up', host, flush=True)\n"
        "    return looked(host, *rest, **named)\n"
        "socket.getaddrinfo = getaddrinfo\n"
    )
    script = f"import lmzoo; page = lmzoo.demo({str(folder_of_runs / 'ngram')!r}); print(page); page.close()"
    proxy = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **proxy, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )  # fmt: skip
    assert re.fullmatch(r"lmzoo demo at http://127\.0\.0\.1:\d+/\n", done.stdout), done
