"""Labels that tell the same entities in other ways."""

import pytest

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.metrics import entities
from lmzoo.labels.schemes import iob, iobes
from lmzoo.labels.tasks import Task, tasks

PAIRS = [
    ("O", "O"),
    ("B-NP", "S-NP"),
    ("B-NP I-NP", "B-NP E-NP"),
    ("B-NP I-NP I-NP B-NP O B-VP", "B-NP I-NP E-NP S-NP O S-VP"),
    ("B-NP B-NP I-NP I-VP", "S-NP B-NP E-NP S-VP"),
    ("I-NP I-NP O", "B-NP E-NP O"),
    ("", ""),
]


@pytest.mark.parametrize(("plain", "ends"), PAIRS)
def test_ends_are_told_and_forgotten(plain: str, ends: str):
    assert iobes(plain.split()) == ends.split()
    assert entities(ends.split()) == entities(plain.split())
    back = iob(ends.split())
    assert entities(back) == entities(plain.split())
    assert iob(back) == back
    assert not any(label[0] in "ES" for label in back)


@pytest.mark.parametrize("labels", ["E-NP I-NP S-NP B-NP O E-VP", "S-A I-A B-A E-B O I-B"])
def test_labels_that_a_model_mixes_up_stand_for_what_conlleval_counts(labels: str):
    assert entities(iob(labels.split())) == entities(labels.split()) == entities(iobes(labels.split()))


def test_a_task_codes_the_labels_that_models_learn():
    task: Task = tasks.build(defaults("task", "chunk") | {"scheme": "iobes"})
    assert task.coded(["B-NP", "I-NP", "O"]) == ["B-NP", "E-NP", "O"]
    assert task.plain(["B-NP", "E-NP", "O"]) == ["B-NP", "I-NP", "O"]
    same: Task = tasks.build(defaults("task", "chunk"))
    assert same.coded(["I-NP"]) == same.plain(["I-NP"]) == ["I-NP"]


def test_tags_have_no_scheme():
    with pytest.raises(UserError, match=r"task\.scheme=iobes: labels stand for no entities; set task\.measure=f1"):
        tasks.build(defaults("task", "pos") | {"scheme": "iobes"})
