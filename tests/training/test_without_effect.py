"""Options that were given and have no effect are reported, and no others; what is reported is so."""

from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import torch
from command_line import MODELS, QUICK, SMALL, TEXT, Outcome, command, configuration, train

import lmzoo.labels  # noqa: F401 - its import registers the labellers
from lmzoo.commands import label, vectors
from lmzoo.core.options import Idle, schema
from lmzoo.core.registry import Registry
from lmzoo.corpus.entries import corpora
from lmzoo.labels.model import labellers
from lmzoo.labels.tasks import tasks
from lmzoo.protocol.model import models
from lmzoo.runs.configuration import Configuration, _of_steps
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import kind_of
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.words.vectors.method import methods

SENTENCES = [f"the {noun} of a {other} is the {noun}" for noun in "abcdef" for other in "ghijkl"]

LINES = {
    "stream": [*SMALL, "trainer.average=null"],
    "sentences": [*SMALL, "corpus.context=sentence", "trainer.average=ema"],
    "nnlm": [*TEXT, *QUICK, "model=nnlm", "model.embedding=6", "model.hidden=6", "trainer.average=tail",
             "trainer.average_after=1"],
    "logbilinear": [*TEXT, *QUICK, "model=logbilinear", "model.embedding=6"],
    "lds": [*TEXT, *QUICK, "model=lds", "model.hidden=4", "model.iterations=2"],
    "lds_rnn": [*TEXT, *QUICK, "model=lds_rnn", "model.hidden=4", "model.dynamics=false", "model.input=false"],
    "loglinear": [*TEXT, *QUICK, "model=loglinear", "model.order=2", "model.training=minibatch"],
    "two levels": [*TEXT, *QUICK, "model=twolevel_hmm", "model.states=8", "model.clusters=4"],
    "low rank": [*TEXT, *QUICK, "model=lowrank_hmm", "model.states=8", "model.clusters=4", "model.features=4"],
    "hmm": [*TEXT, *QUICK, "model=hmm", "model.states=4", "model.iterations=0"],
    "ngram": [*TEXT, *QUICK, "model=ngram", "model.order=2", "model.smoothing=witten_bell"],
    "dynamic": [*TEXT, *QUICK, "model=dynamic", "model.run=base"],
    "whole": [*TEXT, *QUICK, "model=whole_sentence", "model.run=base", "corpus.context=sentence", "model.clusters=[]",
              "model.samples=50", "model.min_count=1", "model.l2=[30]"],
    "infinigram": [*TEXT, *QUICK, "model=infinigram"],
    "model_m": [*TEXT, *QUICK, "model=model_m", "model.order=2", "model.classes=4", "model.max_iterations=3"],
    "hmm of clusters": [*TEXT, *QUICK, "model=hmm", "model.states=4", "model.iterations=1", "model.begin=clusters"],
    "lbfgs": [*TEXT, *QUICK, "model=loglinear", "model.order=2", "model.max_iterations=3"],
    "cache": [*TEXT, *QUICK, "model=cache", "model.run=base"],
    "mixture": [*TEXT, *QUICK, "model=mixture", "model.runs=[base]"],
    "arpa": ["corpus=text", "corpus.train=words.txt", "corpus.valid=words.txt", "model=arpa", "model.path=words.arpa"],
    "text": ["corpus=text", "corpus.train=words.txt", "corpus.valid=words.txt", "model=ngram", "model.order=2"],
}  # fmt: skip
OTHERS = {
    "skipgram": ("vectors", ["corpus=text", "corpus.train=words.txt", "method.dim=4", "method.epochs=1",
                             "method.min_count=1"]),
    "lsa": ("vectors", ["corpus=text", "corpus.train=[words.txt,more.txt]", "method=lsa",
                        "method.min_count=1", "method.dim=2"]),
    "crf": ("label", ["task=pos", "task.train=pos.txt", "task.test=pos.txt", "labeller=crf"]),
    "birnn": ("label", ["task=pos", "task.train=pos.txt", "task.test=pos.txt", "labeller=birnn", "labeller.epochs=1",
                        "labeller.hidden=4", "labeller.embedding=4"]),
    "classify": ("label", ["task=classify", "task.train=texts.txt", "task.test=texts.txt", "labeller=naive_bayes"]),
}  # fmt: skip
LINES |= {
    smoothing: [*LINES["ngram"][:-1], f"model.smoothing={smoothing}", *further]
    for smoothing, further in {
        "mle": [], "additive": [], "absolute": ["model.discount_fallback=true"],
        "kneser_ney": ["model.discount_fallback=true"], "modified_kneser_ney": ["model.discount_fallback=true"],
    }.items()
}  # fmt: skip
LINES |= {model: [*TEXT, *QUICK, *MODELS[model]] for model in ("rnn", "gru", "vlhmm")}
STARTED = {
    **{model: [*TEXT, *QUICK, *MODELS[model], "model.dropout=0"] for model in ("rnn", "gru", "lstm", "vlhmm")},
    **{name: LINES[name] for name in ("nnlm", "logbilinear", "lds", "two levels", "low rank")},
    "lds_rnn": [*LINES["lds_rnn"][:-2], "model.dropout=0"],
    "hmm": [*TEXT, *QUICK, "model=hmm", "model.states=4", "model.iterations=2", "model.gradient=true"],
}
LINES |= {f"{name} from a run": [*line, f"trainer.from={name}"] for name, line in STARTED.items()}
LINES["evaluated"] = [*STARTED["rnn"], "trainer.from=rnn", "trainer.epochs=0"]
LINES["characters"] = [*LINES["text"], "corpus.unit=char"]
LINES["averaged"] = [*LINES["nnlm"], "model.context=averaged", "trainer.average=nt"]
OTHERS |= {method: ("vectors", [*OTHERS["skipgram"][1], f"method={method}"]) for method in ("cbow", "fasttext")}
ALL = {name: ("train", line) for name, line in LINES.items()} | OTHERS

