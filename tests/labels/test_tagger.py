"""A tagger in a notebook, beside `lmzoo tag` and the enumeration of all labellings."""

import math
from pathlib import Path

import pytest
from command_line import command
from test_pool import all_logprobs

import lmzoo
from lmzoo.commands import label, tag
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence

TRAIN = "the D B-NP\nwalk N I-NP\nends V B-VP\n\nthey P B-NP\nwalk V B-VP\n\nwalk N B-NP\nends V B-VP\n\n"
SENTENCE, TAGS = "the walk ends", [["D"], ["N"], ["V"]]


def trained(labeller: str, *more: str, task: str = "chunk") -> str:
    options = [f"task={task}", f"labeller={labeller}", "task.train=train.txt", "task.test=train.txt", *more]
    done = command(*options, f"run_dir={labeller}", main=label.main)
    assert done.code == 0, done
    return labeller


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("scheme", ["null", "iobes"])
def test_labels_and_probabilities_are_those_of_all_labellings(scheme: str):
    Path("train.txt").write_text(TRAIN)
    run = trained("crf", f"task.scheme={scheme}")
    Path("new.txt").write_text("the D\nwalk N\nends V\n")
    found = lmzoo.load(run)(SENTENCE, features=TAGS)
    assert [(word, name) for word, name, _ in found] == [
        (line.split()[0], line.split()[2]) for line in command(run, "new.txt", main=tag.main).out.splitlines()
    ]
    labeller = lmzoo.load(run).trained.labeller
    sentence = Sentence(SENTENCE.split(), [""] * 3, TAGS)
    every = all_logprobs(labeller, sentence)
    best = max(every, key=every.__getitem__)
    for place, each in enumerate(found):
        alike = [math.exp(logprob) for path, logprob in every.items() if path[place] == best[place]]
        assert each.probability == pytest.approx(sum(alike), rel=1e-4)
        assert each.probability < 1


@pytest.mark.usefixtures("folder")
def test_a_model_without_probabilities_gives_labels_alone_and_plain_text_is_cut():
    Path("train.txt").write_text(TRAIN)
    tagger = lmzoo.load(trained("majority", "task.features=[]"))
    words = [each.text for each in tagger("they walk,ends", tokenize="words")]
    assert words == ["they", "walk", ",", "ends"]
    assert tagger("they ends") == [("they", "B-NP", None), ("ends", "B-VP", None)]
    assert tagger("they") == [("they", "B-NP", None)]
    assert repr(tagger) == "<majority of chunk in majority>"


@pytest.mark.usefixtures("folder")
def test_a_text_has_one_label():
    Path("train.txt").write_text("good\ta fine film\nbad\ta dull film\n" * 4)
    tagger = lmzoo.load(trained("naive_bayes", task="classify"))
    assert tagger("a fine fine day") == [("a fine fine day", "good", None)]


@pytest.mark.usefixtures("folder")
def test_mistakes():
    Path("train.txt").write_text(TRAIN)
    tagger = lmzoo.load(trained("crf"))
    for wrong, told in (
        ({"text": SENTENCE}, "crf: reads 1 further columns of each of the 3 words; give them as features="),
        ({"text": SENTENCE, "features": TAGS[:2]}, "reads 1 further columns of each of the 3 words"),
        ({"text": " "}, "the text has no words"),
        ({"text": "They\nwalk"}, "the text is not one line; give a sentence, as 'They walk .'"),
        ({"text": SENTENCE.split()}, "the text is not one line"),
        ({"text": "a", "tokenize": "x"}, "tokenize=x: no such tokenizer; choose ptb or treebank or words"),
    ):
        with pytest.raises(UserError, match=told):
            tagger(**wrong)
