"""The ``--help`` of commands that make runs: examples, groups, and options with values and meanings."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from lmzoo.cli import COMMANDS
from lmzoo.core.catalogue import Entry, entries
from lmzoo.core.configs import CONFIGS, choices

WIDEST, INDENT = 120, 38
"""The maximum width of a line, and the maximum indentation of an option's description."""

SAME_AGAIN = "Running the same command again resumes a stopped run (Ctrl-C saves it), or reports a finished one."
EXAMPLES = {
    "train": f"""
    lmzoo train                                   the default model on the default corpus
    lmzoo train model=vlhmm corpus=ptb            another model and corpus
    lmzoo train model.hidden=400 trainer.epochs=5 other options
    lmzoo train -m model=ngram,lstm,vlhmm         a sweep, one run after the other
    lmzoo train experiment=lstm_ptb               a preset
    lmzoo train trainer=debug                     a ten-second test run

  {SAME_AGAIN}
  Every run has a folder under outputs: results.json, train.log, best.pt, TensorBoard.""",
    "vectors": f"""
    lmzoo vectors corpus=ptb                        skip-gram on Penn Treebank
    lmzoo vectors method=ppmi method.window=5       another method, other options
    lmzoo vectors method=type method.run=RUN        the vectors of a trained language model
    lmzoo vectors -m method=skipgram,cbow,glove     a sweep, one run after the other

  corpus.context=sentence: windows end at the end of a line. corpus.context=stream: windows cross lines.
  {SAME_AGAIN}
  Every run has a folder under outputs: vectors.bin (word2vec's format), results.json, train.log, TensorBoard.""",
    "label": """
    lmzoo label task=pos                               a hidden Markov model on CoNLL-2000's tags
    lmzoo label task=upos labeller=majority            another task, another model
    lmzoo label task=ner task.train=A task.test=B      your own files
    lmzoo label -m labeller=majority,hmm_tagger        a sweep, one run after the other

  Every run has a folder under outputs: results.json, train.log, and files with the model's labels.""",
}
FLAGS = """
  --cfg job        print the configuration instead of running
  -m, --multirun   sweep over comma-separated values
  --hydra-help     Hydra's own options"""
THEN = {
    "train": "\n\n  Then: lmzoo evaluate RUN [SPLIT or FILE];  lmzoo compare;  tensorboard --logdir outputs",
    "vectors": "\n\n  Then: lmzoo probe RUN;  lmzoo map RUN;  tensorboard --logdir outputs",
}


def help_text(command: str, config: DictConfig, folders: Sequence[Path]) -> str:
    """The text of ``lmzoo COMMAND --help``, where ``config`` is the configuration made by the other arguments."""
    options = options_help(command, config, folders)
    return f"{COMMANDS[command]}.\n{EXAMPLES[command]}\n{options}\n{FLAGS}{THEN.get(command, '')}"


def options_help(command: str, config: DictConfig, folders: Sequence[Path] = (CONFIGS,)) -> str:
    """Format the groups of a command, then its options with values and meanings."""
    groups: Any = OmegaConf.to_container(config)
    chosen = {
        group: choice for group, choice in sorted(groups.pop("hydra")["runtime"]["choices"].items()) if "/" not in group
    }
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    lines = ["Groups, chosen with group=entry:", ""]
    for group in chosen:
        if names := choices(group, folders):
            lines += textwrap.wrap(f"{group}: {', '.join(names)}", width, subsequent_indent="  ")
    lines += ["", "Options, set with key=value; current values and descriptions:", ""]
    single = {key: value for key, value in groups.items() if not isinstance(value, dict)}
    lines += _table(single, "", entries("command")[command], width)
    for group, options in groups.items():
        if isinstance(options, dict):
            name = options.pop("name", "default")
            entry = entries(group).get(name)
            base = f" ({name})" if name != chosen.get(group) else ""  # whose defaults the entry changes
            title = f"{base}: {entry.title.replace('`', '')}" if entry else ""
            lines += ["", *textwrap.wrap(f"{group}={chosen.get(group)}{title}", width)]
            lines += _table(options, f"{group}.", entry, width)
    return "\n".join(lines)


def _table(options: Mapping[str, Any], prefix: str, entry: Entry | None, width: int) -> list[str]:
    """Format each option as a paragraph: its value and its description, in YAML terms."""
    rows = dict[str, str]()
    for name, value in options.items():
        written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**16)
        option = entry.options.get(name) if entry else None
        rows[f"{prefix}{name}: " + written.removesuffix("...\n").strip()] = option.text if option else ""
    indent = min(INDENT, 3 + max(map(len, rows), default=0))
    lines = list[str]()
    for row, sentence in rows.items():
        sentence = sentence.replace("`", "").replace("None", "null")
        behind = textwrap.wrap(sentence, max(width - indent, 20))
        first = behind.pop(0) if behind and len(row) + 3 <= indent else ""
        lines += [f"{row:{indent}}{first}".rstrip(), *(" " * indent + line for line in behind)]
    return lines
