"""Labellers and word vectors on a GPU: the same draws as on a CPU, and what is learnt is used on any device."""

from pathlib import Path

import pytest
import torch
from command_line import TEXT, command

from lmzoo.commands import label, tag, vectors
from lmzoo.labels.model import labellers
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.method import methods

TAGGED = "the D\nwalk N\nends V\n\nthey P\nwalk V\n\n" * 3
TREES = "(1 (0 a) (2 film))\n(3 (3 fine) (2 film))\n" * 4
SMALL = {
    "birnn": ["task=pos", "labeller.hidden=4", "labeller.embedding=4", "labeller.dropout=0", "labeller.crf=true",
              "labeller.lexical=1", "labeller.average=0.5"],
    "local": ["task=pos", "labeller.vectors=vectors.txt"],
    **{
        name: ["task=trees", "labeller.embedding=4", "labeller.dropout=0"]
        for name in ("recursive", "rntn", "treelstm")
    },
}  # fmt: skip
"""Options without randomness that depends on the device."""
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LEARNT_ANYWHERE = sorted(name for name, entry in labellers.entries.items() if getattr(entry, "any_device", False))
VECTORS_ANYWHERE = sorted(name for name, entry in methods.entries.items() if getattr(entry, "any_device", False))


def learn(name: str, device: str) -> tuple[str, str]:
    """What a labeller prints that has learnt on a device, and how it labels."""
    text = "trees.txt" if "task=trees" in SMALL[name] else "tagged.txt"
    files = [f"task.{split}={text}" for split in ("train", "valid", "test")]
    options = [f"labeller={name}", *SMALL[name], *files, "labeller.epochs=2", f"device={device}", f"run_dir={device}"]
    done = command(*options, main=label.main)
    assert done.code == 0, done
    return done.out, command(device, text, main=tag.main).out


@pytest.fixture(autouse=True)
def texts(folder: Path) -> None:
    Path("tagged.txt").write_text(TAGGED)
    Path("trees.txt").write_text(TREES)
    Path("vectors.txt").write_text("the 1 0\nwalk 0 1\nends 1 1\n")


@GPU
@pytest.mark.parametrize("name", LEARNT_ANYWHERE)
def test_a_labeller_that_learns_on_cuda_labels_as_one_that_learnt_on_a_cpu(name: str):
    told, labelled = learn(name, "cuda")
    assert ", cuda: cuda" in told
    assert labelled == learn(name, "cpu")[1]
    Path("cuda/results.json").unlink()
    assert learn(name, "cuda")[1] == labelled, "a finished training is measured again"


@GPU
@pytest.mark.parametrize("name", VECTORS_ANYWHERE)
def test_vectors_learnt_on_cuda_are_those_of_a_cpu(name: str):
    found = []
    for device in ("cpu", "cuda"):
        small = ["method.dim=4", "method.min_count=1", "method.epochs=2", f"device={device}", f"run_dir={device}"]
        assert command(*TEXT, f"method={name}", *small, main=vectors.main).code == 0
        found.append(read_vectors(Path(device)).matrix)
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", ["cuda", "mps", "cuda:1"])
def test_what_computes_on_a_cpu_alone_refuses_other_devices(device: str):
    files = ["task=pos", "labeller=crf", "task.train=tagged.txt", "task.test=tagged.txt", "task.valid=null"]
    told = command(*files, f"device={device}", main=label.main).refused()
    assert f"device={device}: labeller=crf computes on a CPU; leave it out" in told
    told = command(*TEXT, "method=ppmi", f"device={device}", main=vectors.main).refused()
    assert f"device={device}: method=ppmi computes on a CPU" in told
