"""The examples of docstrings run, on small runs of the text that comes with Python."""

import doctest
import inspect
from pathlib import Path

import pytest
from command_line import ROOT, command

import lmzoo
from lmzoo import api
from lmzoo.api.predictor import Predictor
from lmzoo.commands import label, vectors
from lmzoo.labels.tagger import Tagger
from lmzoo.words.vectors.word_vectors import WordVectors

TAGGED = "they\tPRON\nwalk\tVERB\n.\tPUNCT\n\nthey\tPRON\nsee\tVERB\ndogs\tNOUN\n.\tPUNCT\n\n" * 3
RUNS = {"ngram": "model.order=3", "hmm": "model.states=4 model.iterations=1 trainer.first_tokens=5000"}
SHOWN = {
    "load": api.load, "train": api.train, "compare": api.compare, "Loaded": api.Loaded, "Predictor": Predictor,
    "WordVectors": WordVectors, "Tagger": Tagger,
}  # fmt: skip


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory):
    """What the examples suppose: runs in ``outputs`` of the current folder."""
    pytest.importorskip("pandas", reason="the examples show frames of pandas")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("examples"))
        names = {"lmzoo": lmzoo}
        for name, options in RUNS.items():
            run = f"outputs/pydoc/{name}"
            assert command("corpus=pydoc", f"model={name}", *options.split(), "device=cpu", f"run_dir={run}").code == 0
        done = command("corpus=pydoc", "method=ppmi", "run_dir=outputs/pydoc/ppmi", main=vectors.main)
        assert done.code == 0, done
        Path("tags").write_text(TAGGED)
        files = [f"task.{split}=tags" for split in ("train", "valid", "test")]
        done = command("task=pos", "labeller=hmm_tagger", *files, "run_dir=outputs/tags/hmm_tagger", main=label.main)
        assert done.code == 0, done
        names |= {"lm": lmzoo.load("outputs/pydoc/ngram"), "hmm": lmzoo.load("outputs/pydoc/hmm")}
        yield names | {"vectors": lmzoo.load("outputs/pydoc/ppmi")}


@pytest.mark.parametrize("name", SHOWN)
def test_examples_run(name: str, examples: dict):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    found = doctest.DocTestFinder().find(SHOWN[name], name, globs=examples)
    told: list[str] = []
    for one in found:
        runner.run(one, out=told.append)
    assert not told, "".join(told)
    assert sum(len(one.examples) for one in found)


def test_the_first_page_of_the_api_runs(examples: dict):
    runner, told = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), list[str]()
    page = (ROOT / "docs/api/index.md").read_text("utf-8")
    shown = doctest.DocTestParser().get_doctest(page, {"lmzoo": lmzoo}, "index.md", None, 0)
    runner.run(shown, out=told.append)
    assert not told, "".join(told)
    assert len(shown.examples) == 7


def test_each_method_has_an_example():
    shown = {name: method for kind in (api.Loaded, Predictor) for name, method in vars(kind).items()
             if inspect.isfunction(method) and not name.startswith("_")}  # fmt: skip
    assert [name for name, method in shown.items() if ">>>" not in (method.__doc__ or "")] == []
