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

from lmzoo import compare, evaluate, generate, inspect, score, train

RUNS = {
    "lstm": [*TEXT, *QUICK, *MODELS["lstm"]],
    "vlhmm": [*TEXT, *QUICK, *MODELS["vlhmm"]],
    "lds": [*TEXT, *QUICK, *MODELS["lds"]],
    "ngram": [*TEXT, *QUICK, *MODELS["ngram"]],
}
FILES = ("config.yaml", "provenance.json", "results.json", "vocabulary.txt", "best.pt", "last.pt")
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
    torch.zeros(1).expand(10**9),
    torch.zeros(5, device="meta"),
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
    """Take away a node of what the file holds, or put another in its place."""
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
            others = [other for other in FILES if other != file.name]
            shutil.copy(file.with_name(generator.choice(others)), file)
        case 2:
            os.mkfifo(file)
        case 3:
            file.mkdir()
        case 4:
            file.symlink_to(generator.choice(["/dev/zero", "nowhere", "/proc/self/environ", file]))


DAMAGES = (reshape, reshape, reshape, flip, cut, replace)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each of `RUNS`, and a text in their words."""
    folder = tmp_path_factory.mktemp("runs")
    for name, arguments in RUNS.items():
        assert command(*arguments, f"run_dir={folder / name}").code == 0
    (folder / "text").write_text("w1 w2 w3\nw4 w1\n")
    return folder


def perplexity(outcome: Outcome) -> str:
    return re.findall(r"perplexity (\S+) over", outcome.out)[0]


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


def check(runs: Path, folder: Path, seeds: Sequence[int]) -> None:
    """Damage a copy of a run with each seed, and call three commands on it."""
    figures = {name: perplexity(command(str(runs / name), "test", main=evaluate.main)) for name in RUNS}
    complaints, refused = [], 0
    for seed in seeds:
        generator = random.Random(seed)
        name = generator.choice(list(RUNS))
        run = shutil.copytree(runs / name, folder / "run")
        damage, file = generator.choice(DAMAGES), run / generator.choice([f for f in FILES if (run / f).exists()])
        damage(file, generator)
        if generator.random() < 0.3 and (run / "results.json").is_file():
            (run / "results.json").unlink()  # so that training goes on
        commands = {
            "train": (train.main, *RUNS[name], f"run_dir={run}"),
            "evaluate": (evaluate.main, str(run), "test"),
            "generate": (generate.main, str(run), "--tokens", "3"),
            "score": (score.main, str(run), str(runs / "text")),
            "inspect": (inspect.main, str(run)),
            "compare": (compare.main, str(run), str(runs / "ngram")),
        }
        for verb in ("evaluate", *generator.sample(sorted(set(commands) - {"evaluate"}), 2)):
            main, *arguments = commands[verb]
            try:
                outcome = command(*arguments, main=main)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            else:
                refused += outcome.code != 0
                wrong = complaint(outcome)
                if verb == "evaluate" and outcome.code == 0 and perplexity(outcome) != figures[name]:
                    wrong = f"has another figure, not {figures[name]}: {outcome}"
            if wrong:
                complaints.append(f"seed {seed}, {damage.__name__} {file.name} of {name}: {verb} {wrong}")
        shutil.rmtree(folder / "run")
        assert not (folder / "executed").exists()
    assert not complaints, "\n\n".join([*complaints, f"{len(complaints)} of {len(seeds)}"])
    assert 0.3 < refused / (3 * len(seeds)) < 0.9


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_twelve_damaged_runs(runs: Path, tmp_path: Path):
    check(runs, tmp_path, range(12))


@pytest.mark.slow
def test_400_damaged_runs(runs: Path, tmp_path: Path):
    check(runs, tmp_path, range(1000, 1400))
