"""Runs of one vocabulary, opened together."""

import shutil
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.commands import label
from lmzoo.core.errors import UserError
from lmzoo.page.zoo import Zoo, names


def test_runs_are_known_by_what_tells_their_folders_apart(tmp_path: Path):
    ptb, pydoc = Path("outputs/ptb/lstm"), Path("outputs/pydoc/lstm")
    assert names([ptb, Path("outputs/ptb/ngram"), ptb]) == {"lstm": ptb, "ngram": Path("outputs/ptb/ngram")}
    assert names([ptb, pydoc]) == {"ptb/lstm": ptb, "pydoc/lstm": pydoc}
    assert names([]) == {}
    assert [*names([Path("/")])] == ["/"]


def test_each_run_is_shown_as_what_it_is(zoo: Zoo):
    assert [*zoo.models] == ["ngram", "lstm", "hmm", "vlhmm", "lds"]
    assert ([*zoo.hmms], [*zoo.vectors]) == (["hmm", "vlhmm"], ["ppmi"])
    assert zoo.notes == []
    assert not any(lm.model.training for lm in zoo.models.values())


def test_runs_that_do_not_belong_on_the_page_are_refused_in_a_line(zoo: Zoo, folder_of_runs: Path, folder: Path):
    assert command(*TEXT, *QUICK, *MODELS["ngram"], "run_dir=other").code == 0
    (folder / "text").write_text("a D B-NP O\nb N I-NP O\n\n")
    columns = [f"task.{split}=text" for split in ("train", "valid", "test")]
    assert command("task=chunk", "labeller=majority", *columns, "run_dir=labels", main=label.main).code == 0
    ngram = folder_of_runs / "ngram"
    for runs, message in (
        ([ngram, "other"], f"other: has other words than {ngram}; name runs with the same vocabulary"),
        ([ngram, "labels"], "labels: is a run of labels; name runs of lmzoo train and lmzoo vectors"),
        ([ngram, "absent"], r"absent: not a run directory \(there is no such folder\)"),
        ([folder], "not a run directory"),
        ([], "no run is named"),
    ):
        with pytest.raises(UserError, match=message):
            Zoo(runs)


def test_what_is_not_finished_or_has_no_probabilities_of_words_is_noted(
    folder_of_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lstm = Path(shutil.copytree(folder_of_runs / "lstm", tmp_path / "lstm"))
    (lstm / "results.json").unlink()
    assert Zoo([lstm]).notes == [f"{lstm}: its training is not finished; these are the best weights so far"]
    monkeypatch.setattr("lmzoo.models.ngram.ngram.NGram.whole_sentences", True)
    zoo = Zoo([folder_of_runs / "ngram", folder_of_runs / "lstm"])
    assert [*zoo.models] == ["lstm"]
    assert zoo.notes == ["ngram: assigns probabilities only to whole sentences, not to words, so it is not shown"]