REGISTRIES: tuple[Registry, ...] = (models, corpora, methods, labellers, tasks)

CHANGED = {
    "trainer.average_decay": 0.5,
    "model.dropout": 0.5,
    "model.classes": 4,
    "model.clustering": "frequency",
    "model.tied": True,
    "model.embeddings": "factored",
    "model.vectors": "vectors.txt",
    "model.begin": "clusters",
    "model.init_recurrent": "orthogonal",
}
"""Other values of options whose type does not tell one."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, and a run that models start from."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "words.txt").write_text("\n".join(SENTENCES) + "\n")
    words = sorted({word for line in SENTENCES for word in line.split()} | {"<unk>", "</s>"})
    unigrams = "".join(f"-1.5\t{word}\n" for word in words)
    (folder / "words.arpa").write_text(f"\\data\\\nngram 1={len(words)}\n\n\\1-grams:\n{unigrams}\n\\end\\\n")
    (folder / "more.txt").write_text("\n".join(reversed(SENTENCES)) + "\n")
    (folder / "texts.txt").write_text("".join(f"{line[4]}\t{line}\n" for line in SENTENCES))
    rows = "\n\n".join("\n".join(f"{word} {word[0]} {len(word)}" for word in line.split()) for line in SENTENCES)
    (folder / "pos.txt").write_text(rows + "\n")
    train(configuration(folder / "base", *SMALL, "corpus.context=sentence"))
    return folder


def other(key: str, value: Any) -> Any:
    if key in CHANGED:
        return CHANGED[key]
    if isinstance(value, bool):
        return not value
    return 0.25 if value is None else value / 2 if isinstance(value, float) and value else value + 1


def learnt(kind: str, config: dict[str, Any]) -> Any:
    return kind_of(config).figures(train(config)), tensors(kind, config)


def tensors(kind: str, config: dict[str, Any]) -> Any:
    if kind == "vectors":
        return list((Path(config["run_dir"]) / "vectors.bin").read_bytes())
    state = torch.load(Path(config["run_dir"]) / "best.pt", weights_only=True)["state" if kind == "label" else "model"]
    return {name: value for name, value in state.items() if "_extra_state" not in name}  # which has options


FEW = ("stream", "sentences", "two levels", "ngram", "rnn from a run", "evaluated", "skipgram", "birnn")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FEW else [pytest.mark.slow]) for name in ALL])
def test_what_has_no_effect_changes_nothing(name: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All such options of a run at once: weights and figures are the same bits."""
    monkeypatch.chdir(place)
    kind, line = ALL[name]
    config = configuration(tmp_path / "one", *line, command=kind)
    if (source := config.get("trainer", {}).get("from")) and not Path(source).exists():
        train(configuration(place / source, *STARTED[source]))
    idle = Configuration(config).without_effect()
    assert idle
    changed = configuration(tmp_path / "two", *line, command=kind)
    for key in idle:
        group, _, option = key.rpartition(".")
        before, after = (options[group] if group else options for options in (config, changed))
        if _of_steps(key) and not isinstance(before[option], int | float):
            continue  # null, a name
        if (value := other(key, before[option])) != "vectors.txt":
            after[option] = value
    torch.testing.assert_close(learnt(kind, config), learnt(kind, changed), rtol=0, atol=0)


