"""Shapes that docstrings say, compared with the tensors that functions get and return while they run.

A docstring says the shape of a tensor before what it is: ``(B, T) tokens -> (B, T, h) means``; under ``Args:``,
``belief: (B, S) log p(z_0)``; under ``Returns:``, in the order of the results; at its beginning, of its one result. A
shape is that of the argument that it names, or of the next one. ``V``, ``n`` and names of attributes and of whole
numbers among the arguments are known; every other letter stands for one size throughout a call.
"""

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from textwrap import dedent
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

import lmzoo

PLACE = re.compile(r"(?<![\w)′])\(((?:[^(),]|\([^()]*\))+(?:,(?:[^(),]|\([^()]*\))*)+)\)")
SURNAME = re.compile(r"[A-Z][a-z]{2,}")
KINDS = {"int64": torch.int64, "bool": torch.bool, "float64": torch.float64}
ATTRIBUTES = {"V": "vocabulary_size", "n": "order"}


class Shape(NamedTuple):
    """What a docstring says of a tensor: its sizes as expressions, and what it is."""

    sizes: tuple[str, ...]
    what: str


class Promise(NamedTuple):
    """The shapes of a docstring: those of arguments by name, of other arguments, and of results."""

    named: dict[str, Shape]
    others: list[Shape]
    results: list[Shape]
    in_order: bool = False
    """Whether the other arguments are said in their order."""


def expression(size: str) -> str:
    """``(n - 1) m``, ``2n`` and ``BT`` as Python writes them."""
    size = size.strip().replace("·", "*").replace("′", "_")
    size = re.sub(r"\b[a-z]?[A-Z]{2,}\b", lambda letters: "*".join(letters[0]), size)
    return re.sub(r"(\d)(?=[A-Za-z])|(\))\s+(?=\w)", lambda factor: f"{factor[0].strip()}*", size)


def is_size(size: str) -> bool:
    """Whether it is an expression of names and whole numbers."""
    if size == "…":
        return True
    if not re.fullmatch(r"[\w\s*+()-]+", size) or SURNAME.search(size):
        return False
    try:
        nodes = list(ast.walk(ast.parse(size, mode="eval")))
    except SyntaxError:
        return False
    return not any(isinstance(node, ast.BoolOp | ast.Call) for node in nodes)


def shapes(text: str) -> list[Shape]:
    """The shapes in a text, each with the words up to the next one."""
    found = []
    for place, after in zip_longest(matches := [*PLACE.finditer(text)], matches[1:]):
        sizes = tuple(expression(size) for size in place[1].split(",") if size.strip())
        if all(map(is_size, sizes)):
            found.append(Shape(sizes, text[place.end() : after.start() if after else None]))
    return found


@cache
def promise(docstring: str) -> Promise:
    """The shapes that a docstring says."""
    first, *sections = re.split(r"\n(?=(?:Args|Returns|Raises|Attributes):)", docstring)
    summary, named, results = " ".join(first.split("\n\n")[0].split()), {}, []
    for section in sections:
        title, _, body = section.partition(":")
        if title == "Returns":
            results = shapes(" ".join(body.split()))
        for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5}.*)*)", body, re.M) if title == "Args" else ():
            listed, said = names.split(", "), shapes(text)
            if text.startswith("(") and said:
                named |= dict(zip(listed, said if len(said) >= len(listed) else said[:1] * len(listed), strict=False))
    if ") or (" in summary:
        summary = ""
    left, arrow, right = summary.partition("->")
    if arrow:
        return Promise(named, shapes(left), results or shapes(right), in_order=True)
    said = shapes(summary)
    return Promise(named, said[1:], results or said[:1]) if summary.startswith("(") else Promise(named, said, results)


@cache
def fields(kind: type) -> dict[str, Shape]:
    """The shapes that a class says of its fields, each below the field."""
    (definition,) = ast.parse(dedent(inspect.getsource(kind))).body
    said = {}
    for field, below in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            text = str(below.value.value)
            if text.startswith("(") and (found := shapes(text)):
                said[ast.unparse(field.target)] = found[0]
    return said


