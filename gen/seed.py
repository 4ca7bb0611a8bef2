"""`python -m gen.seed --headers DIR`: writes the machine-seeded part of `api/` from the vendor's headers.

Seeded: types, constants, signatures, versions. Written by hand and never touched here: families, effects, doors.
The headers come with the PyPI package `nvidia-cuda-runtime` or a CUDA toolkit. Only names, numbers and signatures
are taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from api.families import FAMILIES, family_of
from api.load import exported_symbols
from api.model import Alias, Enum, Function, Group, Record
from gen.answers import join
from gen.headers import Headers

API = Path(__file__).resolve().parent.parent / "api"
HEAD = '"""{what}. Seeded by `python -m gen.seed` from driver API {version}; do not edit."""\n\n'


def _strings(items: Iterable[str]) -> str:
    inner = ", ".join(_quoted(item) for item in items)
    return f"({inner},)" if inner else "()"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _members(members: Iterable[str | Group], indent: str) -> str:
    lines = []
    for member in members:
        if isinstance(member, Group):
            inner = _members(member.members, indent + "    ")
            lines.append(f"{indent}Group({_quoted(member.kind)}, {_quoted(member.name)}, (\n{inner}{indent})),\n")
        else:
            lines.append(f"{indent}{_quoted(member)},\n")
    return "".join(lines)


def _type_text(item: Alias | Enum | Record) -> str:
    if isinstance(item, Alias):
        return f"    Alias({_quoted(item.name)}, {_quoted(item.text)}),\n"
    if isinstance(item, Enum):
        values = "".join(f"        ({_quoted(name)}, {_quoted(value)}),\n" for name, value in item.values)
        return f"    Enum({_quoted(item.name)}, {_quoted(item.tag)}, (\n{values}    )),\n"
    members = _members(item.members, " " * 8)
    head = f"{_quoted(item.name)}, {_quoted(item.kind)}, {_quoted(item.tag)}, {item.size}"
    return f"    Record({head}, (\n{members}    )),\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    too_long = any(len(line) > 120 for line in text.splitlines())
    path.write_text("# ruff: noqa: E501\n" + text if too_long else text)


def write_types(headers: Headers, version: str) -> None:
    """`api/seed/types.py`, `enums.py` and `constants.py`."""
    items: dict[str, Alias | Enum | Record] = {}
    for item in headers.types():
        items.setdefault(item.name or getattr(item, "tag", ""), item)
    enums = [item for item in items.values() if isinstance(item, Enum)]
    others = [item for item in items.values() if not isinstance(item, Enum)]
    head = HEAD.format(what="Enumerations of the driver API", version=version)
    body = "".join(map(_type_text, enums))
    _write(API / "seed/enums.py", f"{head}from api.model import Enum\n\nENUMS: tuple[Enum, ...] = (\n{body})\n")
    head = HEAD.format(
        what="Handles, scalars, structs and callbacks of the driver API, in dependency order", version=version
    )
    body = "".join(map(_type_text, others))
    imports = "from api.model import Alias, Group, Record\n\n"
    _write(API / "seed/types.py", f"{head}{imports}TYPES: tuple[Alias | Record, ...] = (\n{body})\n")
    head = HEAD.format(what="Constants of the driver API that its headers define as macros", version=version)
    body = "".join(f"    ({_quoted(name)}, {_quoted(value)}),\n" for name, value in headers.constants())
    _write(API / "seed/constants.py", f"{head}CONSTANTS: tuple[tuple[str, str], ...] = (\n{body})\n")


def write_functions(headers: Headers, exported: list[str], version: str) -> None:
    """`api/seed/functions_<family>.py`: one line per exported symbol."""
    known: dict[str, Function] = {}
    for function in headers.functions():
        known.setdefault(function.name, function)
    by_family: dict[str, list[Function]] = {name: [] for name, _, _ in FAMILIES}
    for symbol in exported:
        by_family[family_of(symbol)].append(known.get(symbol, Function(symbol, None)))
    for family, what, _ in FAMILIES:
        lines = "".join(
            f"    Function({_quoted(f.name)}, {'None' if f.params is None else _strings(f.params)}),\n"
            for f in by_family[family]
        )
        head = HEAD.format(what=f"Functions of the {family} family: {what}", version=version)
        body = f"{head}from api.model import Function\n\nFUNCTIONS: tuple[Function, ...] = (\n{lines})\n"
        _write(API / f"seed/functions_{family}.py", body)


def write_answers(headers: Headers, exported: list[str], version: str) -> None:
    """`api/seed/answers.py`: which symbol `cuGetProcAddress` picks for a name and version."""
    legacy, per_thread = headers.versions()
    answers = join(API / "getproc_580.txt", legacy, per_thread, set(exported))
    lines = []
    for base, rows in answers.items():
        inner = "".join(
            f"        Answer({row.since}, {_quoted(row.symbol)}, {_quoted(row.per_thread)}),\n" for row in rows
        )
        lines.append(f"    {_quoted(base)}: (\n{inner}    ),\n")
    head = HEAD.format(what="What cuGetProcAddress picks for a base name, by requested version", version=version)
    body = "".join(lines)
    _write(API / "seed/answers.py", f"{head}from api.model import Answer\n\n"
           f"ANSWERS: dict[str, tuple[Answer, ...]] = {{\n{body}}}\n")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gen.seed", description=__doc__)
    parser.add_argument("--headers", type=Path, required=True, help="folder with cuda.h and cudaTypedefs.h")
    headers = Headers(parser.parse_args().headers)
    version = dict(headers.constants())["CUDA_VERSION"]
    exported = exported_symbols()
    write_types(headers, version)
    write_functions(headers, exported, version)
    write_answers(headers, exported, version)
    _write(
        API / "seed/__init__.py", '"""The machine-seeded part of the API data; `python -m gen.seed` rewrites it."""\n'
    )


if __name__ == "__main__":
    main()
