"""The script ``lmzoo``, which is ``python -m lmzoo``: it lists the commands, and starts one."""

import sys

from lmzoo.cli import COMMANDS
from lmzoo.cli.start import start
from lmzoo.core.errors import UserError, nearest, shortened
from lmzoo.core.version import __version__


def run() -> None:
    """Start the command that is named first on the command line; without one, `main`."""
    name = "".join(sys.argv[1:2])
    if name in COMMANDS:
        del sys.argv[1]
        start(f"lmzoo.commands.{name}")
    else:
        start("lmzoo.__main__")


def main() -> int:
    """List the commands. Returns: the exit code."""
    words = sys.argv[1:]
    if words[:1] == ["--version"]:
        print(__version__)
        return 0
    if words and words[0] not in ("-h", "--help"):
        raise UserError(f"{shortened(words[0])}: no such command", nearest(words[0], COMMANDS))
    print("usage: lmzoo COMMAND …\n")
    print("".join(f"  {name:<12} {about}\n" for name, about in COMMANDS.items()))
    print("lmzoo COMMAND --help describes a command. python -m lmzoo COMMAND works without the script.")
    return 0


if __name__ == "__main__":
    run()
