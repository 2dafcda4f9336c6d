"""Command lines drawn at random, most of them with mistakes, and the folder of runs and texts that they name."""

import contextlib
import importlib
import random
from argparse import Action
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import QUICK, TEXT, command

from lmzoo.cli import COMMANDS
from lmzoo.cli.command import CommandParser
from lmzoo.commands import export, label, vectors
from lmzoo.core.configs import choices, defaults

MAINS: dict[str, Callable[[], int]] = {
    name: importlib.import_module(f"lmzoo.commands.{name}").main for name in sorted(COMMANDS)
}
HYDRA = {
    "train": ("corpus", "model", "optimizer", "schedule", "trainer", "experiment"),
    "vectors": ("corpus", "method"),
    "label": ("task", "labeller"),
}
"""The commands that Hydra starts, with the groups of their options; they have no parser of their own."""
GROUPS = {group: choices(group) for groups in HYDRA.values() for group in groups}
RUNS = {
    "ngram": ["model=ngram", "model.order=2"],
    "rnn": ["model=rnn", "model.embedding=4", "model.hidden=4"],
    "lds": ["model=lds", "model.hidden=4", "model.iterations=1"],
    "hmm": ["model=hmm", "model.states=4", "model.iterations=1"],
    "cache": ["model=cache", "model.run=runs/ngram"],
}
TINY = dict.fromkeys(("hidden", "embedding", "dim", "classes"), 4) | {
    "states": 6,
    "clusters": 3,
    "features": 2,
    "order": 2,
}
TINY |= {"iterations": 1, "max_iterations": 1, "path": "texts/model.arpa", "runs": "[runs/ngram,runs/rnn]"}
TINY |= {"epochs": 1, "column": 2, "filters": 2, "min_count": 1}
TINY |= dict.fromkeys(("train", "valid", "test"), "texts/words.txt")
"""Values with which a run takes no time, for all models, corpora, methods and labellers that have such an option."""
LABELLED = {"classify": "texts/classes.txt", "trees": "texts/trees.txt", "upos": "texts/words.conllu"}
"""The files of tasks; of others, `texts/columns.txt`."""

TEXTS = {
    "words.txt": b"w1 w2 w3 w2 w1\nw3 w1\nw2\n" * 8,
    "empty.txt": b"",
    "blank.txt": b" \n\n",
    "line.txt": b"w1 w2\n",
    "no-end.txt": b"w1",
    "long.txt": b"w1 " * 3000,
    "unknown.txt": b"w1 never\n",
    "eos.txt": b"w1 <eos> w2\n",
    "latin-1.txt": b"na\xefve\n",
    "bom.txt": b"\xef\xbb\xbfw1\n",
    "null.txt": b"w1 \0 w2\n",
    "odd.txt": "w1\u2028w2\x85 \u3000\x1b[31m\r\n".encode(),
    "columns.txt": b"w1 D B-NP O\nw2 N I-NP B-X\n\nw3 V B-VP O\n\n" * 4,
    "ragged.txt": b"w1 D B-NP O\nw2 N\n",
    "schemes.txt": b"w1 D B-NP B_PER\nw2 N E-NP PER\n",
    "words.conllu": b"# x\n" + b"".join(b"%d\tw%d\tw\tX" % (i, i) + b"\t_" * 6 + b"\n" for i in (1, 2)) + b"\n",
    "classes.txt": b"a\tw1 w2\nb\tw3\n" * 4,
    "trees.txt": b"(1 (0 w1) (2 w2))\n(3 w1)\n" * 4,
    "documents.txt": b"d1\tw1 w2\nd2\tw3 w1 w1\n",
    "queries.txt": b"q1\tw1\nq2\tw3\n",
    "judged.txt": b"q1 0 d1 1\nq2 0 d2 1\n",
    "pairs.jsonl": b'{"sentence_good": "w1 w2", "sentence_bad": "w2 w1"}\n',
    "similar.txt": b"w1 w2 1\nw2 w3 2\nw1 w3 3\n",
    "analogies.txt": b": x\nw1 w2 w3 w4\n",
    "vectors.txt": b"2 2\nw1 1 2\nw2 3 4\n",
    "n-best.txt": b"1 ||| w1 w2 ||| 1\n1 ||| w2 ||| 2\n",
}
GOOD = {
    "inspect": {"run": "runs/hmm runs/lds"},
    "embed": {"run": "runs/lds"},
    "export": {"run": "runs/ngram runs/ppmi"},
    "map": {"run": "runs/ppmi", "words": "10", "perplexity": "3"},
    "tag": {"run": "runs/majority", "text": "texts/columns.txt"},
    "probe": {"vectors": "runs/ppmi", "sets": "texts/similar.txt", "analogies": "texts/analogies.txt"},
    "pairs": {"files": "texts/pairs.jsonl"},
    "rerank": {"text": "texts/n-best.txt"},
    "retrieve": {"documents": "texts/documents.txt", "queries": "texts/queries.txt", "qrels": "texts/judged.txt"}
    | {"prior": "uniform", "stop": "none", "stem": "none", "run": "new", "mu": "2"},
}
"""What a command reads that needs more than any run or text; one of several, which spaces part."""
OUTPUTS = ("out", "csv", "json", "plot")
BROKEN = {
    "empty": (),
    "no-weights": ("config.yaml", "vocabulary.txt"),
    "half": ("config.yaml", "best.pt"),
    "no-config": ("best.pt", "vocabulary.txt", "results.json"),
}
"""Folders of a part of a run's files."""

