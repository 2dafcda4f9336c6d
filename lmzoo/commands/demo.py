"""Play with trained runs in a browser: ``lmzoo demo [RUN…]``."""

import contextlib
import io
import threading
from pathlib import Path
from typing import Annotated

import torch

from lmzoo.cli.command import CommandParser, RunFolder, inform, warn
from lmzoo.cli.hydra import run_hydra
from lmzoo.cli.start import exit_on_interrupt
from lmzoo.core.errors import printable
from lmzoo.core.options import Bounds
from lmzoo.core.progress import Bar
from lmzoo.page.app import check_port, imported, serve
from lmzoo.page.zoo import Zoo
from lmzoo.runs.directory import Run
from lmzoo.runs.listing import OUTPUTS

RUNS = {
    "ngram": ("train", "model=ngram", "corpus.context=sentence"),
    "hmm": ("train", "model=hmm", "corpus.context=sentence"),
    "lds": ("train", "model=lds", "trainer.epochs=4", "corpus.context=sentence"),
    "ppmi": ("vectors", "method=ppmi"),
}
"""The runs without arguments: their folders in ``outputs/demo``, and how each is made, by a command and options."""


def main() -> None:
    """Run the command, which serves the page until Ctrl-C."""
    parser = CommandParser(
        "demo",
        ": surprisal, next words, samples; the hidden states of an HMM, the neighbours of word vectors. The runs must "
        "share a vocabulary. Without any, four small ones are trained first, in a minute or two, and saved in "
        "outputs/demo. The page is served on localhost only, and needs no network.",
        "example: lmzoo demo outputs/ptb/ngram outputs/ptb/lstm outputs/ptb/hmm outputs/ptb/ppmi",
    )
    parser.add_argument("runs", action=RunFolder, nargs="*", help="runs of lmzoo train and lmzoo vectors")
    port = Annotated[int, Bounds(low=1, high=65535)]
    parser.add_number("--port", port, "port of the page (the first free one from 7860)")
    parser.add_device()
    parser.add_plugins()
    options = parser.parse_args()
    with exit_on_interrupt():
        imported()
    check_port(options.port)
    zoo = Zoo(options.runs or train_demo_runs(options.device), options.device)
    for note in zoo.notes:
        warn(note)
    page = serve(zoo, options.port)
    print(printable(f"{page.address} (Ctrl-C ends it)"), flush=True)
    try:
        wait()
    finally:
        page.close()


def train_demo_runs(device: str) -> list[Path]:
    """The folders of `RUNS`, after training those that are not finished yet."""
    folders = {name: OUTPUTS / "demo" / name for name in RUNS}
    runs = {name: Run(folder) for name, folder in folders.items()}
    missing = [name for name, run in runs.items() if not run.config_file.exists() or run.results() is None]
    if not missing:
        return [*folders.values()]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them slow down models as small as these, above all on a busy machine
    inform(f"training {', '.join(missing)}; they are saved in {OUTPUTS / 'demo'}")
    with Bar(len(missing), "run", "training") as bar:
        for name in missing:
            command, *options = RUNS[name]
            with contextlib.redirect_stdout(io.StringIO()):  # the log of each is in its folder
                line = ["lmzoo", *options, f"device={device}", f"run_dir={folders[name]}"]
                run_hydra(lambda train, *_: train(), command, line=line)
            bar.update()
    torch.set_num_threads(threads)
    return [*folders.values()]


def wait() -> None:
    """Wait for Ctrl-C."""
    threading.Event().wait()