def test_every_option_that_may_be_without_effect_is_so_in_a_line_above(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    tried = set()
    for kind, line in ALL.values():
        config = configuration(place / "unused", *line, command=kind)
        tried |= {
            (config[key.partition(".")[0]].get("name"), key)
            for key in Configuration(config).without_effect()
            if "." in key
        }
    marked = {(None, f"trainer.{option}") for option in idle_options(TrainerOptions)}
    for registry in REGISTRIES:
        for name, entry in registry.entries.items():
            marked |= {(name, f"{registry.kind}.{option}") for option in idle_options(entry, f"{registry.kind}.")}
    assert marked - tried == {("local", "labeller.window"), ("local", "labeller.scale")}  # refused without vectors
    assert not any(idle_options(entry) for of in (optimizers, schedules) for entry in of.entries.values())


def test_the_options_that_leave_others_without_effect_exist():
    existing = {
        f"{registry.kind}.{option}"
        for registry in REGISTRIES
        for entry in registry.entries.values()
        for option in schema(entry)
    } | {f"trainer.{option}" for option in schema(TrainerOptions)}
    named = {
        option
        for entry in [TrainerOptions, *(entry for registry in REGISTRIES for entry in registry.entries.values())]
        for kind in schema(entry).values()
        for mark in get_args(kind)
        if isinstance(mark, Idle)
        for option, *_ in mark.where
    }
    assert named <= existing


def idle_options(entry: Any, where: str = "") -> list[str]:
    """Options that may be without effect, where the entry has those that leave them so."""
    options = schema(entry)
    marks = [(name, mark) for name, kind in options.items() if get_origin(kind) is Annotated for mark in get_args(kind)]
    return [
        name
        for name, mark in marks
        if isinstance(mark, Idle)
        and all(option.removeprefix(where) in options or "." in option.removeprefix(where) for option, *_ in mark.where)
    ]


NGRAM = [*TEXT, "model=ngram", "model.order=2", "model.discount_fallback=true"]
STEPS = ", which takes no steps of gradient descent: "


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ([*NGRAM, "trainer.epochs=12"], [f"model=ngram{STEPS}trainer.epochs"]),  # as it is by default
        ([*NGRAM, "trainer.clip=2", "optimizer=sgd"], [f"model=ngram{STEPS}trainer.clip, optimizer"]),
        ([*NGRAM, "trainer.precision=bfloat16"], [f"model=ngram{STEPS}trainer.precision"]),
        ([*NGRAM, "trainer=debug", "trainer.checkpoint_seconds=9"], []),
        ([*NGRAM, "model.pseudocount=2"], ["model.smoothing=modified_kneser_ney: model.pseudocount"]),
        ([*TEXT, "model=hmm", "model.states=2", "model.iterations=1", "optimizer.lr=1"],
         [f"model=hmm{STEPS}optimizer.lr"]),
        ([*SMALL], ["corpus.context=stream: trainer.max_tokens"]),
        ([*SMALL, "corpus.context=sentence", "trainer.random_bptt=true"],
         ["corpus.context=sentence: trainer.batch_size, trainer.bptt, trainer.random_bptt"]),
        (["trainer.average_decay=0.9", *SMALL[:-1], "trainer.average=tail", "trainer.average_after=1"],
         ["trainer.average=tail: trainer.average_decay", "corpus.context=stream: trainer.max_tokens"]),
        ([*TEXT, "experiment=lstm_512_tied_ptb", "corpus=markov", "corpus.context=sentence", "model.hidden=8",
          "model.embedding=8", "trainer.epochs=1"], []),
    ],
)  # fmt: skip
def test_what_was_given_without_effect_is_reported(line: list[str], told: list[str], folder: Path):
    expected = [f"no effect with {reason}" for reason in told]
    assert notes(command(*line, "device=cpu", "run_dir=run")) == expected
    assert Path("run/train.log").read_text().count("no effect with ") == len(told)
    again = command(*line, "device=cpu", "run_dir=run")
    assert notes(again) == expected
    assert "already finished" in again.out


def notes(outcome: Outcome) -> list[str]:
    assert outcome.code == 0, outcome
    assert not outcome.err
    return [line for line in outcome.out.splitlines() if line.startswith("no effect")]


def test_a_run_that_a_model_without_steps_starts_from_is_refused_and_not_called_idle(place: Path, folder: Path):
    told = command(*NGRAM, f"trainer.from={place / 'base'}")
    assert f"trainer.from={place / 'base'}: " in told.refused()
    assert "no effect" not in told.out


def test_options_of_the_start_and_of_steps_are_without_effect_on_the_weights_of_a_run(place: Path, folder: Path):
    base = f"trainer.from={place / 'base'}"
    line = [*SMALL, "corpus.context=sentence", base, "model.init=0.2", "trainer.clip=2", "trainer.epochs=0"]
    steps, start = notes(command(*(option for option in line if option != "trainer.epochs=2"), "run_dir=run"))
    assert start == f"no effect with {base}: model.init"
    assert steps.startswith("no effect with trainer.epochs=0: ")
    assert steps.endswith(", trainer.clip")


def test_labels_and_vectors_tell_it_too(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    crf, skipgram = OTHERS["crf"][1], OTHERS["skipgram"][1]
    assert notes(command(*crf, "labeller.window=2", main=label.main)) == [
        "no effect with labeller.vectors=null and labeller.encoder=null: labeller.window"
    ]
    assert notes(command(*skipgram, "corpus.subwords=900", main=vectors.main)) == [
        "no effect with corpus.unit=word: corpus.subwords"
    ]


def test_an_option_without_effect_is_no_warning_of_the_results(folder: Path):
    assert command(*NGRAM, "trainer.epochs=3", "run_dir=run").code == 0
    assert Run(Path("run")).results()["warnings"] == []  # pyright: ignore[reportOptionalSubscript]
