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
import random
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
    "lds-rnn": f"model=lds_rnn model.hidden=8 model.iterations=3 {TEXT}",
    "hmm": f"model=hmm model.states=16 model.iterations=5 {SENTENCES} {TEXT}",
    "hmm-gradient": f"model=hmm model.states=16 model.begin=clusters model.iterations=2 model.gradient=true {TEXT}",
    "neural-hmm": f"model=neural_hmm model.states=32 model.dim=16 {SENTENCES} {TEXT}",
    "vlhmm": f"model=vlhmm {HMM} {SENTENCES} {TEXT}",
    "vlhmm-factored": f"model=vlhmm {HMM} model.embeddings=factored model.tied=true model.dropout=0.2 {TEXT}",
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
"""The options of each language model."""
TAGS, CLASSES, TREES = ("task={} task.train={} task.test={} task.valid=null".format(task, *[f"{{}}/{task}.txt"] * 2)
                        for task in ("chunk", "classify", "trees"))  # fmt: skip
NETWORK = "labeller.embedding=8 labeller.hidden=8 labeller.epochs=3"
LABELLERS = {
    "majority": TAGS,
    "hmm_tagger": TAGS,
    "crf": f"{TAGS} labeller.iterations=20",
    "perceptron": f"{TAGS} labeller.epochs=3",
    "birnn": f"{TAGS} {NETWORK} labeller.crf=true",
    "naive_bayes": CLASSES,
    "logistic_regression": CLASSES,
    "nbsvm": CLASSES,
    "recursive": f"{TREES} labeller.embedding=8 labeller.epochs=3",
    "rntn": f"{TREES} labeller.embedding=8 labeller.epochs=3",
    "treelstm": f"{TREES} labeller.embedding=8 labeller.epochs=3",
}
METHODS = {
    "skipgram": "method.epochs=2",
    "cbow": "method.epochs=2",
    "glove": "method.epochs=2",
    "ppmi": "",
    "lsa": "",
}
WEIGHTS_FILES = {
    **{f"label-{name}": f"labeller={name} {line}" for name, line in LABELLERS.items()},
    **{f"vectors-{name}": f"method={name} method.dim=16 {line} {TEXT}" for name, line in METHODS.items()},
}
"""The options of labellers and of word vectors; the name begins with the command."""
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
    if case in WEIGHTS_FILES:
        return WEIGHTS_FILES[case].replace("{}", str(runs.parent)).split()
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
        finish(lmzoo(checkout, command_of(case), *options(case, runs), f"run_dir={folder}"))


def command_of(case: str) -> str:
    return case.partition("-")[0] if case in WEIGHTS_FILES else "train"


def interrupt(checkout: Path, case: str, runs: Path, folder: Path) -> bool:
    """Interrupt a run that learns by gradient after its first checkpoint; False where it finishes before."""
    if not folder.exists():
        often = ("trainer." if case in CASES else "") + "checkpoint_seconds=0.01"
        process = lmzoo(checkout, command_of(case), *options(case, runs), f"run_dir={folder}", often)
        while process.poll() is None and not (folder / "last.pt").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
    return (folder / "last.pt").exists() and not (folder / "results.json").exists()


def figures(folder: Path) -> dict[str, Any]:
    """The results but for times."""
    results = json.loads((folder / "results.json").read_text())
    times = ("seconds", "labelling_seconds", "tokens_per_second", "sha256", "files")
    results["checks"] = [
        {key: value for key, value in check.items() if key != "seconds"} for check in results.get("checks", [])
    ]
    return {key: value for key, value in results.items() if key not in times}


def weights(folder: Path) -> set[str]:
    """The checksums of what was learnt, whatever its names."""
    if (folder / "vectors.bin").exists():
        return {hashlib.sha256((folder / "vectors.bin").read_bytes()).hexdigest()}
    checkpoint = torch.load(folder / "best.pt", weights_only=True, map_location="cpu")
    saved = checkpoint.get("model") or checkpoint["state"]
    tensors = [value for value in saved.values() if isinstance(value, torch.Tensor)]
    return {
        hashlib.sha256(
            str((t.dtype, t.shape)).encode() + t.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        ).hexdigest()
        for t in tensors
        if t.numel()
    }


def alike(first: Any, second: Any) -> bool:
    """Whether two results are the same in all that both have."""
    if isinstance(first, dict) and isinstance(second, dict):
        return all(alike(first[key], second[key]) for key in first.keys() & second.keys())
    return first == second


def differences(a: Path, b: Path) -> list[str]:
    """What differs between two finished runs."""
    first, second = figures(a), figures(b)
    keys = sorted(first.keys() & second.keys())
    found = [f"{key}: {first[key]} and {second[key]}" for key in keys if not alike(first[key], second[key])]
    return found + (["weights"] if weights(a) != weights(b) else [])


def compare(before: Path, after: Path, case: str, work: Path) -> list[str]:
    """What is not as it should be of a case."""
    old, new, resumed = work / "before" / case, work / "after" / case, work / "resumed" / case
    train(before, case, work / "before", old)
    train(after, case, work / "after", new)
    found = differences(old, new)
    if case in CASES:
        evaluated = json.loads(finish(lmzoo(after, "evaluate", str(old), "--json", "--device", "cpu")))
        if evaluated["perplexity"] != figures(old)["perplexity"]["test"]:
            found.append(f"evaluated: {evaluated['perplexity']} and {figures(old)['perplexity']['test']}")
    elif (old / "test.labels").exists():
        text = next(option for option in options(case, work / "before") if option.startswith("task.test="))
        if finish(lmzoo(after, "tag", str(old), text.partition("=")[2])) != (old / "test.labels").read_text():
            found.append("labels of the first checkout's run")
    if interrupt(before, case, work / "before", resumed):
        train(after, case, work / "before", resumed)
        found += [f"resumed: {difference}" for difference in differences(old, resumed)]
    return found


def write_texts(folder: Path) -> None:
    """Labelled texts, drawn at random: the label is mostly that of the word, or of the one before it."""
    draw = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)

    def sentence() -> list[str]:
        return [f"w{min(int(draw.expovariate(0.1)), 99)}" for _ in range(draw.randint(1, 12))]

    def tree(words: list[str]) -> str:
        if len(words) == 1:
            return f"({int(words[0][1:]) % 5} {words[0]})"
        cut = draw.randint(1, len(words) - 1)
        return f"({draw.randint(0, 4)} {tree(words[:cut])} {tree(words[cut:])})"

    texts = [sentence() for _ in range(300)]
    columns = [[f"{word} T{int(word[1:]) % 7} B-C{int(word[1:]) % 3}" for word in words] for words in texts]
    (folder / "chunk.txt").write_text("".join("\n".join(rows) + "\n\n" for rows in columns))
    (folder / "classify.txt").write_text("".join(f"c{int(words[0][1:]) % 3}\t{' '.join(words)}\n" for words in texts))
    (folder / "trees.txt").write_text("".join(f"{tree(words)}\n" for words in texts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument(
        "--cases", nargs="+", default=[*CASES, *WEIGHTS_FILES], choices=[*CASES, *WEIGHTS_FILES], metavar="CASE"
    )
    arguments = parser.parse_args()
    write_texts(arguments.work)
    failed = 0
    for case in arguments.cases:
        found = compare(arguments.before.resolve(), arguments.after.resolve(), case, arguments.work.resolve())
        failed += bool(found)
        print(f"{case}: {'; '.join(found) or 'the same'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
