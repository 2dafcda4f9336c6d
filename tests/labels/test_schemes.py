"""Labels that tell the same entities in other ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.schemes import IOB2, IOBES, SCHEMES, entities, family
from lmzoo.labels.tasks import Task, tasks


def iobes(labels: list[str]) -> list[str]:
    return IOB2.translated(labels, IOBES)


def iob(labels: list[str]) -> list[str]:
    return IOBES.translated(labels, IOB2)


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
def test_ends_are_reported_and_forgotten(plain: str, ends: str):
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
    assert task.to_model_scheme(["B-NP", "I-NP", "O"]) == ["B-NP", "E-NP", "O"]
    assert task.to_text_scheme(["B-NP", "E-NP", "O"]) == ["B-NP", "I-NP", "O"]
    same: Task = tasks.build(defaults("task", "chunk"))
    assert same.to_model_scheme(["I-NP"]) == same.to_text_scheme(["I-NP"]) == ["I-NP"]


def test_tags_have_no_scheme():
    with pytest.raises(UserError, match=r"task\.scheme=iobes: labels do not encode entities; set task\.measure=f1"):
        tasks.build(defaults("task", "pos") | {"scheme": "iobes"})


def sequences(letters: str) -> st.SearchStrategy[list[str]]:
    """Labels of two types, in any order."""
    return st.lists(st.sampled_from(["O", *(f"{letter}-{kind}" for letter in letters for kind in "XY")]), max_size=9)


@given(sequences("BI"), st.sampled_from(list(SCHEMES)))
def test_every_scheme_tells_the_same_entities_and_goes_to_iobes_and_back(labels: list[str], name: str):
    scheme, wanted = SCHEMES[name], entities(labels)
    own = scheme.labels(wanted, len(labels))
    assert scheme.entities(own) == scheme.strict(own) == wanted
    assert scheme.outside(own) == []
    assert {label[0] for label in own} <= {"O", *scheme[1:5]}
    coded = scheme.translated(own, IOBES)
    assert IOBES.strict(coded) == wanted
    assert IOBES.translated(coded, scheme) == own


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("IOB1", "I-X I-X B-X O I-Y I-X"),
        ("IOB2", "B-X I-X B-X O B-Y B-X"),
        ("IOE1", "I-X E-X I-X O I-Y I-X"),
        ("IOE2", "I-X E-X E-X O E-Y E-X"),
        ("IOBES", "B-X E-X S-X O S-Y S-X"),
        ("BILOU", "B-X L-X U-X O U-Y U-X"),
        ("BMES", "B-X E-X S-X O S-Y S-X"),
    ],
)
def test_labels_of_each_scheme_by_hand(name: str, labels: str):
    wanted = {("X", 0, 2), ("X", 2, 3), ("Y", 4, 5), ("X", 5, 6)}
    assert SCHEMES[name].entities(labels.split()) == wanted
    assert SCHEMES[name].labels(wanted, 6) == labels.split()


@pytest.mark.parametrize(
    ("letters", "name"),
    [("", "IOB2"), ("BO", "IOB2"), ("I", "IOB2"), ("IE", "IOE2"), ("E", "IOE2"), ("BE", "IOBES"), ("S", "IOBES"),
     ("BIL", "BILOU"), ("U", "BILOU"), ("BM", "BMES"), ("ME", "BMES")],
)  # fmt: skip
def test_a_scheme_is_known_by_its_letters(letters: str, name: str):
    assert family({*letters})[0].name == name


@pytest.mark.parametrize("letters", ["IM", "BEL", "US", "MU", "BIESL"])
def test_letters_of_two_schemes_are_of_none(letters: str):
    assert family({*letters}) == ()


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("IOE1", "E-X O I-Y I-X E-X"),
        ("IOE2", "I-X O E-Y I-X I-X"),
        ("IOBES", "B-X I-X S-Y I-X E-X"),
        ("BILOU", "B-X O U-Y I-X L-X"),
        ("BMES", "M-X M-X S-Y E-X B-X"),
    ],
)
def test_outside_iob_labels_out_of_their_order_are_no_entity(name: str, labels: str):
    assert SCHEMES[name].entities(labels.split()) == {("Y", 2, 3)}
    assert 2 not in SCHEMES[name].outside(labels.split())
    assert len(SCHEMES[name].outside(labels.split())) == sum(label[-1] == "X" for label in labels.split())