NUMBERS = "0 1 2 -1 +1 0.5 1.5 -0.1 1e308 -1e308 1e400 1e-320 inf -inf nan 1_0 0x10 ٣ １ 2147483648".split()  # noqa: SIM905
NUMBERS += [str(2**63), str(-(2**63) - 1), str(2**64), "9" * 4300, "9" * 4301, " 1"]
SIGNS = """null None true no [] [1,2] [null] [[0]] {} {a:1} [ ] } ? ??? *anchor &a !x !!python/name:os.system | > % @ `
    ' " 'a \\ # a,b a=b = ~ $ ${ ${x} ${seed} ${run_dir} ${oc.env:NOPE} ${run_name:1} ${x: - -- -x --nope glob(*)
    choice(1,2) choice( range(1,3) interval(0,1) int(3) float(x) sort(1,2) w1 <eos> <unk> cpu cuda:9 train valid lstm
    … naïve 語 🦙 é \u202e""".split()  # noqa: SIM905
SIGNS += ["", " ", "{a: b}", "{a: b", "w1 w2", "\t", "\n", "a\nb", "\x1b[31m", "\0", "a\0b", "\ud800", "\udcff"]
SIGNS += ["x" * 5000, "語" * 2000]
READ = [*(f"texts/{name}" for name in TEXTS), *(f"runs/{name}" for name in [*RUNS, *BROKEN])]
READ += """runs/ppmi runs/majority texts texts/words.txt/x texts/model.arpa runs runs/ngram/config.yaml
    runs/ngram/best.pt missing missing/deeper . .. / ~ new""".split()  # noqa: SIM905
DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem"]
"""To read; none is ever named as an output."""
FLAGS = """-m --multirun --cfg --cfg=job --cfg=all --info --info=plugins --resolve --package=x --config-name=nope
    --config-dir=texts --config-path=nope --version --help --hydra-help -x --nope=1 hydra.run.dir=new
    hydra.output_subdir=new hydra.mode=MULTIRUN hydra.mode=x hydra.job.chdir=true hydra/launcher=x hydra.verbose=true
    hydra.sweep.dir=new hydra.job.name=x""".split()  # noqa: SIM905
CLASHES = """
    model=lstm model.tied=true model.embedding=3
    model=lstm model.classes=1000
    model=vlhmm model.states=7
    model=vlhmm model.states=100 model.clusters=100
    model=lowrank_hmm model.block_features=true model.features=5
    model=twolevel_hmm model.parent=runs/hmm
    model=mixture model.runs=[runs/half]
    model=ngram trainer.precision=bfloat16
    model=ngram model.discount_fallback=false corpus.train=9
    model=loglinear model.templates=[c1]
    model=nnlm model.context=fading model.order=1
    model=lds corpus.train=2
    model=lstm run_dir=runs/hmm
    trainer.batch_size=1000
    corpus=text corpus.train=null
    corpus.context=sentence trainer.max_tokens=1
"""
"""Options that do not go together."""


