"""An ARPA file stands where a command takes a run."""

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from arpa_text import KENLM
from command_line import Outcome, command

import lmzoo
from lmzoo.api import Loaded
from lmzoo.commands import compare, evaluate, export, generate, pairs, rerank, score, tag
from lmzoo.commands import inspect as inspect_command
from lmzoo.core.errors import UserError
from lmzoo.page.zoo import Zoo
from lmzoo.runs.external import open_model
from lmzoo.runs.loading import open_source_run

ARPA = KENLM.replace("\n0\t<s>", "\n-99\t<s>").replace("-0.05\t", "-0.15\t")
A_B = [-0.3, -0.15, -0.15]
"""log10 p of "a b" and its end, by hand."""
B_C = [-0.5 - 0.8, -0.3 - 2, -1]
"""Of "b c", where c is unknown: the backoffs of <s>, b and <unk>."""


@pytest.fixture(autouse=True)
def arpa(folder: Path) -> str:
    Path("m.arpa").write_text(ARPA)
    Path("text").write_text("a b\nb c\n")
    return "m.arpa"


def test_a_file_is_loaded_with_its_own_vocabulary(arpa: str):
    run, _, vocabulary = open_model(Path(arpa))
    assert vocabulary.words == ["<eos>", "<unk>", "a", "b"]
    assert run.results() is run.unfinished() is None
    Path("m.arpa.gz").write_bytes(gzip.compress(ARPA.encode()))
    for name in (arpa, "m.arpa.gz"):
        lm = lmzoo.load(name)
        assert isinstance(lm, Loaded)
        assert lm.score("a b") == pytest.approx(math.log(10) * sum(A_B), rel=1e-5)
        words, bits = zip(*lm.surprisal("b c"), strict=True)
        assert words == ("b", "c→<unk>", "<eos>")
        assert bits == pytest.approx([-p / math.log10(2) for p in B_C], rel=1e-5)
        assert repr(lm) == f"<arpa of 4 words in {name}>"
        assert lm.perplexity("text") == pytest.approx(10 ** (-sum(A_B + B_C) / 6), rel=1e-5)
        assert lm.next_words("a b", 1) == [("<eos>", pytest.approx(10**-0.15, rel=1e-5))]


def test_commands_take_a_file(arpa: str):
    scored = command(arpa, "text", "--log10", main=score.main)
    assert [float(line.split("\t")[1]) for line in scored.out.splitlines()[1:] if line] == pytest.approx(A_B + B_C)
    told = command(arpa, "text", "--json", main=evaluate.main)
    assert json.loads(told.out)["logprob"] == pytest.approx(math.log(10) * sum(A_B + B_C), rel=1e-5)
    drawn = command(arpa, "--tokens", "5", "--no-unknown", main=generate.main)
    assert {*drawn.out.split()} <= {"a", "b"}
    table = command(arpa, "--sentence", "a b", main=compare.main).out.splitlines()
    assert table[3].split() == ["a", f"{-A_B[0] / math.log10(2):.2f}"]
    assert [lm.run.path for lm in Zoo([arpa]).models.values()] == [Path(arpa)]
    Path("pairs").write_text(json.dumps({"sentence_good": "a b", "sentence_bad": "b a", "UID": "order"}))
    assert "100.0\t1\t0\t0\torder" in command(arpa, "pairs", main=pairs.main).out
    Path("nbest").write_text("1 ||| b a ||| -1\n1 ||| a b ||| -1\n")
    assert command(arpa, "nbest", main=rerank.main).out.startswith("1 ||| a b")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("evaluate", [], "m.arpa: is an ARPA file, which has no train, valid or test text; give a file of text"),
        ("score", ["test"], "m.arpa: is an ARPA file, which has no train, valid or test text; give a file of text"),
        ("inspect", [], "m.arpa: is a run of model=arpa, and this command needs a hidden Markov model"),
        ("tag", ["text"], "m.arpa: not a run directory (it is a file)"),
    ],
)
def test_what_a_file_lacks_is_reported_in_a_line(name: str, arguments: list[str], problem: str, arpa: str):
    mains: dict[str, Callable[[], int]] = {
        "evaluate": evaluate.main, "score": score.main, "inspect": inspect_command.main, "tag": tag.main,
        "export": export.main,
    }  # fmt: skip
    outcome: Outcome = command(arpa, *arguments, main=mains[name])
    assert problem in outcome.refused()


def test_a_file_where_a_run_has_a_text_is_refused_with_the_way_to_make_one(arpa: str):
    made = "test text; give a file of text, or a run: lmzoo train model=arpa model.path=m.arpa makes one"
    assert made in command("--tokens", arpa, arpa, main=compare.main).refused()
    with pytest.raises(UserError, match=r"^model\.runs: m\.arpa: is an ARPA file, .* model\.path=m\.arpa makes a run"):
        open_source_run(arpa, "model.runs")


def test_other_files_are_refused():
    Path("m.binary").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    for refuse in (lmzoo.load, lambda name: open_model(Path(name))):
        with pytest.raises(UserError, match=r"m\.binary: is a binary file of KenLM; give the ARPA file"):
            refuse("m.binary")
    with pytest.raises(UserError, match="text: neither an ARPA file nor one of word vectors"):
        lmzoo.load("text")
    assert (
        "text: not a run directory (it is a file, and not in ARPA format)"
        in command("text", main=evaluate.main).refused()
    )
    Path("bad.arpa").write_text(ARPA.replace("-0.35", "0.35"))
    with pytest.raises(UserError, match=r"bad\.arpa, line 15: expected a log10 probability"):
        lmzoo.load("bad.arpa")
