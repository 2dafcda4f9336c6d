"""Command lines drawn at random, most of them with mistakes, and the folder of runs and texts that they name."""

import contextlib
import importlib
import random
from argparse import Action
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import QUICK, ROOT, TEXT, command

from lmzoo import export_arpa
from lmzoo.cli.command import CommandParser
from lmzoo.core.configs import CONFIGS, defaults

NAMES = sorted(path.stem for path in (ROOT / "lmzoo").glob("*.py") if path.stem not in ("__init__", "__main__", "api"))
MAINS: dict[str, Callable[[], int]] = {
    name: importlib.import_module(f"lmzoo.{name}").main for name in NAMES if name not in ("vectors", "label")
}
"""Every command; of those that Hydra starts, which have no parser of their own, only the first."""
GROUPS = {
    group: sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))
    for group in ("model", "corpus", "optimizer", "schedule", "trainer", "experiment")
}
RUNS = {
    "ngram": ["model=ngram", "model.order=2"],
    "rnn": ["model=rnn", "model.embedding=4", "model.hidden=4"],
    "lds": ["model=lds", "model.hidden=4", "model.iterations=1"],
    "hmm": ["model=hmm", "model.states=4", "model.iterations=1"],
}
TINY = dict.fromkeys(("hidden", "embedding", "dim", "classes"), 4) | {
    "states": 6,
    "clusters": 3,
    "features": 2,
    "order": 2,
}
TINY |= {"iterations": 1, "max_iterations": 1, "path": "texts/model.arpa", "runs": "[runs/ngram,runs/rnn]"}
TINY |= dict.fromkeys(("train", "valid", "test"), "texts/words.txt")
"""Values with which a run takes no time, for all models and corpora that have such an option."""

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
}
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
READ += """texts texts/words.txt/x texts/model.arpa runs runs/ngram/config.yaml runs/ngram/best.pt missing
    missing/deeper . .. / ~ new""".split()  # noqa: SIM905
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
    for name, files in BROKEN.items():
        (folder / "runs" / name).mkdir()
        for file in files:
            (folder / "runs" / name / file).write_bytes((folder / "runs" / "ngram" / file).read_bytes())
    assert command("runs/ngram", "texts/model.arpa", main=export_arpa.main).code == 0


def command_lines(seed: int, training: float = 0.5) -> Iterator[CommandLine]:
    """Command lines without end, the same for the same seed. ``training`` is the share of the train command."""
    draw = random.Random(seed)
    arguments = {name: list(parsed_arguments(main)) for name, main in MAINS.items() if name != "train"}
    while True:
        if draw.random() < training:
            yield CommandLine("train", tuple(_training(draw)))
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
        patch.setattr(CommandParser, "parse_args", note)
        main()
    return (action for action in found if action.dest != "help")


def _value(draw: random.Random, *likely: list[str]) -> str:
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
    kind = {"inspect": "hmm", "embed": "lds", "transitions": "lds", "export_arpa": "ngram"}
    if action.dest == "run":
        return f"runs/{kind.get(name) or draw.choice(list(RUNS))}"
    if action.dest in ("out", "file"):
        return "new"
    if action.choices is not None:
        return draw.choice([choice for choice in action.choices if choice not in ("ptb", "wikitext2")])
    if action.type in (int, float):
        return "2"
    return "cpu" if action.dest == "device" else "texts/words.txt" if action.dest == "text" else "w1"


def _bad(draw: random.Random, action: Action) -> str:
    if action.dest in ("run", "text"):
        return _value(draw, READ, DEVICES)
    return _value(draw, NUMBERS if action.type in (int, float) else SIGNS)


def _training(draw: random.Random) -> Iterator[str]:
    """The arguments of the train command: a small run, and one or two mistakes."""
    if draw.random() < 0.1:
        yield from [*_text(draw, "markov"), *QUICK, *draw.choice(CLASHES.strip().splitlines()).split()]
        return
    chosen = {group: draw.choice(GROUPS[group]) for group in ("model", "optimizer", "schedule")}
    chosen["corpus"] = corpus = draw.choice(["markov"] * 6 + GROUPS["corpus"])
    options: dict[str, Any] = {group: defaults(group, choice) for group, choice in chosen.items()}
    options |= {"": ["seed", "device", "deterministic", "run_dir"], "trainer": defaults("trainer", "default")}
    yield from _text(draw, corpus)
    yield from QUICK
    yield from _tiny("model", chosen["model"])
    yield from [f"{group}={choice}" for group, choice in chosen.items() if group != "corpus"]
    for _ in range(draw.choice([0, 1, 1, 1, 1, 1, 1, 2, 2])):
        yield _mistake(draw, options)


def _text(draw: random.Random, corpus: str) -> list[str]:
    return TEXT if corpus == "markov" else [f"corpus={corpus}", *_tiny("corpus", corpus)]


def _tiny(group: str, name: str) -> list[str]:
    """The options of a model or a corpus that `TINY` has. An option that is off stays off."""
    given = {key for key, value in defaults(group, name).items() if value is not None or isinstance(TINY.get(key), str)}
    return [f"{group}.{key}={value}" for key, value in TINY.items() if key in given]


def _mistake(draw: random.Random, options: dict[str, Any]) -> str:
    """One argument of the train command that is likely to be wrong."""
    group = draw.choice(["", "trainer", "corpus", "corpus", "model", "model", "model", "optimizer", "schedule"])
    name = draw.choice(list(options[group]))
    key = f"{group}.{name}" if group else name
    kind = draw.random()
    if kind < 0.6:
        return f"{key}={_value(draw, NUMBERS, DEVICES if group == 'corpus' else READ)}"
    if kind < 0.7:
        return f"{draw.choice(['', '+', '++'])}{_misspelt(draw, key)}={_value(draw)}"
    if kind < 0.75:
        sign, named, value = (
            draw.choice(["+", "++", "~"]),
            draw.choice([key, group or "model"]),
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
