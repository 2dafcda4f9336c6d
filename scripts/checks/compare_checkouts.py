"""Show that two checkouts compute the same: quick runs of every family, bit for bit.

    git worktree add /tmp/before COMMIT
    python scripts/checks/compare_checkouts.py /tmp/before . --work /tmp/compared

Each case is trained in both checkouts by the Python that runs this script. The perplexities and the final weights must
agree in every bit; names of weights may differ. The second checkout must also evaluate the first one's run, and go on
with a run that was interrupted in the first one, to the weights of the run that was left in peace. A run that is
finished in the work folder is not done again.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

TEXT = "corpus=markov corpus.words=200 corpus.train=20000 corpus.valid=2000 corpus.test=2000"
QUICK = "trainer.epochs=3 trainer.max_tokens=256 trainer.checks_per_epoch=2 trainer.precision=float32 device=cpu"
SENTENCES = "corpus.context=sentence"
HMM = "model.states=256 model.clusters=16 model.dim=32"
CASES = {
    "ngram": "model=ngram corpus=ptb corpus.context=sentence",
    "ngram-witten-bell": f"model=ngram model.order=3 model.smoothing=witten_bell {TEXT}",
    "ngram-pruned": "model=ngram model.prune=[0,0,1] corpus=pydoc",
    "loglinear": f"model=loglinear model.order=3 {TEXT}",
    "loglinear-minibatch": (
        f"model=loglinear model.training=minibatch model.classes=10 model.templates=[w2,c1] {TEXT}"
    ),
    "model-m": f"model=model_m model.classes=10 {TEXT}",
    "nnlm": f"model=nnlm model.embedding=16 model.hidden=16 model.layers=2 model.dropout=0.3 {TEXT}",
    "nnlm-tied-classes": (
        "model=nnlm model.embedding=16 model.hidden=16 model.tied=true model.classes=8 model.context=fading "
        f"model.gated=true {TEXT}"
    ),
    "logbilinear": f"model=logbilinear model.embedding=16 model.classes=8 model.diagonal=true {TEXT}",
    "logbilinear-matrices": f"model=logbilinear model.embedding=16 model.dropout=0.2 {TEXT}",
    "rnn": f"model=rnn model.embedding=16 model.hidden=16 model.tied=true schedule=plateau {TEXT}",
    "lstm": f"model=lstm model.embedding=16 model.hidden=16 model.layers=2 model.dropout=0.4 {TEXT}",
    "gru-classes": f"model=gru model.embedding=16 model.hidden=16 model.classes=8 optimizer=sgd {SENTENCES} {TEXT}",
    "lds": f"model=lds model.hidden=8 model.iterations=5 {TEXT}",
    "lds-classes": f"model=lds model.hidden=8 model.iterations=2 model.classes=8 {TEXT}",
    "lds-rnn": f"model=lds_rnn model.hidden=8 model.iterations=3 model.head=5 {TEXT}",
    "lds-rnn-lstm": f"model=lds_rnn model.cell=lstm model.hidden=8 model.iterations=3 model.classes=8 {TEXT}",
    "hmm": f"model=hmm model.states=16 model.iterations=5 {SENTENCES} {TEXT}",
    "hmm-gradient": f"model=hmm model.states=16 model.begin=clusters model.iterations=2 model.gradient=true {TEXT}",
    "neural-hmm": f"model=neural_hmm model.states=32 model.dim=16 {SENTENCES} {TEXT}",
    "vlhmm": f"model=vlhmm {HMM} {SENTENCES} {TEXT}",
    "vlhmm-factored": f"model=vlhmm {HMM} model.embeddings=factored model.tied=true model.dropout=0.2 {TEXT}",
    "vlhmm-table": f"model=vlhmm model.parameterisation=table model.states=64 model.clusters=16 {TEXT}",
    "vlhmm-uniform": f"model=vlhmm {HMM} model.clustering=uniform trainer.precision=bfloat16 {SENTENCES} {TEXT}",
    "lowrank-hmm": f"model=lowrank_hmm {HMM} model.features=64 {SENTENCES} {TEXT}",
    "lowrank-hmm-blocks": (
        f"model=lowrank_hmm {HMM} model.features=64 model.block_features=true model.feature_map=softmax {TEXT}"
    ),
    "twolevel-hmm": f"model=twolevel_hmm {HMM} model.clustering=frequency {SENTENCES} {TEXT}",
    "twolevel-hmm-grown": f"model=twolevel_hmm {HMM} model.clustering=frequency {SENTENCES} {TEXT}",
    "mixture-token": f"model=mixture {TEXT}",
    "mixture-sentence": f"model=mixture model.per=sentence {SENTENCES} {TEXT}",
    "mixture-hmms": f"model=mixture model.per=sentence {SENTENCES} {TEXT}",
}
"""The options of each case."""
STARTS_FROM = {
    "twolevel-hmm-grown": ("model.states=512 model.parent={}", ["twolevel-hmm"]),
    "mixture-token": ("model.runs=[{}]", ["rnn", "ngram-witten-bell"]),
    "mixture-sentence": ("model.runs=[{}]", ["hmm", "ngram-witten-bell"]),
    "mixture-hmms": ("model.runs=[{}]", ["vlhmm", "lowrank-hmm", "hmm"]),
}
"""Options of cases that start from runs of others in the same checkout."""


def lmzoo(checkout: Path, command: str, *arguments: str) -> subprocess.Popen:
    """``lmzoo COMMAND`` of a checkout, on one thread."""
    words = [sys.executable, "-m", "lmzoo", command, *arguments]
    surroundings = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, cwd=checkout, stdout=subprocess.PIPE, env=surroundings)


def finish(process: subprocess.Popen) -> str:
    """The standard output of a command that succeeds."""
    out, _ = process.communicate()
    assert process.returncode == 0, f"{process.args} ended with exit code {process.returncode}"
    return out.decode()


def options(case: str, runs: Path) -> list[str]:
    """What a case has on the command line, its parents being in the folder of runs."""
    chosen = [*QUICK.split(), *CASES[case].split()]
    if case in STARTS_FROM:
        pattern, parents = STARTS_FROM[case]
        chosen += pattern.format(",".join(str(runs / parent) for parent in parents)).split()
    return chosen


def train(checkout: Path, case: str, runs: Path, folder: Path) -> None:
    """Train a case, and before it the cases that it starts from, or see that they are trained."""
    for parent in STARTS_FROM.get(case, ("", []))[1]:
        train(checkout, parent, runs, runs / parent)
    if not (folder / "results.json").exists():
        finish(lmzoo(checkout, "train", *options(case, runs), f"run_dir={folder}"))


def interrupt(checkout: Path, case: str, runs: Path, folder: Path) -> bool:
    """Interrupt a run that learns by gradient after its first checkpoint; False where it finishes before."""
    if not folder.exists():
        process = lmzoo(checkout, "train", *options(case, runs), f"run_dir={folder}", "trainer.checkpoint_seconds=0.01")
        while process.poll() is None and not (folder / "last.pt").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
    return (folder / "last.pt").exists() and not (folder / "results.json").exists()


def figures(folder: Path) -> dict[str, Any]:
    """The results but for times."""
    results = json.loads((folder / "results.json").read_text())
    return {key: value for key, value in results.items() if key not in ("seconds", "tokens_per_second", "sha256")}


def weights(folder: Path) -> set[str]:
    """The checksums of the best weights, whatever their names."""
    saved = torch.load(folder / "best.pt", weights_only=True, map_location="cpu")["model"]
    tensors = [value for value in saved.values() if isinstance(value, torch.Tensor)]
    return {
        hashlib.sha256(
            str((t.dtype, t.shape)).encode() + t.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        ).hexdigest()
        for t in tensors
        if t.numel()
    }


def differences(a: Path, b: Path) -> list[str]:
    """What differs between two finished runs."""
    first, second = figures(a), figures(b)
    keys = sorted(first.keys() & second.keys())
    found = [f"{key}: {first[key]} and {second[key]}" for key in keys if first[key] != second[key]]
    return found + (["weights"] if weights(a) != weights(b) else [])


def compare(before: Path, after: Path, case: str, work: Path) -> list[str]:
    """What is not as it should be of a case."""
    old, new, resumed = work / "before" / case, work / "after" / case, work / "resumed" / case
    train(before, case, work / "before", old)
    train(after, case, work / "after", new)
    found = differences(old, new)
    evaluated = json.loads(finish(lmzoo(after, "evaluate", str(old), "--json", "--device", "cpu")))
    if evaluated["perplexity"] != figures(old)["perplexity"]["test"]:
        found.append(f"evaluated: {evaluated['perplexity']} and {figures(old)['perplexity']['test']}")
    if interrupt(before, case, work / "before", resumed):
        train(after, case, work / "before", resumed)
        found += [f"resumed: {difference}" for difference in differences(old, resumed)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES), metavar="CASE")
    arguments = parser.parse_args()
    failed = 0
    for case in arguments.cases:
        found = compare(arguments.before.resolve(), arguments.after.resolve(), case, arguments.work.resolve())
        failed += bool(found)
        print(f"{case}: {'; '.join(found) or 'the same'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
