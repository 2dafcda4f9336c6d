"""Cards of runs: what they say is what the files of a run say."""

import hashlib
import html
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.commands import export, label, vectors
from lmzoo.commands.export import main
from lmzoo.core.configs import choices
from lmzoo.reports.card import card
from lmzoo.runs.directory import Run


def parted(text: str) -> tuple[dict, str]:
    """The header of a card, and the rest."""
    header, rest = text.removeprefix("---\n").split("\n---\n", 1)
    assert text.startswith("---\n")
    return yaml.safe_load(header), rest


def test_a_card_has_data_options_figures_and_how_to_load_the_run(folder: Path):
    assert command(*TEXT, *QUICK, *MODELS["lstm"], "corpus.context=sentence", "run_dir=a/run").code == 0
    assert command("a/run", "README.md", main=export.main).out == "README.md\n"
    header, body = parted(Path("README.md").read_text())
    results = json.loads(Path("a/run/results.json").read_text())
    assert (header["library_name"], header["pipeline_tag"]) == ("lmzoo", "text-generation")
    corpus = Run(Path("a/run")).corpus()
    for split, tokens in corpus.splits.items():
        counted = f"{len(tokens):,}" if split != "train" else ""
        assert f"| {split} | {counted} | `{corpus.sha256[split]}` |" in body
    assert "| `model.dropout` | `0.5` |" in body
    assert "`model.layers`" not in body  # as the default
    assert "run_dir" not in body
    assert f"valid perplexity {results['perplexity']['valid']:.2f}" in body
    assert f"The weights are the best on valid of {len(results['checks'])} checks" in body
    assert "Each line is scored by itself." in body
    assert "Hochreiter & Schmidhuber (1997)" in body
    named = body.split("a folder `run` with `")[1].split("`.")[0].split("`, `")
    shutil.copytree("a/run", "other", ignore=lambda _, names: set(names) - set(named))
    program = body.split("```python\n")[1].split("```")[0].replace("'run'", "'other'")
    exec(compile(program, "card", "exec"), {})


def test_cards_of_labels_and_of_vectors(folder: Path):
    Path("train.txt").write_text("the D B-NP\nwalk N I-NP\nends V B-VP\n\n")
    files = ["task.train=train.txt", "task.test=train.txt"]
    assert command("task=chunk", "labeller=majority", *files, "run_dir=labels", main=label.main).code == 0
    options = ["method=ppmi", "method.dim=4", "method.min_count=1", "run_dir=words"]
    assert command(*TEXT, *options, main=vectors.main).code == 0
    header, body = parted(card(Run(Path("labels"))))
    assert (header["pipeline_tag"], header["metrics"]) == ("token-classification", ["f1"])
    assert "conlleval" in body
    assert "does not know its licence" in body  # the text is no longer CoNLL-2000's
    assert "lmzoo tag labels FILE" in body
    header, body = parted(card(Run(Path("words"))))
    assert header["pipeline_tag"] == "feature-extraction"
    assert "model-index" not in header  # PPMI has no loss
    assert "draws it from a Markov chain" in body


def test_what_a_run_is_made_from_is_in_its_card(folder: Path):
    assert command(*TEXT, *MODELS["ngram"], "run_dir=n").code == 0
    assert command(*TEXT, "model=cache", "model.run=n", "run_dir=c").code == 0
    checksum = hashlib.sha256(Path("n/best.pt").read_bytes()).hexdigest()
    assert f"| `model.run` | `n` | `{checksum}` |" in card(Run(Path("c")))


def test_signs_of_a_table_and_ends_of_lines_in_an_option_stay_in_its_cell(folder: Path):
    Path("a|b.txt").write_text("a b\nb a\n" * 40)
    own = ["corpus=text", *(f"corpus.{split}=a|b.txt" for split in ("train", "valid", "test"))]
    done = command(*own, "model=ngram", "model.order=1", "run_dir=n")
    assert done.code == 0, done
    assert "`a\\|b.txt`" in card(Run(Path("n")))


NAMES = [
    'a"); open("executed", "w")#',
    "a'b $(touch executed);`touch executed`",
    "-x",
    "<b>&amp;[a](b)```",
    "a\n```\n# b",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_any_name_is_a_word_of_code_and_no_markup(name: str, folder: Path):
    assert command(*TEXT, *MODELS["ngram"], "run_dir=n").code == 0
    options = ["method=ppmi", "method.dim=4", "method.min_count=1", "run_dir=words"]
    assert command(*TEXT, *options, main=vectors.main).code == 0
    shutil.move("n", f"./{name}")
    shutil.copytree("words", "w" + name)
    _, body = parted(card(Run(Path(f"./{name}"))))
    (program,) = re.findall("```python\n(.*?)\n```", body, re.DOTALL)
    exec(compile(program, "card", "exec"), {})
    (line,) = re.findall("```sh\n(.*?)\n```", parted(card(Run(Path("w" + name))))[1], re.DOTALL)
    assert "\n" in name or shlex.split(line)[2] == "w" + name
    if "\n" not in name:
        told = subprocess.run(["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True)
        assert told.stdout.split("\n")[2] == "w" + name
    assert not Path("executed").exists()
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    shown = markdown.render(body)
    assert not re.search("<b>|href|<h1>b", shown)
    assert f"a folder <code>{' '.join(name.split())}</code> with" in html.unescape(shown)


def test_words_of_a_card_that_anybody_wrote_are_no_markup(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert command(*TEXT, *MODELS["ngram"], "run_dir=n").code == 0
    bad = "x\n---\n```\n<img src=y>[a](http://b)`c`*d*"
    results = Run.results

    monkeypatch.setattr(Run, "results", lambda run: {**results(run), "corpus": bad, "warnings": [bad]})
    header, body = parted(card(Run(Path("n"))))
    assert header["datasets"] == [bad]
    shown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table").render(body)
    assert not re.search("<img|href|<em>|<hr", shown)
    assert f"<h1>{html.escape(' '.join(f'ngram on {bad}'.split()))}</h1>" in shown


def test_a_run_without_figures_has_no_card(folder: Path):
    assert command(*TEXT, *MODELS["ngram"], "run_dir=n").code == 0
    Path("n/results.json").unlink()
    assert "n: is not finished, so it has no figures" in command("n", "new.md", main=main).refused()
    assert "n: is not finished" in command("n", "new", "--format", "card", main=main).refused()
    assert not Path("new.md").exists()


def test_every_named_corpus_has_its_licence():
    from lmzoo.reports.card import LICENCES

    named = {*choices("corpus")} - {"text"}
    assert named <= LICENCES.keys()
