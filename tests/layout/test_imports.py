"""Who may import or include whom (docs/design/layout-rules.md)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "src" / "torpor"

ALLOWED = {
    "errors": set(),
    "paths": set(),
    "records": {"errors", "paths"},
    "writeback": {"paths", "records"},
    "driver": {"errors", "paths"},
    "direct_io": set(),
    "image": {"errors", "paths", "direct_io"},
    "process": {"errors", "paths", "records"},
    "store": {"errors", "paths", "records", "direct_io", "image", "process"},
    "keeper": {"errors", "paths", "records", "writeback", "driver", "direct_io", "image", "process", "store"},
}
"""Layer → layers that it may import beside itself and the package's version. The rest (API, command line) may all."""

SUPERVISOR = (
    *("supervisor", "spawn", "streams", "loop", "mounts", "wire", "requests", "criu_run", "pinned_fill"),
    *("side_by_side", "shares"),
)
"""Modules of `process` that run inside the job's supervisor: standard library and each other, nothing else."""

PROGRAMS = PACKAGE / "bench" / "programs"
"""What `torpor bench` runs as jobs: programs on their own, which know nothing of Torpor."""

NATIVE_PARTS = ("cupti", "interposer", "simgpu")


def imports(file: Path) -> Iterator[str]:
    """Full names of the modules that a file imports when it runs (imports for type checkers are left out)."""
    tree = ast.parse(file.read_text())
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending += ast.iter_child_nodes(node)


def modules(layer: str) -> list[Path]:
    folder = PACKAGE / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{layer}.py"]


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_layers_import_downwards_only(layer: str) -> None:
    parts = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    found = modules(layer)
    assert found
    wrong = []
    for file in found:
        for name in imports(file):
            pieces = name.split(".")
            if pieces[0] != "torpor" or len(pieces) < 2 or pieces[1] not in parts:
                continue
            if pieces[1] not in ALLOWED[layer] | {layer}:
                wrong.append((file.name, name))
    assert wrong == []


@pytest.mark.parametrize("module", SUPERVISOR)
def test_the_supervisor_is_light(module: str) -> None:
    own = {f"torpor.process.{name}" for name in SUPERVISOR}
    for name in imports(PACKAGE / "process" / f"{module}.py"):
        if name.startswith("torpor."):
            assert any(name == one or name.startswith(f"{one}.") for one in own | {"torpor.process"})
        else:
            assert name.split(".")[0] in sys.stdlib_module_names


def package_files() -> list[Path]:
    return [file for file in PACKAGE.rglob("*.py") if PROGRAMS not in file.parents]


def test_only_the_driver_layer_knows_the_bindings() -> None:
    users = {file for file in package_files() if any(name.split(".")[0] == "cuda" for name in imports(file))}
    assert users
    assert {file.parent.name for file in users} == {"driver"}


def test_only_the_command_line_prints() -> None:
    printing = re.compile(r"^\s*print\(", re.MULTILINE)
    assert [file for file in package_files() if file.parent.name != "cli" and printing.search(file.read_text())] == []


def test_the_programs_of_the_benchmark_know_nothing_of_torpor() -> None:
    files = sorted(PROGRAMS.glob("*.py"))
    assert files
    assert [(f.name, name) for f in files for name in imports(f) if name.split(".")[0] == "torpor"] == []


def test_the_api_description_imports_nothing_of_the_project() -> None:
    files = sorted((REPOSITORY / "api").rglob("*.py"))
    assert files
    for file in files:
        for name in imports(file):
            assert name.split(".")[0] in {*sys.stdlib_module_names, "api"}, f"{file}: {name}"


@pytest.mark.parametrize("part", NATIVE_PARTS)
def test_native_parts_do_not_include_each_other(part: str) -> None:
    others = [other for other in NATIVE_PARTS if other != part]
    files = [path for ending in ("*.cpp", "*.h") for path in (REPOSITORY / "native" / part).rglob(ending)]
    assert files
    include = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
    wrong = [
        (file.name, name)
        for file in files
        for name in include.findall(file.read_text())
        if any(name.startswith(f"{other}/") or f"/{other}/" in name for other in others) or name.endswith("cuda.h")
    ]
    assert wrong == []