@dataclass(frozen=True)
class CommandLine:
    """A command and its arguments. Files are named as they are called in the folder of `furnish`."""

    name: str
    arguments: tuple[str, ...]


def furnish(folder: Path) -> None:
    """Make the texts and runs, good and broken, that command lines name. Call it in that folder."""
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / name).write_bytes(text)
    for name, options in RUNS.items():
        assert command(*TEXT, *QUICK, *options, f"run_dir=runs/{name}").code == 0
    assert command(*TEXT, *_chosen("method", "ppmi"), "run_dir=runs/ppmi", main=vectors.main).code == 0
    assert command(*_chosen("task", "chunk"), "labeller=majority", "run_dir=runs/majority", main=label.main).code == 0
    for name, files in BROKEN.items():
        (folder / "runs" / name).mkdir()
        for file in files:
            (folder / "runs" / name / file).write_bytes((folder / "runs" / "ngram" / file).read_bytes())
    assert command("runs/ngram", "texts/model.arpa", main=export.main).code == 0


def command_lines(seed: int, training: float = 0.5) -> Iterator[CommandLine]:
    """Command lines without end, the same for the same seed. ``training`` is the share of the commands of Hydra."""
    draw = random.Random(seed)
    arguments = {name: list(parsed_arguments(main)) for name, main in MAINS.items() if name not in HYDRA}
    while True:
        if draw.random() < training:
            name = draw.choice(["train", *HYDRA])
            yield CommandLine(name, tuple({"train": _training, "vectors": _vectors, "label": _labels}[name](draw)))
        else:
            name = draw.choice(list(arguments))
            yield CommandLine(name, tuple(_reading(draw, name, arguments[name])))


def parsed_arguments(main: Callable[[], int]) -> Iterator[Action]:
    """What the parser of a command takes."""
    found = []

    def note(parser: CommandParser) -> None:
        found.extend(parser._actions)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        for way in ("parse_args", "parse_intermixed_args"):
            patch.setattr(CommandParser, way, note)
        main()  # pyright: ignore[reportCallIssue]
    return (action for action in found if action.dest != "help")


def _value(draw: random.Random, *likely: Sequence[str]) -> str:
    """Anything, more often one of the ``likely``."""
    return draw.choice(draw.choice([*likely, *likely, NUMBERS, SIGNS, READ]))


def _reading(draw: random.Random, name: str, actions: list[Action]) -> Iterator[str]:
    """The arguments of a command on a trained run: right ones, but for one or two of them."""
    wrong = draw.sample(range(len(actions)), k=min(len(actions), draw.choice([0, 1, 1, 1, 2])))
    for place, action in enumerate(actions):
        optional = bool(action.option_strings) or action.nargs == "?"
        if optional and not action.required and place not in wrong and draw.random() < 0.7:
            continue
        if place in wrong and draw.random() < 0.1:
            continue  # it is missing
        flag = action.option_strings[:1]
        if flag and place in wrong and draw.random() < 0.1:
            flag = [_misspelt(draw, flag[0])]
        yield from flag
        if action.nargs != 0:
            yield _bad(draw, action) if place in wrong else _good(draw, name, action)
    if draw.random() < 0.05:
        yield _value(draw)


def _good(draw: random.Random, name: str, action: Action) -> str:
    if value := GOOD.get(name, {}).get(action.dest):
        return draw.choice(value.split())
    if action.dest in ("run", "runs"):
        return f"runs/{draw.choice(list(RUNS))}"
    if action.type is Path and action.dest in ("file", *OUTPUTS):
        return "new"
    if action.choices is not None:
        return draw.choice([choice for choice in action.choices if choice not in ("ptb", "wikitext2")])
    if action.type not in (None, Path):
        return "2"
    return "cpu" if action.dest == "device" else "texts/words.txt" if action.dest == "text" else "w1"


def _bad(draw: random.Random, action: Action) -> str:
    if action.type is Path and action.dest not in OUTPUTS:
        return _value(draw, READ, DEVICES)
    return _value(draw, SIGNS if action.type in (None, Path) else NUMBERS)


