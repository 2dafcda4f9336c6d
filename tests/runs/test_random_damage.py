"""Run folders damaged at random: refused in one line that names the file, or used without another figure."""

import json
import math
import os
import random
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from command_line import MODELS, QUICK, TEXT, Outcome, command

from lmzoo.commands import compare, embed, evaluate, generate, inspect, label, pairs, probe, score, tag, train, vectors
from lmzoo.commands import map as plane

MODELLED = {
    "lstm": MODELS["lstm"],
    "vlhmm": MODELS["vlhmm"],
    "lds": MODELS["lds"],
    "ngram": MODELS["ngram"],
    "mixture": ["model=mixture", "model.runs=[lstm,ngram]"],
    "cache": ["model=cache", "model.run=ngram"],
    "dynamic": ["model=dynamic", "model.run=lstm"],
}
FIRST = ("lstm", "vlhmm", "lds", "ngram")
WEIGHTS_FILES = {
    "ppmi": ["method=ppmi", "method.dim=4", "method.min_count=1"],
    "skipgram": ["method=skipgram", "method.dim=4", "method.min_count=1", "method.epochs=1"],
    "joined": ["method=joined", "method.runs=[ppmi,skipgram]", "method.weights=[1,2]", "method.min_count=1"],
}
LABELLED = {
    "majority": "task=chunk labeller=majority",
    "hmm_tagger": "task=pos labeller=hmm_tagger",
    "crf": "task=chunk labeller=crf labeller.iterations=3 labeller.vectors=ppmi",
    "perceptron": "task=chunk labeller=perceptron labeller.epochs=1",
    "birnn": "task=chunk labeller=birnn labeller.hidden=4 labeller.embedding=4 labeller.epochs=1 labeller.crf=true",
    "pool": "task=chunk labeller=pool labeller.runs=[crf,birnn]",
    "local": "task=chunk labeller=local labeller.encoder=lds labeller.epochs=1",
    "naive_bayes": "task=classify labeller=naive_bayes",
    "nbsvm": "task=classify labeller=nbsvm",
    "logistic_regression": "task=classify labeller=logistic_regression",
    "treelstm": "task=trees labeller=treelstm labeller.embedding=4 labeller.epochs=1",
}
TEXTS = {
    "text": "w1 w2 w3\nw4 w1\n",
    "pairs.jsonl": '{"sentence_good": "w1 w2", "sentence_bad": "w2 w1"}\n',
    "sets.txt": "w1 w2 1\nw2 w3 2\nw1 w3 3\nw4 w5 2\n",
    "chunk.txt": "w1 D B-NP\nw2 N I-NP\n\nw3 V B-VP\nw9 N B-NP\n\n",
    "classify.txt": "a\tw1 w2\nb\tw3\n",
    "trees.txt": "(1 (0 w1) (2 w2))\n(3 w1)\n",
}
FILES = ("config.yaml", "provenance.json", "results.json", "vocabulary.txt", "best.pt", "last.pt", "vectors.bin")
READERS = {".json": json.loads, ".yaml": yaml.safe_load, ".txt": lambda text: text.split("\n")}
WRITERS = {".json": json.dumps, ".yaml": yaml.safe_dump, ".txt": lambda lines: "\n".join(map(str, lines))}
VALUES = (None, 0, -1, 3, 10**30, 2**62, 1.5, math.nan, math.inf, "x", "", "a\0b", True, [], {}, [1], {"a": 1})
JUNK = (b"", bytes(1000), b"[[[[" * 500, b'{"a":' * 300, b"x: &a [*a]\n", b"\xff\xfe", b"null", b"<eos>\n" * 3)
CODE = b'a: !!python/object/apply:os.mkdir ["executed"]'
TENSORS = (
    torch.tensor(1.0),
    torch.zeros(0),
    torch.full((20,), 7),
    torch.full((20, 8), math.nan),
    torch.zeros(20, dtype=torch.complex64),
)


