"""Reads the vendor's headers into declarations, for `gen.seed`.

Needs `pycparser` and a C compiler; only seeding does, generation and builds do not.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser  # type: ignore[import-untyped]

from api.model import Alias, Enum, Function, Group, Record

TYPE_HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
TYPEDEF_HEADERS = (
    "cudaTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h", "cudaProfilerTypedefs.h",
)  # fmt: skip

# What the interop headers take from graphics systems, reduced to the ABI.
FOREIGN = {
    "GL/gl.h": "typedef unsigned int GLenum;\ntypedef unsigned int GLuint;\n",
    "EGL/egl.h": "typedef int EGLint;\n",
    "EGL/eglext.h": "typedef void *EGLImageKHR;\ntypedef void *EGLStreamKHR;\ntypedef void *EGLSyncKHR;\n",
    "vdpau/vdpau.h": (
        "typedef uint32_t VdpDevice;\ntypedef uint32_t VdpVideoSurface;\ntypedef uint32_t VdpOutputSurface;\n"
        "typedef int VdpGetProcAddress(VdpDevice device, uint32_t function, void **address);\n"
    ),
    "stdint.h": (
        "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\ntypedef short int16_t;\n"
        "typedef unsigned short uint16_t;\ntypedef int int32_t;\ntypedef unsigned int uint32_t;\n"
        "typedef long int64_t;\ntypedef unsigned long uint64_t;\n"
    ),
    "stdlib.h": "typedef unsigned long size_t;\n",
}
NOT_OURS = {"int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "size_t"}


class Headers:
    """The declarations of one header folder, comments and macros gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stubs = tempfile.TemporaryDirectory(prefix="torpor-seed-")
        for name, text in FOREIGN.items():
            path = Path(self._stubs.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._c = c_generator.CGenerator()
        self.ast = c_parser.CParser().parse(self._preprocess("-P"))

    def _source(self) -> str:
        names = ("vdpau/vdpau.h", *TYPE_HEADERS, *TYPEDEF_HEADERS)
        return "#include <stdint.h>\n#include <stdlib.h>\n" + "".join(f"#include <{name}>\n" for name in names)

    def _preprocess(self, *flags: str) -> str:
        command = ["cc", "-E", *flags, "-D__CUDA_API_VERSION_INTERNAL", "-U__GNUC__", "-D__attribute__(x)=",
                   f"-I{self._stubs.name}", f"-I{self.folder}", "-xc", "-"]  # fmt: skip
        done = subprocess.run(command, input=self._source(), capture_output=True, text=True, check=True)
        return done.stdout

    def constants(self) -> list[tuple[str, str]]:
        """Object-like macros that are part of the API, in the order of their definition."""
        found: dict[str, str] = {}
        for match in re.finditer(r"^#define ((?:CU_|CUDA_|MAX_PLANES)\w*) (.+)$", self._preprocess("-dD"), re.M):
            name, value = match[1], match[2].strip()
            if not name.endswith("_H") and not name.endswith("_H_") and name != "CUDA_CB":
                found[name] = value
        return [item for item in found.items() if item[0] != "CU_UUID_HAS_BEEN_DEFINED"]

    def types(self) -> Iterator[Alias | Enum | Record]:
        """Every type that a signature needs, in an order in which C accepts them."""
        sizes = self._sizes()
        for node in self.ast.ext:
            if isinstance(node, c_ast.Typedef) and not node.name.startswith("PFN_") and node.name not in NOT_OURS:
                yield self._type(node, sizes)
            elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum) and node.type.values:
                yield Enum("", node.type.name, self._values(node.type))
            elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.decls:
                members = self._members(node.type)
                yield Record("", "struct", node.type.name, sizes[f"struct {node.type.name}"], members)

    def functions(self) -> Iterator[Function]:
        for node in self.ast.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and node.name.startswith("cu"):
                yield Function(node.name, self._params(node.type))

    def versions(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Base name -> CUDA versions at which a variant became current: the plain ones, the per-thread-stream ones."""
        plain: dict[str, list[int]] = {}
        per_thread: dict[str, list[int]] = {}
        for node in self.ast.ext:
            match = re.fullmatch(r"PFN_(cu\w+?)_v(\d+)(_pt[ds][sz])?", getattr(node, "name", None) or "")
            if match:
                (per_thread if match[3] else plain).setdefault(match[1], []).append(int(match[2]))
        for found in (plain, per_thread):
            for versions in found.values():
                versions.sort()
        return plain, per_thread

    def _type(self, node: c_ast.Typedef, sizes: dict[str, int]) -> Alias | Enum | Record:
        inner = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        if isinstance(inner, c_ast.Enum) and inner.values:
            return Enum(node.name, inner.name or "", self._values(inner))
        if isinstance(inner, (c_ast.Struct, c_ast.Union)) and inner.decls:
            kind = "struct" if isinstance(inner, c_ast.Struct) else "union"
            return Record(node.name, kind, inner.name or "", sizes[node.name], self._members(inner))
        text = self._c.visit(c_ast.Decl(node.name, [], [], [], [], node.type, None, None))
        return Alias(node.name, text)

    def _values(self, node: c_ast.Enum) -> tuple[tuple[str, str], ...]:
        values: list[tuple[str, str]] = []
        following = "0"
        for item in node.values.enumerators:
            text = self._c.visit(item.value) if item.value is not None else following
            values.append((item.name, text))
            following = str(int(text, 0) + 1) if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text) else f"{item.name} + 1"
        return tuple(values)

    def _members(self, node: c_ast.Struct | c_ast.Union) -> tuple[str | Group, ...]:
        members: list[str | Group] = []
        for decl in node.decls:
            inner, suffix = decl.type, ""
            while isinstance(inner, (c_ast.TypeDecl, c_ast.ArrayDecl)):
                if isinstance(inner, c_ast.ArrayDecl):
                    suffix += f"[{self._c.visit(inner.dim)}]"
                inner = inner.type
            if isinstance(inner, (c_ast.Struct, c_ast.Union)) and inner.decls:
                kind = "struct" if isinstance(inner, c_ast.Struct) else "union"
                members.append(Group(kind, (decl.name or "") + suffix, self._members(inner)))
            else:
                members.append(self._c.visit(decl))
        return tuple(members)

    def _params(self, node: c_ast.FuncDecl) -> tuple[str, ...]:
        if node.args is None:
            return ()
        params = tuple(self._c.visit(param) for param in node.args.params)
        return () if params == ("void",) else params

    def _sizes(self) -> dict[str, int]:
        """Sizes of all structs and unions, asked from the compiler."""
        names: list[str] = []
        for node in self.ast.ext:
            inner = node.type.type if isinstance(getattr(node, "type", None), c_ast.TypeDecl) else None
            if isinstance(node, c_ast.Typedef) and isinstance(inner, (c_ast.Struct, c_ast.Union)) and inner.decls:
                names.append(node.name)
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.decls:
                names.append(f"struct {node.type.name}")
        lines = [f'    printf("%s=%zu\\n", "{name}", sizeof({name}));' for name in names]
        program = "".join(f"#include <{name}>\n" for name in ("stdio.h", "vdpau/vdpau.h", *TYPE_HEADERS))
        program = f"#include <stdint.h>\n{program}int main(void)\n{{\n" + "\n".join(lines) + "\n}\n"
        with tempfile.TemporaryDirectory() as work:
            for name, text in FOREIGN.items():
                if "/" in name:
                    Path(work, name).parent.mkdir(exist_ok=True)
                    Path(work, name).write_text(text)
            binary = Path(work, "sizes")
            command = [
                "cc",
                "-D__CUDA_API_VERSION_INTERNAL",
                f"-I{work}",
                f"-I{self.folder}",
                "-xc",
                "-",
                "-o",
                str(binary),
            ]
            subprocess.run(command, input=program, text=True, check=True)
            output = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
        return {name: int(size) for name, size in (line.split("=") for line in output.splitlines())}
