"""What words, names and labels do to a terminal: nothing, in whatever command prints them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, command

from lmzoo.commands import (
    cluster,
    compare,
    embed,
    evaluate,
    export,
    generate,
    inspect,
    label,
    pairs,
    probe,
    rerank,
    retrieve,
    score,
    tag,
    train,
    vectors,
)
from lmzoo.commands import map as map_command
from lmzoo.core import errors
from lmzoo.core.errors import printable

RED, TITLE, BACK, TURNED, MARK = "\x1b[31mred", "\x9d0title\x07", "over\x08\x08", "\u202etxt.exe", "\u200fmark"
EVIL = [RED, TITLE, BACK, TURNED, MARK]
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
NAME = "run\x1b[2J\u202e"
"""Of a folder."""

Main = Callable[[], int]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts and runs, all of which have evil words and names."""
    folder = tmp_path_factory.mktemp("evil")
    lines = [" ".join([*EVIL[k:], "the", *EVIL[:k]]) for k in range(5)] * 6
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path(NAME).write_text("\n".join(lines) + "\n")
        Path("pairs.jsonl").write_text(json.dumps({"sentence_good": RED, "sentence_bad": TITLE, "UID": BACK}) + "\n")
        Path("best").write_text(f"{RED} ||| {TITLE} the ||| 1\n{RED} ||| {BACK} ||| 2\n")
        Path("columns").write_text("".join(f"{word}\t{tagged}\n" for word, tagged in zip(EVIL, EVIL[::-1])) + "\n")  # noqa: B905
        Path("sets").write_text(f"{RED}\t{TITLE}\t3\n{RED}\t{BACK}\t1\n{BACK}\t{TURNED}\t2\n")
        Path("docs").write_text("".join(f'{{"_id": "{k}", "text": "red title {k}"}}\n' for k in range(3)))
        own = ["corpus=text", f"corpus.train='{NAME}'", f"corpus.valid='{NAME}'", f"corpus.test='{NAME}'"]
        small = {"ngram": [*MODELS["ngram"], "model.discount_fallback=true"], "lds": MODELS["lds"]}
        small["hmm"] = ["model=hmm", "model.states=4", "model.iterations=2"]
        for name, options in small.items():
            done = command(*own, *QUICK, *options, f"run_dir='{name}{NAME}'")
            assert done.code == 0, done
            check(done.out + done.err)
        done = command(*own, "method=ppmi", "method.dim=3", "method.min_count=1", f"run_dir='ppmi{NAME}'",
                       main=vectors.main)  # fmt: skip
        assert done.code == 0, done
        check(done.out + done.err)
        told = ["task=pos", "task.train=columns", "task.valid=null", "task.test=columns", "labeller=crf"]
        done = command(*told, f"run_dir='crf{NAME}'", main=label.main)
        assert done.code == 0, done
        check(done.out + done.err)
    return folder


def check(printed: str) -> None:
    assert not (found := CONTROLS.findall(printed)), (found, printed)