def places(tree: Any, above: tuple = ()) -> Iterator[tuple]:
    """The way to every node of dictionaries and sequences, the root left out."""
    if isinstance(tree, dict | list | tuple):
        for key, node in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield (*above, key)
            yield from places(node, (*above, key))


def at(tree: Any, place: Sequence) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def with_node(tree: Any, place: Sequence, change: Callable[[Any], Any]) -> Any:
    """The tree with one node changed."""
    if not place:
        return change(tree)
    if isinstance(tree, dict):
        return {key: with_node(node, place[1:], change) if key == place[0] else node for key, node in tree.items()}
    return type(tree)(with_node(node, place[1:], change) if i == place[0] else node for i, node in enumerate(tree))


def without(tree: Any, place: Sequence) -> Any:
    """The tree without one node."""
    *above, last = place
    if isinstance(at(tree, above), dict):
        return with_node(tree, above, lambda parent: {key: node for key, node in parent.items() if key != last})
    return with_node(tree, above, lambda parent: type(parent)(node for i, node in enumerate(parent) if i != last))


def another(value: Any, generator: random.Random) -> Any:
    """Something else in place of a value of a file."""
    if not isinstance(value, torch.Tensor) or generator.random() < 0.3:
        return generator.choice(VALUES)
    return generator.choice(
        [*TENSORS, value.double(), value.reshape(-1)[1:], value[None], value * 0 - 1, value * 0 + 10**6, value.int()]
    )


def reshape(file: Path, generator: random.Random) -> None:
    """Take away a node of what the file holds, or put another in its place. The checksum stays and is wrong now."""
    tree = torch.load(file, weights_only=True) if file.suffix == ".pt" else READERS[file.suffix](file.read_text())
    place = generator.choice(list(places(tree)))
    if generator.random() < 0.2:
        tree = without(tree, place)
    else:
        tree = with_node(tree, place, lambda node: another(node, generator))
    if file.suffix == ".pt":
        torch.save(tree, file)
    else:
        file.write_text(WRITERS[file.suffix](tree))


def flip(file: Path, generator: random.Random) -> None:
    """Turn over some bits."""
    data = bytearray(file.read_bytes())
    for _ in range(generator.choice([1, 3, 50])):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    file.write_bytes(data)


def cut(file: Path, generator: random.Random) -> None:
    """Keep a part of it."""
    file.write_bytes(file.read_bytes()[: generator.randrange(file.stat().st_size)])


def replace(file: Path, generator: random.Random) -> None:
    """Write something else, put another file or what is no file in its place, or nothing."""
    file.unlink()
    match generator.randrange(6):
        case 0:
            file.write_bytes(generator.choice([*JUNK, CODE]))
        case 1:
            others = [other for other in FILES if other != file.name and file.with_name(other).exists()]
            shutil.copy(file.with_name(generator.choice(others)), file)
        case 2:
            os.mkfifo(file)
        case 3:
            file.mkdir()
        case 4:
            file.symlink_to(generator.choice(["/dev/zero", "nowhere", "/proc/self/environ", file]))


def learn(names: Sequence[str]) -> None:
    """Make runs, each below those that it needs, and the texts that commands read in the current folder."""
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    for name in names:
        main, *arguments = learning(name)
        assert command(*arguments, main=main).code == 0, name


def learning(name: str) -> list[Any]:
    """The command that makes a run, and its arguments."""
    if name in MODELLED:
        return [train.main, *TEXT, *QUICK, *MODELLED[name], f"run_dir={name}"]
    if name in WEIGHTS_FILES:
        return [vectors.main, *TEXT, *WEIGHTS_FILES[name], f"run_dir={name}"]
    files = [f"task.{split}={labelled_text(name)}" for split in ("train", "test")]
    return [label.main, *LABELLED[name].split(), *files, "task.valid=null", f"run_dir={name}"]


def labelled_text(name: str) -> str:
    task = LABELLED[name].split()[0].partition("=")[2]
    return f"{'chunk' if task == 'pos' else task}.txt"


