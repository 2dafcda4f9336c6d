"""The commands: ``lmzoo`` lists them, and ``lmzoo train …`` is ``python -m lmzoo.train …``."""

import ast
import importlib
import os
import runpy
import sys
from pathlib import Path

from lmzoo.cli.start import start
from lmzoo.core.errors import UserError, nearest, shortened


def commands() -> dict[str, str]:
    """What each command does, from the first line of its file."""
    told = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        about = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        if f"``python -m lmzoo.{file.stem}" in about:
            told[file.stem] = about.partition(": ``")[0]
    return told


def main() -> int:
    """List the commands, or answer a shell that completes one: returns the exit code."""
    words, told = sys.argv[1:], commands()
    if "-sc" in words:
        sys.argv[1:] = words[words.index("-sc") :]
        return _complete(list(told))
    if words and words[0] not in ("-h", "--help"):
        raise UserError(f"{shortened(words[0])}: no such command", nearest(words[0], told))
    print("usage: lmzoo COMMAND …\n")
    print("".join(f"  {name:<12} {about}\n" for name, about in told.items()))
    print("lmzoo COMMAND --help shows what there is. Without the script, write python -m lmzoo.COMMAND.")
    return 0


def _complete(names: list[str]) -> int:
    """Hydra's completion, of the options of ``lmzoo train``; the names of the commands before that."""
    _, *line = os.environ.get("COMP_LINE", "lmzoo train ").split(" ")
    if line[0] == "train" and len(line) > 1:
        os.environ["COMP_LINE"] = " ".join(["lmzoo", *line[1:]])
        return importlib.import_module("lmzoo.train").main()
    print(*names if len(line) == 1 else ())
    return 0


def run() -> None:
    """The script ``lmzoo``: run a command as ``python -m`` does."""
    if len(sys.argv) > 1 and sys.argv[1] in commands() and "-sc" not in sys.argv:
        name = sys.argv.pop(1)
        runpy.run_module(f"lmzoo.{name}", run_name="__main__", alter_sys=True)
    else:
        start("lmzoo.__main__")


if __name__ == "__main__":
    run()
