"""Where users wait: each work beside its peer on one thread, CPU time and memory, in turns; rows of a CSV table.

    python scripts/benchmarks/waits.py FOLDER --kenlm kenlm/bin
    python scripts/benchmarks/waits.py FOLDER --kenlm kenlm/bin --rows score dense --rounds 5

Every measurement is a process of its own. Of a whole command all CPU time counts, start included; of the others (see
waits_jobs.py) that of the work alone. Memory is the most that the process had, imports included; on Linux it is no less
than that of this program, which imports little. A ratio is that of one round, the peer's time by ours. The floor is the
matrix products that the work cannot do without. FOLDER is made at the first call: a 5-gram of eight million drawn
tokens, 23 million n-grams, which KenLM reads as `build_binary probing` packs it, and ten million other tokens.

Needs `pip install dynamax bm25s` beside KenLM; bm25s sorts with JAX, which dynamax brings.
"""

import argparse
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
LMZOO = Path(sys.executable).with_name("lmzoo")
RUNS = "outputs/*/*/"
NEW = "run_dir=new"
"""A run that each round makes anew."""
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
    ratios, shares = values[:, 2] / values[:, 0], values[:, 4] / values[:, 0]
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
    """The texts, the 5-gram for both programs, and folders of no and of 400 runs."""
    folder.mkdir(parents=True)
    for name, tokens, seed in (("train", 8_000_000, 0), ("10", 10_000_000, 1), ("1", 1_000_000, 2)):
        script = f"from waits_jobs import write; write({str(folder / name)!r}, {tokens}, {seed})"
        subprocess.run([sys.executable, "-c", script], check=True, cwd=JOBS.parent)
    files = [f"corpus.{split}={folder / name}" for split, name in (("train", "train"), ("valid", "1"))]
    options = ["model=ngram", "model.order=5", "corpus=text", *files, "corpus.unknown=true", "corpus.context=sentence"]
    subprocess.run([LMZOO, "train", *options, f"run_dir={folder / 'run'}"], check=True)
    subprocess.run([LMZOO, "export", folder / "run", folder / "arpa"], check=True)
    subprocess.run([kenlm / "build_binary", "probing", folder / "arpa", folder / "binary"], check=True)
    for others in (0, 400):
        place = folder / f"beside-{others}"
        place.mkdir()
        subprocess.run([LMZOO, "train", "model=ngram"], check=True, cwd=place)
        (first,) = place.glob(RUNS)
        config = (first / "config.yaml").read_text()
        for seed in range(1, others + 1):
            (other := first.with_name(f"ngram-{seed}")).mkdir()
            (other / "config.yaml").write_text(config.replace("seed: 0", f"seed: {seed + 1000}"))


def commands(folder: Path, kenlm: Path) -> dict[str, list[Row]]:
    """The rows that are whole commands."""
    run, query = folder / "run", [kenlm / "query", "-v"]

    def beside_query(work: str, ours: list[str], printed: str, asked: str, million: int = 10) -> Row:
        text = folder / f"{million}"
        command = [LMZOO, ours[0], run, text, *ours[1:]]
        name = f"{work}, {million} million tokens, 5-gram; `query`"
        return Row(name, "s", 1, command, [*query, printed, folder / "binary"], asked, text=text)

    sweep = [LMZOO, "train", "-m", "model=ngram", "model.order=1,2,3,4", "seed=5"]
    train = [LMZOO, "train", "model=ngram", NEW]
    lmplz = [kenlm / "lmplz", "-o5", "-S4G", "--discount_fallback", "--arpa", "arpa", "--text", folder / "train"]
    estimate = ["model.order=5", "corpus=text", f"corpus.train={folder / 'train'}", f"corpus.valid={folder / '1'}"]
    imports = [sys.executable, "-c", "import torch"]
    return {
        "start": [Row("`lmzoo train` of an n-gram; `import torch`", "s", 1, train, imports, "no compiler")],
        "evaluate": [beside_query("`evaluate`", ["evaluate"], "summary", "0.67; 1,229 MiB")],
        "score": [
            beside_query("`score`", ["score"], "word", "0.5"),
            beside_query("`score`", ["score"], "word", "0.5", 1),
            beside_query("`score --sums`", ["score", "--sums"], "sentence", "0.67"),
            beside_query("`score --sums`", ["score", "--sums"], "sentence", "0.67", 1),
        ],
        "train": [Row("`lmzoo train`, 5-gram of 8 million tokens; `lmplz`", "s", 1,
                      [*train, *estimate, "corpus.unknown=true", "corpus.context=sentence"], lmplz, "")],
        "sweep": [Row("sweep of 4 runs beside 400; beside none", "s", 1, sweep, sweep, "1",
                      places=(folder / "beside-400", folder / "beside-0"))],
    }  # fmt: skip


def jobs() -> dict[str, list[Row]]:
    """The rows that are the work alone."""

    def row(work: str, unit: str, factor: float, name: str, peer: str | None, asked: str, floor: str | None = None,
            arguments: Sequence[str] = ()) -> Row:  # fmt: skip
        others = (job(other, *arguments) if other else None for other in (peer, floor))
        return Row(work, unit, factor, job(name, *arguments), next(others), asked, next(others))

    return {
        "sample": [
            row(f"LSTM draws {texts}; plain loop", "ms a token", 1000, "sample", "loop", asked, arguments=[texts])
            for texts, asked in (("1 text", "1"), ("64 texts", "2"))
        ],
        "encode": [row("encoding, ever new words; plain loop", "µs a token", 1e6, "encode", "dictionary", "0.25 µs")],
        "retrieve": [row("ranking 140,000 documents; bm25s with JAX", "ms a query", 1000, "retrieve", "bm25s", "3 ms")],
        "products": [
            row(f"`{family}`, 2^14 states, {precision}", "µs a token", 1e6, "family", None, f"share {asked}",
                "products", [family, precision])
            for precision, asked in (("float32", "0.75"), ("bfloat16", "0.6")) for family in ("vlhmm", "twolevel_hmm")
        ],
        "dense": [
            row(f"dense HMM of {states} states, gradient; dynamax", "µs a token", 1e6, "hmm", "dynamax", "1", "dense",
                [states])
            for states in ("128", "256")
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
    parser.add_argument("--kenlm", type=Path, required=True, help="the folder of KenLM's query, lmplz and build_binary")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="all of them if not given")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "LMZOO_CACHE": str(arguments.folder.absolute() / "cache")}
    folder, kenlm = arguments.folder.absolute(), arguments.kenlm.absolute()
    if not folder.exists():
        try:
            prepare(folder, kenlm)
        except BaseException:
            shutil.rmtree(folder)
            raise
    print("work,unit,ours,peer,× as fast,least to most,share of the floor,MiB,peer's MiB,asked")
    known: dict[str, list[Row]] = commands(folder, kenlm) | jobs()
    for name in arguments.rows or ["disk", *known]:
        for cells in [disk(folder)] if name == "disk" else (line(row, arguments.rounds) for row in known[name]):
            print(",".join(f'"{cell}"' if "," in cell else cell for cell in cells), flush=True)


if __name__ == "__main__":
    main()