def verbs(name: str) -> dict[str, list[Any]]:
    """The commands that read a run. What the first prints may not change."""
    if name in MODELLED:
        return {
            "evaluate": [evaluate.main, name, "test"],
            "generate": [generate.main, name, "--tokens", "3"],
            "score": [score.main, name, "text"],
            "inspect": [inspect.main, name],
            "compare": [compare.main, name, "ngram"],
            "pairs": [pairs.main, name, "pairs.jsonl"],
            "embed": [embed.main, name, "text", "new.npy"],
        }
    if name in WEIGHTS_FILES:
        return {
            "probe": [probe.main, name, "--sets", "sets.txt"],
            "neighbours": [probe.main, name, "--neighbours", "w1"],
            "map": [plane.main, name, "--words", "10", "--perplexity", "2", "--out", "."],
            "compare": [compare.main, name, "ngram"],
        }
    return {
        "tag": [tag.main, name, labelled_text(name)],
        "compare": [compare.main, name],
    }


def complaint(outcome: Outcome) -> str:
    """What is wrong with the way in which a command ended, or nothing."""
    if "PATH=" in outcome.out + outcome.err:
        return f"shows the environment: {outcome}"
    lines = [line for line in outcome.err.splitlines() if "its training is not finished" not in line]
    if outcome.code == 0:
        return ""
    if outcome.code != 2 or len(lines) != 1 or not lines[0].startswith("error: ") or len(lines[0]) > 300:
        return f"is not refused in one short line: {outcome}"
    return ""


DAMAGES = (reshape, flip, cut, replace)


def check(folder: Path, names: Sequence[str], seeds: Sequence[int]) -> None:
    """Damage a run with each seed, one of ``names``, and call three commands on it."""
    with pytest.MonkeyPatch.context() as patch:
        (whole := folder / "whole").mkdir()
        patch.chdir(whole)
        learn(names)
        printed = {name: figures(command(*call[1:], main=call[0])) for name in names for call in [first(name)]}
    complaints, refused = [], 0
    for seed in seeds:
        generator = random.Random(seed)
        shutil.copytree(whole, folder / "here")
        name = generator.choice(list(names))
        run = folder / "here" / name
        damage, file = generator.choice(DAMAGES), run / generator.choice([f for f in FILES if (run / f).exists()])
        damage = flip if file.suffix == ".bin" else damage
        damage(file, generator)
        if generator.random() < 0.3 and (run / "results.json").is_file():
            (run / "results.json").unlink()  # so that training goes on
        commands = verbs(name) | {"learn": learning(name)}
        always, *others = commands
        for verb in (always, *generator.sample(sorted(others), 2)):
            main, *arguments = commands[verb]
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.chdir(folder / "here")
                    outcome = command(*arguments, main=main)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            else:
                refused += outcome.code != 0
                wrong = complaint(outcome)
                same = figures(outcome) == printed[name] or "so a file of the run was changed" in outcome.err
                if verb == always and outcome.code == 0 and not same:
                    wrong = f"prints another figure, not {printed[name]}: {outcome}"
            if wrong:
                complaints.append(f"seed {seed}, {damage.__name__} {file.name} of {name}: {verb} {wrong}")
        assert not (folder / "here" / "executed").exists()
        shutil.rmtree(folder / "here")
    assert not complaints, "\n\n".join([*complaints, f"{len(complaints)} of {len(seeds)}"])
    assert 0.3 < refused / (3 * len(seeds)) < 0.9


def figures(outcome: Outcome) -> str:
    """What a command prints, without how long it took."""
    return re.sub(r" in [\d.]+ s$", "", outcome.out, flags=re.M)


def first(name: str) -> list[Any]:
    return next(iter(verbs(name).values()))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_eight_damaged_runs(tmp_path: Path):
    check(tmp_path, FIRST, range(8))


@pytest.mark.slow
def test_400_damaged_runs(tmp_path: Path):
    check(tmp_path, FIRST, range(1000, 1400))


@pytest.mark.slow
def test_570_damaged_runs_of_every_kind(tmp_path: Path):
    check(tmp_path, [*MODELLED, *WEIGHTS_FILES, *LABELLED], range(2000, 2570))
