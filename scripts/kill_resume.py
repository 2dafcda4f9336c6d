"""Kill a training run with SIGKILL at random moments, resume it each time, and compare it with one left in peace.

    python scripts/kill_resume.py lstm vlhmm --kills 10

Final weights, optimizer, random numbers and perplexity must be the same bit for bit.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
TEXT = ["corpus=markov", "corpus.train=20000", "corpus.valid=1000", "corpus.test=1000", "device=cpu"]
MODELS = {
    "lstm": ["model=lstm", "model.embedding=64", "model.hidden=64", "trainer.epochs=20"],
    "vlhmm": ["model=vlhmm", "model.states=512", "model.clusters=32", "model.dim=32", "trainer.epochs=12"],
}
STARTING = 0.2
"""The share of kills that come before training does."""


def start(run_dir: Path, options: list[str]) -> subprocess.Popen:
    """``python -m lmzoo.train`` in the background; the first line it prints says that training begins."""
    words = [sys.executable, "-m", "lmzoo.train", *options, f"run_dir={run_dir}", "trainer.checkpoint_seconds=0.05"]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def wait_for_training(process: subprocess.Popen) -> None:
    assert process.stdout
    assert process.stdout.readline(), "the command ended before training began"


def finish(run_dir: Path, options: list[str]) -> dict[str, Any]:
    """Run to the end and return the results."""
    process = start(run_dir, options)
    process.communicate()
    assert process.returncode == 0, f"exit code {process.returncode}"
    return json.loads((run_dir / "results.json").read_text())


def read(checkpoint: Path) -> dict[str, Any]:
    return torch.load(checkpoint, weights_only=True) if checkpoint.exists() else {"progress": {"step": 0}}


def differences(a: Any, b: Any, name: str) -> list[str]:
    """Names of what differs in a single bit between two checkpoints; times may."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [key for key in a.keys() | b.keys() if not str(key).endswith("seconds")]
        return [d for key in keys for d in differences(a.get(key), b.get(key), f"{name} {key}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{name} {i}")]
    equal = torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b
    return [] if equal else [name]


def kill_and_resume(options: list[str], kills: int, folder: Path, seed: int = 0) -> list[str]:
    """Train twice below ``folder``, in peace and with kills; the names of what differs in the end."""
    moments = random.Random(seed)
    started = time.monotonic()
    peace = finish(folder / "peace", options)
    starting = time.monotonic() - started - peace["seconds"]
    print(
        f"in peace: {peace['seconds']:.1f} s of training, test perplexity {peace['perplexity']['test']!r}", flush=True
    )
    for number in range(1, kills + 1):
        process = start(folder / "killed", options)
        if early := moments.random() < STARTING:
            time.sleep(moments.uniform(0, starting))
        else:
            wait_for_training(process)
            time.sleep(moments.uniform(0, peace["seconds"] / kills))
        process.kill()
        process.communicate()
        assert process.returncode == -9, f"exit code {process.returncode}: the run was over before the kill"
        step = read(folder / "killed" / "last.pt")["progress"]["step"]
        print(f"kill {number}{' while starting' if early else ''}: step {step} is saved", flush=True)
    killed = finish(folder / "killed", options)
    print(f"killed {kills} times: test perplexity {killed['perplexity']['test']!r}", flush=True)
    found = differences(peace["perplexity"], killed["perplexity"], "perplexity")
    for name in ("last.pt", "best.pt"):
        a, b = (read(folder / run / name) for run in ("peace", "killed"))
        found += [d for part in a.keys() - {"config"} for d in differences(a[part], b[part], f"{name} {part}")]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    failures = []
    for model in arguments.models:
        print(f"{model}:")
        with tempfile.TemporaryDirectory() as folder:
            failures += kill_and_resume(TEXT + MODELS[model], arguments.kills, Path(folder), arguments.seed)
    print(f"differ: {', '.join(failures)}" if failures else "identical bit for bit")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
