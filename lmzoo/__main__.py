"""The script ``lmzoo``, which is ``python -m lmzoo``: it lists the commands, and starts one."""

import importlib
import os
import sys

from lmzoo.cli import COMMANDS
from lmzoo.cli.start import start
from lmzoo.core.errors import UserError, nearest, shortened
from lmzoo.core.version import __version__


def run() -> None:
    """Start the command that is named first on the command line; without one, `main`."""
    name = "".join(sys.argv[1:2])
    if name in COMMANDS and "-sc" not in sys.argv:
        del sys.argv[1]
        start(f"lmzoo.commands.{name}")
    else:
        start("lmzoo.__main__")


def main() -> int:
    """List the commands, or answer a shell that completes one: returns the exit code."""
    words = sys.argv[1:]
    if "-sc" in words:
        sys.argv[1:] = words[words.index("-sc") :]
        return _complete()
    if words[:1] == ["--version"]:
        print(__version__)
        return 0
    if words and words[0] not in ("-h", "--help"):
        raise UserError(f"{shortened(words[0])}: no such command", nearest(words[0], COMMANDS))
    print("usage: lmzoo COMMAND …\n")
    print("".join(f"  {name:<12} {about}\n" for name, about in COMMANDS.items()))
    print("lmzoo COMMAND --help describes a command. python -m lmzoo COMMAND works without the script.")
    return 0


def _complete() -> int:
    """Hydra's completion, of the options of ``lmzoo train``; the names of the commands before that."""
    _, *line = os.environ.get("COMP_LINE", "lmzoo train ").split(" ")
    if line[0] == "train" and len(line) > 1:
        os.environ["COMP_LINE"] = " ".join(["lmzoo", *line[1:]])
        return importlib.import_module("lmzoo.commands.train").main()
    print(*COMMANDS if len(line) == 1 else ())
    return 0


if __name__ == "__main__":
    run()
