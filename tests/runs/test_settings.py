"""The configuration of a run: what tells two of them apart, and the name that a run has from it."""

from lmzoo.runs.settings import differences, flatten, run_name


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


def test_run_names_are_short_and_fit_for_a_file_system():
    assert run_name([]) == ""
    assert run_name(["seed=3", "optimizer.lr=0.1"]) == ",optimizer.lr=0.1,seed=3"
    assert run_name(["model=lstm", "seed=3", "corpus=ptb", "device=cpu", "trainer.checkpoint_seconds=9"]) == ",seed=3"
    assert run_name(["model.tied=True", "seed=3", "a=False"]) == run_name(["model.tied=true", "seed=3", "a=false"])
    assert run_name(["corpus.train=Truest"]) == ",corpus.train=Truest"
    assert "/" not in run_name(["corpus.train=/a/b.txt"])
    long = run_name(["corpus.train=" + "x" * 300])
    assert len(long) <= 100
    assert long != run_name(["corpus.train=" + "x" * 301])
