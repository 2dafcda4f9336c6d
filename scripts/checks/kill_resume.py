"""Kill a training run with SIGKILL at random steps, resume it each time, and compare it with one left in peace.

    python scripts/checks/kill_resume.py lstm vlhmm --kills 10

Final weights, optimizer, random numbers and perplexity must be the same bit for bit.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
TEXT = ["corpus=markov", "corpus.words=50", "corpus.train=20000", "corpus.valid=1000", "corpus.test=1000", "device=cpu"]
MODELS = {
    "lstm": ["model=lstm", "model.embedding=64", "model.hidden=64", "trainer.epochs=20"],
    "vlhmm": ["model=vlhmm", "model.states=512", "model.clusters=32", "model.dim=32", "trainer.epochs=12"],
}


def start(run_dir: Path, options: list[str]) -> subprocess.Popen:
    """``lmzoo train`` in the background."""
    words = [sys.executable, "-m", "lmzoo.train", *options, f"run_dir={run_dir}", "trainer.checkpoint_seconds=0.05"]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)


def finish(run_dir: Path, options: list[str]) -> dict[str, Any]:
    """Run to the end and return the results."""
    code = start(run_dir, options).wait()
    assert code == 0, f"exit code {code}"
    return {k: v for k, v in json.loads((run_dir / "results.json").read_text()).items() if k not in ("sha256", "files")}


def read(checkpoint: Path) -> dict[str, Any]:
    return torch.load(checkpoint, weights_only=True)


def saved_step(run_dir: Path) -> int:
    return read(run_dir / "last.pt")["progress"]["step"] if (run_dir / "last.pt").exists() else 0


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
    """Train twice below ``folder``, in peace and with kills; the names of what differs in the end.

    Each kill comes shortly after a step drawn at random from the first two thirds; where that is behind
    the run already, it comes while the command starts.
    """
    in_peace, in_pieces, moments = folder / "peace", folder / "pieces", random.Random(seed)
    started = time.monotonic()
    peace = finish(in_peace, options)
    starting, steps = time.monotonic() - started - peace["seconds"], saved_step(in_peace)
    print(f"in peace: {steps} steps, test perplexity {peace['perplexity']['test']!r}", flush=True)
    for step in sorted(moments.sample(range(steps * 2 // 3), kills)):
        process = start(in_pieces, options)
        if saved_step(in_pieces) >= step:
            time.sleep(moments.uniform(0, starting))
        while saved_step(in_pieces) < step:
            assert process.poll() is None, "the command ended before the kill"
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "the command ended before the kill"
        print(f"killed after step {step}: step {saved_step(in_pieces)} is saved", flush=True)
    pieces = finish(in_pieces, options)
    print(f"in pieces: test perplexity {pieces['perplexity']['test']!r}", flush=True)
    found = differences(peace["perplexity"], pieces["perplexity"], "perplexity")
    for name in ("last.pt", "best.pt"):
        a, b = read(in_peace / name), read(in_pieces / name)
        found += [
            d for part in a.keys() - {"config", "sha256"} for d in differences(a[part], b[part], f"{name} {part}")
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the steps")
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