def _training(draw: random.Random) -> Iterator[str]:
    """The arguments of the train command: a small run, and one or two mistakes."""
    if draw.random() < 0.1:
        yield from [*TEXT, *QUICK, *draw.choice(CLASHES.strip().splitlines()).split()]
        return
    chosen = {group: draw.choice(GROUPS[group]) for group in ("model", "optimizer", "schedule")}
    yield from [*(corpus := _text(draw)), *QUICK, *_chosen("model", chosen["model"])]
    yield from [f"{group}={choice}" for group, choice in chosen.items() if group != "model"]
    yield from _mistakes(draw, chosen | {"corpus": _name(corpus), "trainer": "default"}, ["deterministic", "device"])


def _vectors(draw: random.Random) -> Iterator[str]:
    """The arguments of the command for word vectors."""
    method = draw.choice(GROUPS["method"])
    yield from [*(corpus := _text(draw)), *_chosen("method", method)]
    yield from _mistakes(draw, {"method": method, "corpus": _name(corpus)})


def _labels(draw: random.Random) -> Iterator[str]:
    """The arguments of the command for labels."""
    task, labeller = (draw.choice(GROUPS[group]) for group in HYDRA["label"])
    yield from [*_chosen("task", task), *_chosen("labeller", labeller)]
    yield from _mistakes(draw, {"labeller": labeller, "task": task})


def _text(draw: random.Random) -> list[str]:
    corpus = draw.choice(["markov"] * 6 + GROUPS["corpus"])
    return TEXT if corpus == "markov" else _chosen("corpus", corpus)


def _name(chosen: list[str]) -> str:
    return chosen[0].partition("=")[2]


def _chosen(group: str, name: str) -> list[str]:
    """An entry of a group, with the options that `TINY` has. An option that is off stays off."""
    tiny: dict[str, Any] = TINY
    if group == "task":
        tiny = dict.fromkeys(("train", "valid", "test"), LABELLED.get(name, "texts/columns.txt"))
    given = {key for key, value in defaults(group, name).items() if value is not None or isinstance(tiny.get(key), str)}
    return [f"{group}={name}", *(f"{group}.{key}={value}" for key, value in tiny.items() if key in given)]


def _mistakes(draw: random.Random, chosen: dict[str, str], more: Sequence[str] = ()) -> Iterator[str]:
    """None to two mistakes in the options of the ``chosen`` entries and in those that have no group."""
    options = {group: list(defaults(group, name)) for group, name in chosen.items()}
    options[""] = ["seed", "run_dir", "checkpoint_seconds", *more]
    for _ in range(draw.choice([0, 1, 1, 1, 1, 1, 1, 2, 2])):
        yield _mistake(draw, options)


def _mistake(draw: random.Random, options: dict[str, list[str]]) -> str:
    """One argument that is likely to be wrong."""
    group = draw.choice([*options, *(["corpus"] * ("corpus" in options)), next(iter(options)), next(iter(options))])
    name = draw.choice(options[group])
    key = f"{group}.{name}" if group else name
    kind = draw.random()
    if kind < 0.6:
        return f"{key}={_value(draw, NUMBERS, DEVICES if group == 'corpus' else READ)}"
    if kind < 0.7:
        return f"{draw.choice(['', '+', '++'])}{_misspelt(draw, key)}={_value(draw)}"
    if kind < 0.75:
        sign, named, value = (
            draw.choice(["+", "++", "~"]),
            draw.choice([key, group or next(iter(options))]),
            draw.choice(["", "=1"]),
        )
        return f"{sign}{named}{value}"
    if kind < 0.85:
        return f"{draw.choice(list(GROUPS))}={_value(draw, GROUPS[draw.choice(list(GROUPS))])}"
    return draw.choice(FLAGS) if kind < 0.93 else _value(draw)


def _misspelt(draw: random.Random, name: str) -> str:
    """A name with one sign left out, doubled, or another."""
    place = draw.randrange(len(name))
    return name[:place] + draw.choice(["", name[place] * 2, draw.choice("aeiou.=é")]) + name[place + 1 :]
