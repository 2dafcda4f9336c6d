"""Registered entries and their options, as source files document them, for ``--help``, errors and Hydra's groups.

The files are parsed, since importing them would import PyTorch. So defaults in the package are literals or constants
of modules. Of plug-ins, which are imported already, only the documentation is parsed.
"""

import ast
import functools
import inspect
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from lmzoo.core.options import Options
from lmzoo.core.registry import REGISTRIES, Registry

PACKAGE = Path(__file__).parents[1]


class Option(NamedTuple):
    """The default of an option, and its documentation with the choices of its type."""

    default: Any
    text: str


class Entry(NamedTuple):
    """The first paragraph of an entry's docstring, and its options: its own, then those of its bases.

    ``named``: whether a configuration has its name next to its options, as all have but options without a class.
    """

    title: str
    options: dict[str, Option]
    named: bool = True

    @property
    def defaults(self) -> dict[str, Any]:
        return {name: option.default for name, option in self.options.items()}


def entries(group: str) -> dict[str, Entry]:
    """The entries of a group by name: those of the package, and those registered by imported modules."""
    registry, found = REGISTRIES.get(group), _entries().get(group, {})
    others = {} if registry is None else {name: registry for name in registry.entries if name not in found}
    return found | {name: _imported(registry, name) for name, registry in others.items()}


def _imported(registry: Registry, name: str) -> Entry:
    """An entry of an imported module, documented by its source file if that is readable."""
    made = registry.entries[name]
    file = Path(getattr(sys.modules.get(made.__module__), "__file__", None) or "")
    unread = Entry((inspect.getdoc(made) or "").split("\n\n")[0], {})
    documented = (_registered(file) if file.suffix == ".py" else {}).get(registry.kind, {}).get(name, unread)
    defaults = registry.defaults(name).items()
    options = {key: documented.options.get(key, Option(None, ""))._replace(default=value) for key, value in defaults}
    return Entry(documented.title, options, not (isinstance(made, type) and issubclass(made, Options)))


def groups() -> list[str]:
    """The groups of the package that have entries."""
    return [*_entries()]


@functools.cache
def _entries() -> dict[str, dict[str, Entry]]:
    """The entries of the package by group and name."""
    found: dict[str, dict[str, Entry]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for group, registered in _registered(file).items():
            found.setdefault(group, {}).update(registered)
    return found


@functools.cache
def _statements(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text("utf-8")).body


@functools.cache
def _registered(file: Path) -> dict[str, dict[str, Entry]]:
    """The entries of a file by group and name."""
    found: dict[str, dict[str, Entry]] = {}
    for node in _statements(file) if ".register(" in file.read_text("utf-8") else ():
        for decorator in getattr(node, "decorator_list", ()):
            match decorator:
                case ast.Call(ast.Attribute(ast.Name(registry), "register"), [ast.Constant(str(name))], own):
                    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
                    options = _options(node, file)
                    title = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                    for keyword in own:
                        option, value = str(keyword.arg), _value(keyword.value, file)
                        options[option] = options.get(option, Option(None, ""))._replace(default=value)
                    made, _ = _definition(registry, file)  # Registry("model")
                    kind = ast.literal_eval(made.args[0]) if isinstance(made, ast.Call) else ""
                    found.setdefault(kind, {})[name] = Entry(title, options, not _is_options(node, file))
    return found


@functools.cache
def _names(file: Path) -> dict[str, ast.AST | tuple[str, str]]:
    """The classes, functions and values of a file by name; of each import, its module and name there."""
    names: dict[str, ast.AST | tuple[str, str]] = {}
    for node in _statements(file):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign):
            names[ast.unparse(node.targets[0])] = node.value
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return names


def _definition(name: str, file: Path) -> tuple[Any, Path]:
    """The definition of a name in a file, and the file that contains it; None if there is none."""
    node = _names(file).get(name)
    if not isinstance(node, tuple):
        return node, file
    if node[0].split(".")[0] != PACKAGE.name:
        path = None if PACKAGE in file.parents else getattr(sys.modules.get(node[0]), "__file__", None)
        return _definition(node[1], Path(path)) if path and path.endswith(".py") else (None, file)
    module = PACKAGE.parent.joinpath(*node[0].split("."))
    return _definition(node[1], module / "__init__.py" if module.is_dir() else module.with_suffix(".py"))


def _bases(node: ast.ClassDef, file: Path) -> list[tuple[Any, Path]]:
    """The definitions of a class's bases; ``A[T]`` is A."""
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    found = [_definition(ast.unparse(base), file) for base in bases]
    return [(base, where) for base, where in found if base is not node]


@functools.cache
def _is_options(node: Any, file: Path) -> bool:
    """Whether a class derives from `Options`."""
    if not isinstance(node, ast.ClassDef):
        return False
    return (node.name, file) == ("Options", PACKAGE / "core" / "options.py") or any(
        _is_options(*base) for base in _bases(node, file)
    )


def _options(node: Any, file: Path) -> dict[str, Option]:
    """The options of a registered class or function; see `lmzoo.core.options`."""
    if _is_options(node, file):
        return _fields(node, file)
    if isinstance(node, ast.ClassDef):
        made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        return next(filter(None, (_options(*part) for part in ([(made[0], file)] if made else _bases(node, file)))), {})
    if not isinstance(node, ast.FunctionDef):
        return {}
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(ast.Name("configured"), [kind]):
                return _options(*_definition(ast.unparse(kind), file))
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return {part.arg.removesuffix("_"): _option(part.annotation, default, "", file) for part, default in pairs}


def _fields(node: Any, file: Path) -> dict[str, Option]:
    """The fields of a class of options: its own, then those of its bases."""
    found: dict[str, Option] = {}
    for part, below in zip_longest(node.body, node.body[1:]):
        if isinstance(part, ast.AnnAssign):
            text = below.value if isinstance(below, ast.Expr) else None
            doc = str(text.value) if isinstance(text, ast.Constant) else ""
            found[ast.unparse(part.target).removesuffix("_")] = _option(part.annotation, part.value, doc, file)
    for base in _bases(node, file):
        for name, inherited in (_fields(*base) if _is_options(*base) else {}).items():
            own = found.setdefault(name, inherited)
            found[name] = own._replace(text=own.text or inherited.text)
    return found


def _option(annotation: Any, default: Any, doc: str, file: Path) -> Option:
    choices = f" [{' | '.join(listed)}]" if doc and (listed := _choices(annotation, file)) else ""
    return Option(_value(default, file), " ".join(doc.split()) + choices)


def _value(node: Any, file: Path) -> Any:
    """The value of a literal or constant, as in YAML; None if it had to be computed."""
    match node:
        case None:
            return None
        case ast.Name(name):
            return _value(*_definition(name, file))
        case ast.Tuple(parts) | ast.List(parts):
            return [_value(part, file) for part in parts]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _choices(annotation: Any, file: Path) -> list[str]:
    """The choices of a `Literal` or of an alias of one."""
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
