"""Play with trained runs in a browser: ``lmzoo demo RUN…``."""

import threading
from typing import Annotated

from lmzoo.cli.command import CommandParser, RunFolder, warn
from lmzoo.cli.start import leaving_at_once
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import printable
from lmzoo.core.options import Bounds
from lmzoo.page.app import check_port, imported, serve
from lmzoo.page.zoo import Zoo


def main() -> int:
    """Run the command, which serves the page until Ctrl-C."""
    parser = CommandParser(
        prog="lmzoo demo",
        description=f"{COMMANDS['demo']}: surprisal, next words, samples; the hidden states of an HMM, the contexts of "
        "a linear dynamical system, the neighbours of word vectors. The runs have one vocabulary. The page is served "
        "on this machine alone, and needs no network.",
        epilog="example: lmzoo demo outputs/ptb/ngram outputs/ptb/lstm outputs/ptb/hmm outputs/ptb/ppmi",
    )
    parser.add_argument("runs", action=RunFolder, nargs="+", help="runs of lmzoo train and lmzoo vectors")
    port = Annotated[int, Bounds(low=1, high=65535)]
    parser.add_number("--port", port, "of the page (the first free one from 7860)")
    parser.add_device()
    parser.add_plugins()
    options = parser.parse_args()
    with leaving_at_once():
        imported()
    check_port(options.port)
    zoo = Zoo(options.runs, options.device)
    for note in zoo.notes:
        warn(note)
    page = serve(zoo, options.port)
    print(printable(f"{page.address} (Ctrl-C ends it)"), flush=True)
    try:
        wait()
    finally:
        page.close()
    return 0


def wait() -> None:
    """Wait for Ctrl-C."""
    threading.Event().wait()
