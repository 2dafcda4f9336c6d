"""Where users wait: each work beside its peer on one thread, CPU time and memory, in turns; rows of a CSV table.

    python scripts/benchmarks/waits.py FOLDER --kenlm kenlm/bin --english wiki.train.tokens
    python scripts/benchmarks/waits.py FOLDER --kenlm kenlm/bin --rows score dense --rounds 5

Every measurement is a process of its own. Of a whole command all CPU time counts, start included; of the others (see
waits_jobs.py) that of the work alone. Memory is the most that the process had, imports included; on Linux it is no less
than that of this program, which imports little. A ratio is that of one round, our time by the peer's. The floor is the
matrix products that the work cannot do without. FOLDER is made at the first call: a 5-gram of eight million drawn
tokens, 23 million n-grams, which KenLM reads as `build_binary probing` packs it, and ten million other tokens.

Peers are KenLM's programs, where there are any, and `pip install kenlm sentencepiece dynamax bm25s numba`. A row whose
peer is missing is left out, with a line that says so.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

JOBS = Path(__file__).with_name("waits_jobs.py")
LMZOO = [sys.executable, "-m", "lmzoo"]
RUNS = "outputs/*/*/"
NEW = "run_dir=new"
"""A run that each round makes anew."""
NEEDS = {"kenlm": ["kenlm"], "bm25s": ["bm25s", "numba"], "dynamax": ["jax", "dynamax"]}
"""The packages of a peer that is a job."""
SENTENCEPIECE = """
import sys, sentencepiece
kind, *texts = sys.argv[1:]
sentencepiece.SentencePieceTrainer.train(
    input=texts[0], model_prefix="pieces", model_type=kind, vocab_size=8000, byte_fallback=True, num_threads=1,
    normalization_rule_name="identity", split_by_unicode_script=False, split_by_number=False, minloglevel=2,
)
pieces = sentencepiece.SentencePieceProcessor(model_file="pieces.model")
for text in texts:
    for line in open(text, encoding="utf-8"):
        pieces.encode(line)
