"""The options of a run by name."""

from lmzoo.runs.settings import flatten, short_names


def test_a_configuration_is_flattened():
    assert flatten({"seed": 0, "model": {"name": "lstm", "l2": [1, 2]}}) == {
        "seed": 0,
        "model.name": "lstm",
        "model.l2": [1, 2],
    }


def test_short_names_are_unambiguous():
    assert short_names(["seed", "corpus.seed", "optimizer.lr", "model.states", "corpus.states"]) == {
        "seed": "seed",
        "corpus.seed": "corpus.seed",
        "optimizer.lr": "lr",
        "model.states": "model.states",
        "corpus.states": "corpus.states",
    }
