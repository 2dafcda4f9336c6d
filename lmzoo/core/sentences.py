"""What docstrings say of entries and options, for ``--help`` and the cards of runs. The files are read as text:
PyTorch is not needed, and of a plug-in nothing is known.
"""

import ast
import functools
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def sentences(group: str, name: object = None) -> dict[str, str]:
    """What is said of each option of an entry, and the choices that its type lists: ``what becomes of it [a | b]``.

    Args:
        group: of the entry, such as ``model``. Options of a group without a registry are those of a dataclass whose
            docstring begins with "What ``configs/GROUP`` sets".
        name: by which the entry is registered.
    """
    documented, choices = _options(*_entry(group, name))
    return {option: f"{text} {choices.get(option, '')}".strip() for option, text in documented.items()}


def purpose(group: str, name: object) -> str:
    """The first paragraph of an entry's docstring, in a line; empty for one of a plug-in."""
    entry, _ = _entry(group, name)
    said = ast.get_docstring(entry) if isinstance(entry, ast.ClassDef | ast.FunctionDef) else None
    return " ".join((said or "").split("\n\n")[0].split())


def _entry(group: str, name: object) -> tuple[ast.AST | None, Path]:
    """The class or function of an entry, and its file; see `sentences`."""
    registry = re.search(rf'^(\w+) = Registry\("{re.escape(group)}"\)', "\n".join(_texts().values()), re.M)
    mark = f'@{registry[1]}.register("{name}")\n' if registry else f'"""What ``configs/{group}`` sets'
    for file, text in _texts().items():
        if mark in text:
            line = text[: text.index(mark)].count("\n") + 1
            return next(node for node in ast.parse(text).body if line <= (node.end_lineno or 0)), file
    return None, PACKAGE


@functools.cache
def _texts() -> dict[Path, str]:
    """The files of the package."""
    return {file: file.read_text("utf-8") for file in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def _names(file: Path) -> dict[str, ast.AST | tuple[str, str]]:
    """The classes, functions and values of a file by name; what it imports from the package as a module and a name."""
    names: dict[str, ast.AST | tuple[str, str]] = {}
    for node in ast.parse(_texts()[file]).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign):
            names[ast.unparse(node.targets[0])] = node.value
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE.name:
            names |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return names


def _definition(name: str, file: Path) -> tuple[ast.AST | None, Path]:
    """What a name stands for in a file, and the file that defines it."""
    node = _names(file).get(name)
    if not isinstance(node, tuple):
        return node, file
    module = PACKAGE.parent.joinpath(*node[0].split("."))
    return _definition(node[1], module / "__init__.py" if module.is_dir() else module.with_suffix(".py"))


def _options(node: ast.AST | None, file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The sentence on each option of a class or function under "Args:", and the choices that its type lists.

    Options that it does not document are those of its bases, or of the `TypedDict` in ``**options: Unpack[…]``. For
    "see `NAME`." the sentence is that of NAME.
    """
    documented: dict[str, str] = {}
    choices: dict[str, str] = {}
    if not isinstance(node, ast.ClassDef | ast.FunctionDef):
        return documented, choices
    parts = [node, *node.body]
    made = [part.args for part in parts if isinstance(part, ast.FunctionDef) and part.name in (node.name, "__init__")]
    for base in [*getattr(node, "bases", []), *(args.kwarg.annotation for args in made if args.kwarg)]:
        for part in (base.slice, base.value) if isinstance(base, ast.Subscript) else (base,):
            inherited, inherited_choices = _options(*_definition(ast.unparse(part), file))
            documented, choices = documented | inherited, choices | inherited_choices
    types = [(argument.arg, argument.annotation) for args in made for argument in args.kwonlyargs]
    types += [(ast.unparse(part.target), part.annotation) for part in parts if isinstance(part, ast.AnnAssign)]
    choices |= {
        name.removesuffix("_"): f"[{' | '.join(listed)}]" for name, type in types if (listed := _choices(type, file))
    }
    section = re.search(r"^Args:\n((?: {4}.*\n?)+)", ast.get_docstring(node) or "", re.M)
    for names, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {5}.*)*)", section[1] if section else "", re.M):
        other = re.fullmatch(r"see `(\w+)`\.", text)
        shared = _options(*_definition(other[1], file))[0] if other else {}
        for name in names.split(", "):
            documented[name.removesuffix("_")] = shared.get(name, " ".join(text.split()))
    return documented, choices


def _choices(annotation: ast.AST | None, file: Path) -> list[str]:
    """The choices of a `Literal`, or of a name that stands for one."""
    match annotation:
        case ast.Name(name):
            return _choices(*_definition(name, file))
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, *_])):
            return _choices(kind, file)
        case ast.Subscript(ast.Name("Literal"), listed):
            return [str(part.value) for part in ast.walk(listed) if isinstance(part, ast.Constant)]
        case ast.BinOp(left, _, ast.Constant(None)) if listed := _choices(left, file):
            return [*listed, "null"]
    return []
