"""The configuration of a run: what tells two of them apart."""

from lmzoo.runs.settings import differences, flatten, short_names


def test_a_configuration_is_flattened():
    assert flatten({"seed": 0, "model": {"name": "lstm", "l2": [1, 2]}}) == {
        "seed": 0,
        "model.name": "lstm",
        "model.l2": [1, 2],
    }


def test_differences_are_those_that_results_depend_on():
    old = {"seed": 0, "run_dir": "a", "device": "cpu", "model": {"name": "lstm", "hidden": 8}}
    new = {"seed": 0, "run_dir": "b", "device": "cuda", "model": {"name": "rnn", "order": 2}}
    assert differences(old, old) == []
    assert differences(old, new) == [
        "model.name: lstm -> rnn",
        "model.hidden: 8 -> absent",
        "model.order: absent -> 2",
    ]


def test_an_automatic_precision_is_the_one_that_a_run_has():
    float32, bfloat16, auto = ({"trainer": {"precision": p}} for p in ("float32", "bfloat16", "auto"))
    assert differences(bfloat16, auto) == []
    assert differences(bfloat16, float32) == ["trainer.precision: bfloat16 -> float32"]
    assert differences({}, auto) == ["trainer.precision: absent -> auto"]


def test_short_names_are_unambiguous():
    assert short_names(["seed", "corpus.seed", "optimizer.lr", "model.states", "corpus.states"]) == {
        "seed": "seed",
        "corpus.seed": "corpus.seed",
        "optimizer.lr": "lr",
        "model.states": "model.states",
        "corpus.states": "corpus.states",
    }
