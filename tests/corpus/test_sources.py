"""Files of pinned corpora: where they are found, how they are downloaded, and that nobody ever sees half of one."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ROOT
from https_server import CERTIFICATE, Server, page, serving

from lmzoo.core.errors import UserError
from lmzoo.core.files import sha256, write_atomic
from lmzoo.corpus.sources import Pinned, fetch, fetch_splits

TEXT = b"the cat sat\n" * 20_000
FILE = Pinned("a.txt", sha256(TEXT), limit=len(TEXT))


@pytest.fixture
def server() -> Iterator[Server]:
    """``/good`` has the text, ``/other`` another one, ``/short`` breaks off, ``/slow`` waits for a second reader."""
    second_reader = threading.Barrier(2, timeout=120)

    def slow(connection: socket.socket) -> None:
        connection.sendall(page(TEXT)[:1000])
        second_reader.wait()
        connection.sendall(page(TEXT)[1000:])

    answers = {"/good": page(TEXT), "/other": page(b"other\n"), "/short": page(TEXT)[:1000], "/slow": slow}
    with serving(answers | {"/corpus/a.txt/train": page(TEXT), "/corpus/b.txt/valid": page(TEXT)}) as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; ``LMZOO_DATA`` is ``texts`` in it. The server is trusted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("LMZOO_DATA", "texts")
    return tmp_path


def put(place: str, data: bytes = TEXT) -> None:
    Path(place).parent.mkdir(parents=True)
    Path(place).write_bytes(data)


@pytest.mark.parametrize("root", ["texts", "data"])
def test_a_file_is_found_where_it_lies(root: str, server: Server):
    put(f"{root}/corpus/a.txt")
    assert fetch("corpus", FILE, [server.url("/good")]) == TEXT
    assert not server.requests


def test_the_named_folder_comes_first():
    put("texts/corpus/a.txt", b"other")
    put("data/corpus/a.txt")
    with pytest.raises(UserError, match=r"texts/corpus/a.txt: sha256 is d9298a10d1b0…, not the pinned "):
        fetch("corpus", FILE, [])


def test_without_a_named_folder_it_is_data(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LMZOO_DATA")
    assert fetch("corpus", FILE, [server.url("/good")]) == TEXT
    assert Path("data/corpus/a.txt").read_bytes() == TEXT


def test_a_file_of_another_text_is_refused_and_left_alone(server: Server):
    put("texts/corpus/a.txt", b"other")
    with pytest.raises(UserError, match="delete the file to download it again"):
        fetch("corpus", FILE, [server.url("/good")])
    assert Path("texts/corpus/a.txt").read_bytes() == b"other"
    assert not server.requests


@pytest.mark.parametrize("first", ["/none", "/other", "/short", "refused", "nonsense"])
def test_the_next_copy_is_taken_where_one_fails(first: str, server: Server):
    urls = {"refused": "https://127.0.0.1:9/a.txt", "nonsense": "nonsense"}
    assert fetch("corpus", FILE, [urls.get(first, server.url(first)), server.url("/good")]) == TEXT
    assert server.requests[-1] == "/good"
    assert [path.name for path in Path("texts/corpus").iterdir()] == ["a.txt"]
    assert Path("texts/corpus/a.txt").read_bytes() == TEXT


def test_where_no_copy_is_good_each_reason_is_reported_and_nothing_is_kept(server: Server, folder: Path):
    with pytest.raises(UserError) as refused:
        fetch("corpus", FILE, [server.url(path) for path in ("/none", "/other", "/short")])
    message = str(refused.value)
    assert message.startswith("a.txt is in none of texts/corpus, data/corpus and no copy could be downloaded (")
    host = f"127.0.0.1:{server.server_address[1]}"
    reasons = ["HTTP 404 Not Found", "6 bytes with another sha256", ""]
    assert "; ".join(f"{host}: {reason}" for reason in reasons) in message
    assert message.endswith("set LMZOO_DATA to the folder that has it, or use corpus=pydoc, which needs no network")
    assert "\n" not in message
    assert not list(folder.iterdir())


def test_a_copy_may_be_a_file():
    put("copies/a.txt")
    assert fetch("corpus", FILE, ["copies/none.txt", "copies/a.txt"]) == TEXT
    assert Path("texts/corpus/a.txt").read_bytes() == TEXT


def test_addresses_are_filled_in_for_each_split(server: Server):
    files = {"train": FILE, "valid": FILE._replace(name="b.txt"), "test": FILE._replace(name="c.txt")}
    put("texts/corpus/c.txt")
    found = fetch_splits("corpus", files, [server.url("/corpus/{file}/{split}")])
    assert found == dict.fromkeys(files, TEXT)
    assert server.requests == ["/corpus/a.txt/train", "/corpus/b.txt/valid"]


def test_a_folder_that_cannot_be_written_is_named(server: Server, monkeypatch: pytest.MonkeyPatch):
    Path("file").write_text("text")
    monkeypatch.setenv("LMZOO_DATA", "file")
    with pytest.raises(UserError, match=r"file/corpus/a.txt: cannot be written \(.*\); set LMZOO_DATA to a folder"):
        fetch("corpus", FILE, [server.url("/good")])


def test_two_processes_download_the_same_file_at_once(server: Server):
    code = (
        "import sys; from lmzoo.corpus.sources import Pinned, fetch;"
        f"assert len(fetch('corpus', Pinned{tuple(FILE)}, sys.argv[1:])) == {len(TEXT)}"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", code, server.url("/slow")]
    processes = [subprocess.Popen(words, env=environment) for _ in range(2)]
    file = Path("texts/corpus/a.txt")
    while any(process.poll() is None for process in processes):
        assert not file.exists() or file.read_bytes() == TEXT
        time.sleep(0.001)
    assert [process.returncode for process in processes] == [0, 0]
    assert server.requests == ["/slow", "/slow"]
    assert [path.name for path in file.parent.iterdir()] == ["a.txt"]
    assert file.read_bytes() == TEXT


def test_who_reads_while_others_write_sees_a_whole_file():
    path, versions = Path("file"), [bytes([letter]) * 300_000 for letter in b"ab"]
    write_atomic(path, versions[0])
    writers = [threading.Thread(target=lambda v=v: [write_atomic(path, v) for _ in range(40)]) for v in versions]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() in versions
    assert list(Path().iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch):
    path = Path("file")
    write_atomic(path, b"old")

    def no_room(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(Path().iterdir()) == [path]
