"""Check the rules of the protocol on a model: ``lmzoo check model=NAME``."""

from pathlib import Path
from typing import Any

from lmzoo.cli.command import CommandParser
from lmzoo.cli.overrides import check_choices, check_keys, composed, load_plugins_of, parse, resolved
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import UserError, printable
from lmzoo.core.plugins import load_plugins
from lmzoo.corpus import load_corpus
from lmzoo.protocol.model import models
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.loading import build_model
from lmzoo.testing import outcomes, subject

GROUPS = ("model", "corpus", "plugins", "seed")
"""The relevant options of lmzoo train."""


def main() -> int:
    """Run the command. Returns: the exit code, 1 if a rule is broken."""
    parser = CommandParser(
        "check",
        ": a line per rule, with the finding and advice. The model is estimated on the corpus, but not trained.",
        "example: lmzoo check model=unigram plugins=[my.unigram]",
    )
    parser.add_argument("--config-dir", type=Path, metavar="FOLDER", help="folder with your own model/NAME.yaml")
    parser.add_argument(
        "options", nargs="+", metavar="KEY=VALUE",
        help="model=NAME, and options as of lmzoo train: model.OPTION, plugins, seed, corpus (default: pydoc)",
    )  # fmt: skip
    arguments = parser.parse_args()
    options, own = arguments.options, arguments.config_dir
    folders = [CONFIGS, *([own.absolute()] if own else [])]
    for option in options:
        if parse(option).key_or_group.partition(".")[0] not in GROUPS:
            raise UserError(f"{option}: no option of lmzoo check", f"choose from: {', '.join(GROUPS)}")
    load_plugins_of(options)
    check_choices(options, "train", False, folders)
    check_keys(options, "train", folders)
    settings = resolved(composed("train", options, folders))
    config: Any = Configuration(settings | {"run_dir": "."}).run_options
    load_plugins(config.plugins)
    models.check(config.model)
    corpus, name = load_corpus(config.corpus), config.model["name"]
    made = subject(lambda: build_model(config.model, corpus.vocabulary), corpus, config.seed)
    broken = 0
    for rule, wrong, left_out in outcomes(made):
        broken += wrong is not None
        mark, reason = ("BROKEN", wrong) if wrong else ("-" if left_out else "ok", left_out)
        print(printable(f"{mark:7} {rule}" + (f": {reason}" if reason else "")), flush=True)
    result = {0: "no rule is broken", 1: "1 rule is broken"}.get(broken, f"{broken} rules are broken")
    print(printable(f"{name} on {corpus.name}: {result}"))
    return 1 if broken else 0
