"""What docstrings say of options, for ``--help``.

It needs no PyTorch: the files of the package are read as text and are not imported. Of a plug-in nothing is known.
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
    registry = re.search(rf'^(\w+) = Registry\("{re.escape(group)}"\)', "\n".join(_texts().values()), re.M)
    mark = f'@{registry[1]}.register("{name}")\n' if registry else f'"""What ``configs/{group}`` sets'
    for file, text in _texts().items():
        if mark in text:
            line = text[: text.index(mark)].count("\n") + 1
            said, choices = _said(next(node for node in ast.parse(text).body if line <= (node.end_lineno or 0)), file)
            return {option: f"{sentence} {choices.get(option, '')}".strip() for option, sentence in said.items()}
    return {}


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


def _found(name: str, file: Path) -> tuple[ast.AST | None, Path]:
    """What a name stands for in a file, and the file that defines it."""
    found = _names(file).get(name)
    if not isinstance(found, tuple):
        return found, file
    module = PACKAGE.parent.joinpath(*found[0].split("."))
    return _found(found[1], module / "__init__.py" if module.is_dir() else module.with_suffix(".py"))


def _said(node: ast.AST | None, file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What a class or function says of its options under "Args:", and the choices that their types list.

    What it does not say its bases say, or the `TypedDict` in ``**options: Unpack[…]``. "see `NAME`." is what NAME says.
    """
    said: dict[str, str] = {}
    choices: dict[str, str] = {}
    if not isinstance(node, ast.ClassDef | ast.FunctionDef):
        return said, choices
    parts = [node, *node.body]
    made = [part.args for part in parts if isinstance(part, ast.FunctionDef) and part.name in (node.name, "__init__")]
    for base in [*getattr(node, "bases", []), *(args.kwarg.annotation for args in made if args.kwarg)]:
        for part in (base.slice, base.value) if isinstance(base, ast.Subscript) else (base,):
            theirs, their_choices = _said(*_found(ast.unparse(part), file))
            said, choices = said | theirs, choices | their_choices
    types = [(argument.arg, argument.annotation) for args in made for argument in args.kwonlyargs]
    types += [(ast.unparse(part.target), part.annotation) for part in parts if isinstance(part, ast.AnnAssign)]
    choices |= {
        name.removesuffix("_"): f"[{' | '.join(found)}]" for name, type in types if (found := _choices(type, file))
    }
    section = re.search(r"^Args:\n((?: {4}.*\n?)+)", ast.get_docstring(node) or "", re.M)
    for names, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {5}.*)*)", section[1] if section else "", re.M):
        other = re.fullmatch(r"see `(\w+)`\.", text)
        theirs = _said(*_found(other[1], file))[0] if other else {}
        for name in names.split(", "):
            said[name.removesuffix("_")] = theirs.get(name, " ".join(text.split()))
    return said, choices


def _choices(annotation: ast.AST | None, file: Path) -> list[str]:
    """The choices of a `Literal`, or of a name that stands for one."""
    match annotation:
        case ast.Name(name):
            return _choices(*_found(name, file))
        case ast.Subscript(ast.Name("Literal"), listed):
            return [str(part.value) for part in ast.walk(listed) if isinstance(part, ast.Constant)]
        case ast.BinOp(left, _, ast.Constant(None)) if found := _choices(left, file):
            return [*found, "null"]
    return []