class Call:
    """A call of a function, whose docstring's letters take their sizes from its tensors one by one."""

    def __init__(self, known: dict[str, int]):
        self.known: dict[str, Any] = known
        self.later: list[tuple[str, int, str]] = []
        self.wrong: list[str] = []
        self.tensors = 0

    def compare(self, name: str, shape: Shape, tensor: Tensor) -> None:
        """Take the letters of a tensor, or note that it has another shape or type."""
        self.tensors += 1
        sizes, found = shape.sizes, list(tensor.shape)
        if "…" in sizes:
            place, free = sizes.index("…"), len(found) - len(sizes) + 1
            sizes, found = (*sizes[:place], *sizes[place + 1 :]), found[:place] + found[place + max(free, 0) :]
        kind = KINDS.get(shape.what.strip(" ,.;").partition(" ")[0].rstrip(",.;"))
        if len(sizes) != len(found) or kind not in (None, tensor.dtype):
            self.wrong.append(f"{name}: {tuple(tensor.shape)} {tensor.dtype} is not ({', '.join(shape.sizes)})")
            return
        for size, number in zip(sizes, found, strict=True):
            if size.isidentifier() and size not in self.known:
                self.known[size] = number
            else:
                self.later.append((size, number, name))

    def end(self) -> list[str]:
        """What is wrong, once all letters that have a size are known."""
        for size, number, name in self.later:
            if set(re.findall(r"[^\W\d]\w*", size)) <= self.known.keys() and eval(size, {}, self.known) != number:
                self.wrong.append(f"{name}: {size} is {eval(size, {}, self.known)}, not {number}")
        return self.wrong


def docstring_of(frame: FrameType) -> str | None:
    """That of the function or method that runs, or of the method that it overrides."""
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if owner is not None:
        return inspect.getdoc(getattr(type(owner), name, None))
    function = inspect.unwrap(frame.f_globals.get(name, None) or len)
    return inspect.getdoc(function) if getattr(function, "__code__", None) is frame.f_code else None


def begun(frame: FrameType, said: Promise) -> Call:
    """A call whose arguments have been compared."""
    code, given = frame.f_code, dict(frame.f_locals)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    owner = given.get("self")
    letters = {size for shape in [*said.named.values(), *said.others, *said.results] for size in shape.sizes}
    words = {word for letter in letters for word in re.findall(r"[^\W\d]\w*", letter)}
    known = {word: getattr(owner, ATTRIBUTES.get(word, word), None) for word in words} if owner is not None else {}
    known |= {name: given[name] for name in names if name in words}
    call = Call({word: number for word, number in known.items() if type(number) is int})
    tensors = {name: given[name] for name in names if isinstance(given[name], Tensor)}
    shape_of = {name: shape for name, shape in said.named.items() if name in tensors}
    free = [name for name in tensors if name not in shape_of]
    for shape in said.others:
        told = {word.rstrip("s") for word in re.findall(r"\w+", shape.what)}
        if name := next((name for name in free if name.rstrip("s") in told and name not in shape_of), None):
            shape_of[name] = shape
    if said.in_order and not shape_of.keys() & {*free} and len(free) == len(said.others):
        shape_of |= dict(zip(free, said.others, strict=True))
    for name, shape in shape_of.items():
        call.compare(name, shape, tensors[name])
    return call


@contextmanager
def compared(folder: Path = Path(lmzoo.__file__).parent) -> Iterator[Counter[str]]:
    """A context in which the functions of a folder are watched; how many tensors of each have been compared.

    Raises: AssertionError at its end, for tensors with other shapes or types.
    """
    tensors: Counter[str] = Counter()
    wrong: dict[str, None] = {}
    calls: dict[int, tuple[Promise, Call]] = {}

    def watch(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(folder)):
            return
        if event == "call" and not code.co_flags & inspect.CO_GENERATOR and (text := docstring_of(frame)):
            said = promise(text)
            if said.named or said.others or said.results:
                calls[id(frame)] = said, begun(frame, said)
        elif event == "return" and result is not None and (open_call := calls.pop(id(frame), None)):
            said, call = open_call
            results = result if type(result) is tuple else (result,)
            for number, (shape, part) in enumerate(zip(said.results, results, strict=False)):
                if isinstance(part, Tensor):
                    call.compare(f"result {number}", shape, part)
            tensors[code.co_qualname] += call.tensors
            wrong.update(dict.fromkeys(f"{code.co_qualname} in {code.co_filename}: {text}" for text in call.end()))
            if hasattr(result, "_fields"):
                parts = Call({})
                for name, shape in fields(type(result)).items():
                    if isinstance(getattr(result, name), Tensor):
                        parts.compare(name, shape, getattr(result, name))
                wrong.update(dict.fromkeys(f"{type(result).__qualname__}: {text}" for text in parts.end()))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield tensors
    finally:
        sys.setprofile(before)
    assert not wrong, "\n".join(wrong)