"""
Command = Sequence[str | Path]


class Row(NamedTuple):
    """A work. ``factor`` makes its seconds the unit; ``floor`` is a third command.

    ``places`` are the folders in which the first two run, where new runs are removed; None is a new folder each time.
    """

    work: str
    unit: str
    factor: float
    ours: Command
    peer: Command | None
    asked: str
    floor: Command | None = None
    text: Path | None = None
    places: tuple[Path | None, Path | None] = (None, None)


def job(name: str, *arguments: str) -> Command:
    return [sys.executable, JOBS, name, *arguments]


def missing(row: Row) -> str | None:
    """What the peer of a row needs and is not installed, if anything."""
    if not row.peer:
        return None
    packages = NEEDS.get(str(row.peer[2]), []) if JOBS in row.peer else []
    packages = ["sentencepiece"] if SENTENCEPIECE in row.peer else packages
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    program = None if shutil.which(row.peer[0]) else str(row.peer[0])
    text = next((str(part) for part in row.peer if isinstance(part, Path) and not part.exists()), None)
    return next(iter(absent), program or text)


def measured(command: Command, text: Path | None = None, place: Path | None = None) -> np.ndarray:
    """Seconds of CPU time of a command or of the job in it, and the most MiB that it took."""
    own, there = JOBS in command, {*place.glob(RUNS)} if place else set()
    output = subprocess.PIPE if own else subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as elsewhere, (text or Path(os.devnull)).open() as stream:
        options = {"stdin": stream, "stdout": output, "stderr": subprocess.PIPE, "cwd": place or elsewhere}
        with subprocess.Popen(command, **options) as process:
            printed = process.stdout.read() if process.stdout else b""
            errors = process.stderr.read() if process.stderr else b""
            _, status, used = os.wait4(process.pid, 0)
    for run in {*place.glob(RUNS)} - there if place else ():
        shutil.rmtree(run)
    if status:
        raise SystemExit(f"{command} failed: {errors.decode()[-2000:]}")
    return np.array([float(printed) if own else used.ru_utime + used.ru_stime, used.ru_maxrss / 1024])


def line(row: Row, rounds: int) -> list[str]:
    """The cells of a row of the table."""
    taken = []
    for _ in range(rounds):
        ours = measured(row.ours, row.text, row.places[0])
        peer = measured(row.peer, row.text, row.places[1]) if row.peer else np.full(2, np.nan)
        floor = measured(row.floor) if row.floor else np.full(2, np.nan)
        taken.append([*ours, *peer, *floor])
    values = np.array(taken)
    seconds, mib, peer, peer_mib, _, _ = np.median(values, axis=0)
    ratios, shares = values[:, 0] / values[:, 2], values[:, 4] / values[:, 0]
    spread = ratios if row.peer else shares
    figures = [f"{seconds * row.factor:.3g}", f"{peer * row.factor:.3g}", f"{np.median(ratios):.2f}"]
    figures += [
        f"{spread.min():.2f} to {spread.max():.2f}",
        f"{np.median(shares):.2f}",
        f"{mib:.0f}",
        f"{peer_mib:.0f}",
    ]
    return [row.work, row.unit, *("" if "nan" in figure else figure for figure in figures), row.asked]


def prepare(folder: Path, kenlm: Path) -> None:
    """The texts, the 5-gram for both programs, and folders of no, of 400 and of 50 runs."""
    folder.mkdir(parents=True)
    for name, tokens, seed in (("train", 8_000_000, 0), ("10", 10_000_000, 1), ("1", 1_000_000, 2)):
        script = f"from waits_jobs import write; write({str(folder / name)!r}, {tokens}, {seed})"
        subprocess.run([sys.executable, "-c", script], check=True, cwd=JOBS.parent)
    (folder / "line").write_text((folder / "10").read_text().replace("\n", " ") + "\n")
    subprocess.run([*LMZOO, "train", "model=ngram", *estimate(folder), f"run_dir={folder / 'run'}"], check=True)
    subprocess.run([*LMZOO, "export", folder / "run", folder / "arpa"], check=True)
    if shutil.which(kenlm / "build_binary"):
        subprocess.run([kenlm / "build_binary", "probing", folder / "arpa", folder / "binary"], check=True)
    for others in (0, 400):
        place = folder / f"beside-{others}"
        place.mkdir()
        subprocess.run([*LMZOO, "train", "model=ngram"], check=True, cwd=place)
        (first,) = place.glob(RUNS)
        config = (first / "config.yaml").read_text()
        for seed in range(1, others + 1):
            (other := first.with_name(f"ngram-{seed}")).mkdir()
            (other / "config.yaml").write_text(config.replace("seed: 0", f"seed: {seed + 1000}"))
    (folder / "finished").mkdir()
    subprocess.run(sweep("5", FIFTY), check=True, cwd=folder / "finished")


FIFTY = f"seed={','.join(map(str, range(50)))}"


def estimate(folder: Path) -> list[str]:
    """The options of a 5-gram of the text."""
    files = [f"corpus.{split}={folder / name}" for split, name in (("train", "train"), ("valid", "1"))]
    return ["model.order=5", "corpus=text", *files, "corpus.unknown=true", "corpus.context=sentence"]


def sweep(orders: str, seeds: str) -> Command:
    return [*LMZOO, "train", "-m", "model=ngram", f"model.order={orders}", seeds]


def commands(folder: Path, kenlm: Path, english: Path) -> dict[str, list[Row]]:
    """The rows that are whole commands."""
    run, arpa, train = folder / "run", folder / "arpa", [*LMZOO, "train", "model=ngram", NEW]

    def beside_query(ours: str, printed: str, *asked: str) -> list[Row]:
        """Of 10 and of 1 million tokens."""
        command, query = ours.split(), [kenlm / "query", "-v", printed, folder / "binary"]
        return [
            Row(f"`{ours}`, {million} million tokens, 5-gram; `query`", "s", 1,
                [*LMZOO, command[0], run, folder / million, *command[1:]], query, goal, text=folder / million)
            for million, goal in zip(("10", "1"), asked, strict=True)
        ]  # fmt: skip

    def subwords(kind: str) -> Row:
        ours = ["env", "LMZOO_CACHE=cache", *train, "model.order=1", "corpus=text", f"corpus.unit={kind}"]
        ours += [f"corpus.train={english}", f"corpus.valid={folder / '1'}"]
        peer = [sys.executable, "-c", SENTENCEPIECE, kind, english, folder / "1"]
        return Row(f"`corpus.unit={kind}`, whole command; SentencePiece", "s", 1, ours, peer, "1.5")

    lmplz = [kenlm / "lmplz", "-o5", "-S4G", "--discount_fallback", "--arpa", "arpa", "--text", folder / "train"]
    read = [*LMZOO, "train", "model=arpa", f"model.path={arpa}", *estimate(folder)[1:], NEW]
    binary = [kenlm / "build_binary", "probing", arpa, "binary"]
    line, lines = ([*LMZOO, "score", run, folder / text, "--sums"] for text in ("line", "10"))
    four, imports = sweep("1,2,3,4", "seed=5"), [sys.executable, "-c", "import torch"]
    return {
        "start": [Row("`lmzoo train` of an n-gram; `import torch`", "s", 1, train, imports, "")],
        "evaluate": beside_query("evaluate", "summary", "1.4", "fixed cost 1.15 s"),
        "score": [
            *beside_query("score", "word", "1.7", "fixed cost 1.15 s"),
            *beside_query("score --sums", "sentence", "1.5", "fixed cost 1.15 s"),
        ],
        "line": [Row("`score --sums`, 10 million words in a line; in lines", "s", 1, line, lines, "1,100 MiB")],
        "arpa": [
            Row("`model=arpa` of 23 million n-grams; `build_binary`", "s", 1, read, binary, "20 s, 1,200 MiB"),
            Row("`export` of them", "s", 1, [*LMZOO, "export", run, "arpa"], None, "18 s, 1,000 MiB"),
        ],
        "train": [Row("`train`, 5-gram of 8 million tokens; `lmplz`", "s", 1, [*train, *estimate(folder)], lmplz, "")],
        "sweep": [
            Row("sweep of 4 runs beside 400; beside none", "s", 1, four, four, "1",
                places=(folder / "beside-400", folder / "beside-0")),
            Row("sweep of 50 runs again", "s", 1, sweep("5", FIFTY), None, "3 s", places=(folder / "finished", None)),
        ],
        "subwords": [subwords("bpe"), subwords("unigram")],
    }  # fmt: skip


def jobs(folder: Path) -> dict[str, list[Row]]:
    """The rows that are the work alone."""

    def row(work: str, unit: str, factor: float, name: str, peer: str | None, asked: str, floor: str | None = None,
            arguments: Sequence[str] = ()) -> Row:  # fmt: skip
        others = (job(other, *arguments) if other else None for other in (peer, floor))
        return Row(work, unit, factor, job(name, *arguments), next(others), asked, next(others))

    return {
        "surprisal": [
            row(f"`surprisal` of sentences, 5-gram, {how}; kenlm", "µs a sentence", 1e6, "surprisal", "kenlm", asked,
                arguments=[str(folder), how])
            for how, asked in (("one by one", "200 µs"), ("in a list", "2"))
        ] + [
            row(f"`surprisal` of sentences, LSTM, {how}; plain loop", "µs a sentence", 1e6, "network", "plain", asked,
                arguments=[how])
            for how, asked in (("one by one", "1.1"), ("in a list", "0.5"))
        ],
        "sample": [
            row(f"LSTM draws {texts}; plain loop", "ms a token", 1000, "sample", "loop", asked, arguments=[texts])
            for texts, asked in (("1 text", "1"), ("64 texts", "0.5"))
        ],
        "encode": [row("encoding, ever new words; plain loop", "µs a token", 1e6, "encode", "dictionary", "0.25 µs")],
        "retrieve": [row("ranking 140,000 texts; bm25s with numba", "ms a query", 1000, "retrieve", "bm25s", "1.5")],
        "products": [
            row(f"`{family}`, 2^14 states, {precision}", "µs a token", 1e6, "family", None, f"share {asked}",
                "products", [family, precision])
            for precision, asked in (("float32", "0.75"), ("bfloat16", "0.6")) for family in ("vlhmm", "twolevel_hmm")
        ],
        "dense": [
            row(f"dense HMM of {states} states, gradient; dynamax", "µs a token", 1e6, "hmm", "dynamax", "1", "dense",
                [states])
            for states in ("128", "256", "512", "1024")
        ],
        "lstm": [row("LSTM, perplexity of a text; PyTorch's example", "µs a token", 1e6, "perplexity", "example", "1")],
        "estimate": [
            row(f"5-gram of {millions} million tokens from numbers", "µs a token", 1e6, "estimate", None,
                "0.8 µs" if millions == "28" else "", arguments=[millions])
            for millions in ("1", "9", "28")
        ],
    }  # fmt: skip


def disk(folder: Path) -> list[str]:
    """What a finished run of the 5-gram takes, beside its weights."""
    weights = (folder / "run" / "best.pt").stat().st_size / 1e6
    whole = sum(file.stat().st_size for file in (folder / "run").iterdir()) / 1e6
    return [
        "a finished run; its weights",
        "MB",
        f"{whole:.1f}",
        f"{weights:.1f}",
        f"{weights / whole:.2f}",
        *[""] * 4,
        "1",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kenlm", type=Path, default="kenlm/bin", help="of query, lmplz and build_binary, if any")
    parser.add_argument("--english", type=Path, default="english.txt", help="a text that is cut into subwords, if any")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="all of them if not given")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "LMZOO_CACHE": str(arguments.folder.absolute() / "cache")}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program compiles all that it imports, in seconds
    folder, kenlm = arguments.folder.absolute(), arguments.kenlm.absolute()
    if not folder.exists():
        try:
            prepare(folder, kenlm)
        except BaseException:
            shutil.rmtree(folder)
            raise
    print("work,unit,ours,peer,ours / peer,least to most,share of the floor,MiB,peer's MiB,asked")
    known = commands(folder, kenlm, arguments.english.absolute()) | jobs(folder)
    for name in arguments.rows or ["disk", *known]:
        for row in known.get(name, []):
            if what := missing(row):
                print(f"{row.work}: left out, as {what} is missing", file=sys.stderr)
            else:
                write(line(row, arguments.rounds))
        if name == "disk":
            write(disk(folder))


def write(cells: list[str]) -> None:
    print(",".join(f'"{cell}"' if "," in cell else cell for cell in cells), flush=True)


if __name__ == "__main__":
    main()