NGRAM, LDS, HMM, PPMI, CRF = (f"{name}{NAME}" for name in ("ngram", "lds", "hmm", "ppmi", "crf"))


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (score.main, [NGRAM, NAME]),
        (score.main, [NGRAM, NAME, "--sums"]),
        (score.main, [NGRAM, NAME, "--json"]),
        (evaluate.main, [NGRAM, NAME]),
        (score.main, [NGRAM, NAME, "--sums", "--json"]),
        (score.main, [NGRAM, "test", "--sums"]),
        (generate.main, [NGRAM, "--tokens", "40", "--prompt", RED]),
        (compare.main, [NGRAM, LDS]),
        (compare.main, ["--tokens", NGRAM, LDS]),
        (rerank.main, [NGRAM, "best"]),
        (pairs.main, [NGRAM, "pairs.jsonl"]),
        (pairs.main, [NGRAM, "pairs.jsonl", "--json"]),
        (inspect.main, [HMM, "--state", "0"]),
        (inspect.main, [HMM, "--sentence", f"{RED} the"]),
        (inspect.main, [LDS]),
        (embed.main, [LDS, NAME, "--neighbours", RED]),
        (embed.main, [LDS, NAME, f"{NAME}.npy"]),
        (export.main, [NGRAM, f"{NAME}.arpa"]),
        (cluster.main, ["--text", NAME, "--clusters", "2", f"{NAME}.tsv"]),
        (probe.main, [PPMI, "--neighbours", RED, "--top", "3"]),
        (probe.main, [PPMI, "--sets", "sets"]),
        (tag.main, [CRF, "columns"]),
        (map_command.main, [PPMI, "--words", "5", "--clusters", "2", "--perplexity", "2"]),
        (train.main, ["model=ngram", "corpus=text", f"corpus.train='{NAME}'", f"corpus.valid='{NAME}'",
                      f"corpus.test='{NAME}'", *MODELS["ngram"], *QUICK, "model.discount_fallback=true",
                      f"run_dir='{NGRAM}'"]),
    ],
)  # fmt: skip
def test_nothing_that_is_printed_controls_a_terminal(
    main: Main, line: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    if main is map_command.main:
        pytest.importorskip("matplotlib")
        monkeypatch.setattr("lmzoo.reports.map.tsne", lambda matrix, perplexity, seed: matrix[:, :2].sigmoid().numpy())
    done = command(*line, main=main, terminal=True)
    assert done.code == 0, done
    check(done.out + done.err)


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (evaluate.main, [f"{NAME}no run"]),
        (score.main, [NGRAM, f"{NAME}no file"]),
        (probe.main, [f"{NAME}no vectors"]),
        (generate.main, [NGRAM, "--condition", RED]),
        (tag.main, [NGRAM, "columns"]),
        (train.main, [f"model={RED}"]),
        (retrieve.main, ["docs", f"{NAME}no file"]),
    ],
)
def test_nothing_in_an_error_controls_a_terminal(
    main: Main, line: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    check(command(*line, main=main).refused())


def test_json_and_the_form_of_a_text_hold_what_was_read(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    printed = command(NGRAM, NAME, "--json", main=score.main).out
    read = [[word["word"] for word in json.loads(line)["words"]] for line in printed.splitlines()]
    assert [" ".join(words[:-1]) for words in read] == Path(NAME).read_text().splitlines()
    assert command(CRF, "columns", main=tag.main).out.startswith(f"{RED}\t")


def test_a_terminal_gets_the_labels_of_a_text_escaped(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    done = command(CRF, "columns", main=tag.main, terminal=True)
    check(done.out)
    assert "\\x1b[31mred\t" in done.out


def test_a_pipe_gets_words_as_they_are(place: Path, monkeypatch: pytest.MonkeyPatch):
    """An n-best list and a text are read again, and rows of a table are joined with others by their words."""
    monkeypatch.chdir(place)
    reranked = command(NGRAM, "best", main=rerank.main).out
    assert sorted(row.split(" ||| ")[1] for row in reranked.splitlines()) == sorted([f"{TITLE} the", BACK])
    Path("again").write_text(reranked)
    again = command(NGRAM, "again", "--weights", "1", "1", "0", main=rerank.main).out
    assert [row.split(" ||| ")[:2] for row in again.splitlines()] == [
        row.split(" ||| ")[:2] for row in reranked.splitlines()
    ]
    drawn = command(NGRAM, "--tokens", "300", main=generate.main).out
    assert {*EVIL, "the"} == {*drawn.replace("…", "").split()}
    words = {line.split("\t")[0] for line in command(NGRAM, NAME, main=score.main).out.splitlines()[1:] if line}
    assert words == {*EVIL, "the", "<eos>"}
    assert command(NGRAM, NAME, "--table", "table.tsv", main=score.main).code == 0
    rows = [line.split("\t") for line in Path("table.tsv").read_text().splitlines()]
    assert {row[3] for row in rows[1:]} == words
    sums = command(NGRAM, NAME, "--sums", main=score.main).out.splitlines()
    assert [row.split("\t")[-1] for row in sums[1:]] == Path(NAME).read_text().splitlines()


@pytest.mark.parametrize("sign", ["\x1b", "\r", "\x7f", "\x9b", "\u202e", "\u2067", "\u061c", "\u2028", "\ud800", "\0"])
def test_signs_and_their_escapes(sign: str):
    assert printable(f"a{sign}b") == f"a{sign.encode('unicode_escape').decode()}b"
    assert json.loads(printed := errors.printable_json([f"é{sign}"])) == [f"é{sign}"]
    assert printed.startswith('["é\\')
    assert printable("a\tb\n", "\n\t") == "a\tb\n"
    assert printable("naïve 日本 עברית 👍🏽 a\\b") == "naïve 日本 עברית 👍🏽 a\\b"
