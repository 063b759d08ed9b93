"""Every instruction of the GCU, stated once.

From this table come the opcodes, the encoder, the disassembler, the reference page, the bodies of the C
machine in all its modes with their hooks, and the Python oracle. An instruction states:

- `operands`: "ROLE KIND NAME" separated by commas. Roles: `>` writes, `<` reads, `+` reads and writes
  (accumulates), `#` is a number in the instruction itself. Kinds: `r` scalar register (32 bits), `t` tile
  register (a view of memory), `v` vector register (128 bytes), `i` immediate, `l` label (a program
  counter), `b` buffer, `g` global parameter, `s` string.
- `unit`: S scalar, V vector, M matrix, D data transfer engine (DTE), Y synchronisation.
- `shape`: for tile results, how the extents of `d` follow from the sources: "broadcast" of all read tiles,
  "same" as `a`, "reduce" (extent 1 along the axis), "matmul" (rows of `a` by columns of `b`), "gather" (`a`
  with the axis as long as the index tile's), "" (as it is).
- `cost`: what the unit does, as an expression over `groups(x)` (128-byte vectors a tile occupies, row by
  row), `elements(x)`, `macs` (multiply-accumulates), in units of work; the specification says how many a
  cycle.
- `flops`: floating-point operations, as such an expression.
- `c`, `py`: the body. Scalar bodies are expressions of `a`, `b`, `c`; the result goes to `d`. Tile bodies
  are calls of the tile library, the same call in C (`tk_NAME`) and in its Python twin (`NAME`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tops_kit.isa.dtypes import DTYPES

TABLE_VERSION = 2  # grows when an instruction changes its meaning or number: programs carry it

MAX_OPERANDS = 7  # 16-bit each; with the opcode one instruction is 16 bytes


@dataclass(frozen=True)
class Operand:
    """One operand: `role` of > < + #, `kind` of r t v i l b g s, and the name its body uses."""

    role: str
    kind: str
    name: str

    @property
    def reads(self) -> bool:
        """Whether the register is read."""
        return self.role in "<+"

    @property
    def writes(self) -> bool:
        """Whether the register is written."""
        return self.role in ">+"


@dataclass(frozen=True)
class Instruction:
    """One line of the table; see the module's text for the fields."""

    name: str
    signature: str
    unit: str
    text: str
    c: str = ""
    py: str = ""
    type: str = "i"  # of a scalar result and its sources: "i" or "f"; "fi" = from f to i, "if" = from i to f
    shape: str = ""
    cost: str = "1"
    flops: str = "0"
    group: str = ""

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in encoding order."""
        parts = [part.split() for part in self.signature.split(",") if part.strip()]
        return tuple(Operand(role_kind[0], role_kind[1], name) for role_kind, name in parts)

    def operand(self, name: str) -> Operand:
        """The operand of that name; KeyError when there is none."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise KeyError(f"{self.name} has no operand {name}")


def _control() -> list[Instruction]:
    return [
        Instruction("end", "", "Y", "end of the kernel for this thread", group="control"),
        Instruction("jmp", "#l target", "S", "jump", group="control"),
        Instruction("brz", "<r a, #l target", "S", "jump when a is 0", group="control"),
        Instruction("brnz", "<r a, #l target", "S", "jump when a is not 0", group="control"),
        Instruction("blt", "<r a, <r b, #l target", "S", "jump when a < b (signed)", group="control"),
        Instruction("bge", "<r a, <r b, #l target", "S", "jump when a >= b (signed)", group="control"),
        Instruction("barrier", "", "Y", "wait for all threads of the block", group="control"),
        Instruction("gridbarrier", "", "Y", "wait for all threads of a cooperative grid", group="control"),
        Instruction("assert", "<r a, #s message", "S", "fault `assert` when a is 0", group="control"),
        Instruction("printarg", "<r a, #i kind", "S",
                    "append a scalar to the print (kind: 0 i32, 1 f32, 2 bool)",
                    group="control"),
        Instruction("printtile", "<t a", "S", "append the values of a tile to the print", group="control"),
        Instruction("print", "#s format", "S", "write the print out: one line of this thread",
                    group="control"),
        Instruction("brk", "", "S", "stop here under a debugger; nothing otherwise", group="control"),
        Instruction("special", ">r d, #i which", "S", "a number of the launch: see SPECIAL", group="control"),
        Instruction("clock", ">r d", "S", "cycles of this thread since its start, as if it were alone",
                    group="control"),
    ]  # fmt: skip


# numbers that `special` reads, in the order of their immediates
SPECIAL = (
    "thread_id", "num_threads", "local_id", "block_size", "block_id", "num_blocks",
    "local_x", "local_y", "local_z", "block_x", "block_y", "block_z",
    "block_dim_x", "block_dim_y", "block_dim_z", "grid_dim_x", "grid_dim_y", "grid_dim_z",
)  # fmt: skip


# name: (C, Python, text); Python ints are wrapped to 32 bits by the generator; `w` is the unsigned value
_INT_BINARY = {
    "iadd": ("(int32_t)((uint32_t)a + (uint32_t)b)", "a + b", "sum"),
    "isub": ("(int32_t)((uint32_t)a - (uint32_t)b)", "a - b", "difference"),
    "imul": ("(int32_t)((uint32_t)a * (uint32_t)b)", "a * b", "product"),
    "iand": ("a & b", "a & b", "bitwise and"),
    "ior": ("a | b", "a | b", "bitwise or"),
    "ixor": ("a ^ b", "a ^ b", "bitwise exclusive or"),
    "ishl": ("(int32_t)((uint32_t)a << (b & 31))", "a << (b & 31)", "shift left by b modulo 32"),
    "ishr": ("a >> (b & 31)", "a >> (b & 31)", "arithmetic shift right by b modulo 32"),
    "iushr": ("(int32_t)((uint32_t)a >> (b & 31))", "(a & 0xFFFFFFFF) >> (b & 31)", "logical shift right"),
    "imin": ("a < b ? a : b", "a if a < b else b", "lesser"),
    "imax": ("a > b ? a : b", "a if a > b else b", "greater"),
    "ilt": ("a < b", "int(a < b)", "1 when a < b"),
    "ile": ("a <= b", "int(a <= b)", "1 when a <= b"),
    "igt": ("a > b", "int(a > b)", "1 when a > b"),
    "ige": ("a >= b", "int(a >= b)", "1 when a >= b"),
    "ieq": ("a == b", "int(a == b)", "1 when equal"),
    "ine": ("a != b", "int(a != b)", "1 when different"),
}
# these fault `divide` when b is 0; floor semantics, as Python's
_INT_DIVIDE = {
    "idiv": ("idiv_floor(a, b)", "a // b", "quotient, rounded down"),
    "imod": ("imod_floor(a, b)", "a % b", "remainder with the sign of b"),
}
_FLOAT_BINARY = {
    "fadd": ("a + b", "a + b", "sum"),
    "fsub": ("a - b", "a - b", "difference"),
    "fmul": ("a * b", "a * b", "product"),
    "fdiv": ("a / b", "a / b", "quotient"),
    "fmin": ("(a < b || a != a) ? a : b", "a if a < b or a != a else b", "lesser; NaN when either is"),
    "fmax": ("(a > b || a != a) ? a : b", "a if a > b or a != a else b", "greater; NaN when either is"),
}
# through the tile library on one element, as the functions below
_FLOAT_DIVIDE = {
    "ffloordiv": ("floordiv", "quotient, rounded down: Python's, of the exact remainder"),
    "fmod": ("mod", "remainder with the sign of b: Python's, exact but for one rounding"),
}
_FLOAT_COMPARE = {
    "flt": ("a < b", "int(a < b)", "1 when a < b"),
    "fle": ("a <= b", "int(a <= b)", "1 when a <= b"),
    "fgt": ("a > b", "int(a > b)", "1 when a > b"),
    "fge": ("a >= b", "int(a >= b)", "1 when a >= b"),
    "feq": ("a == b", "int(a == b)", "1 when equal"),
    "fne": ("a != b", "int(a != b)", "1 when different or NaN"),
}
_INT_UNARY = {
    "imov": ("a", "a", "copy"),
    "ineg": ("(int32_t)(0u - (uint32_t)a)", "-a", "negative"),
    "inot": ("~a", "~a", "bitwise complement"),
    "iabs": ("a < 0 ? (int32_t)(0u - (uint32_t)a) : a", "abs(a)", "absolute value"),
    "lnot": ("!a", "int(not a)", "1 when a is 0"),
    "narrow8": ("(int8_t)a", "((a & 0xFF) ^ 0x80) - 0x80", "the low 8 bits, signed"),
    "narrow16": ("(int16_t)a", "((a & 0xFFFF) ^ 0x8000) - 0x8000", "the low 16 bits, signed"),
    "narrowu8": ("(uint8_t)a", "a & 0xFF", "the low 8 bits, unsigned"),
    "tobool": ("a != 0", "int(a != 0)", "1 when a is not 0"),
}
# scalar functions of floats go through the tile library on one element: scalar and tile agree to the bit
UNARY_FUNCTIONS = (
    "neg", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "cos", "floor", "ceil",
    "recip",
)  # fmt: skip


def _scalar() -> list[Instruction]:
    def make(
        name: str, body: tuple[str, str, str], sources: int, type_: str, *, cost: str = "1", flops: str = "0"
    ) -> Instruction:
        names = ", ".join(f"<r {letter}" for letter in "abc"[:sources])
        return Instruction(name, f">r d, {names}", "S", body[2], body[0], body[1], type_, cost=cost,
                           flops=flops, group="scalar")  # fmt: skip

    out = [make(name, body, 2, "i") for name, body in _INT_BINARY.items()]
    out += [make(name, body, 2, "i", cost="8") for name, body in _INT_DIVIDE.items()]
    out += [make(name, body, 1, "i") for name, body in _INT_UNARY.items()]
    out += [make(name, body, 2, "f", flops="1") for name, body in _FLOAT_BINARY.items()]
    out += [
        make(name, (f"tk_scalar_binary(TK_{op.upper()}, a, b)", f"scalar_binary('{op}', a, b)", text), 2, "f",
             cost=str(_SLOW_COST[op]), flops="1")
        for name, (op, text) in _FLOAT_DIVIDE.items()
    ]  # fmt: skip
    out += [make(name, body, 2, "fi") for name, body in _FLOAT_COMPARE.items()]
    out += [
        Instruction("fmov", ">r d, <r a", "S", "copy", "a", "a", "f", group="scalar"),
        Instruction("fma", ">r d, <r a, <r b, <r c", "S", "a * b + c, rounded once", "fmaf(a, b, c)",
                    "fma32(a, b, c)", "f", flops="2", group="scalar"),
        Instruction("i2f", ">r d, <r a", "S", "to f32, to nearest even", "(float)a", "float32(a)", "if",
                    group="scalar"),
        Instruction("f2i", ">r d, <r a", "S", "to i32, towards 0, saturating; NaN gives 0", "f2i_sat(a)",
                    "f2i_sat(a)", "fi", group="scalar"),
        Instruction("roundf16", ">r d, <r a", "S", "rounded to f16's values", "tk_round_f16(a)",
                    "round_f16(a)", "f", group="scalar"),
        Instruction("roundbf16", ">r d, <r a", "S", "rounded to bf16's values", "tk_round_bf16(a)",
                    "round_bf16(a)", "f", group="scalar"),
        Instruction("select", ">r d, <r c, <r a, <r b", "S", "a when c is not 0, else b (any type)",
                    group="scalar"),
    ]  # fmt: skip
    out += [
        Instruction("f" + name, ">r d, <r a", "S", f"{name} of a scalar, as the tile function",
                    f"tk_scalar(TK_{name.upper()}, a)",
                    f"scalar_function('{name}', a)", "f", cost="4", flops="1", group="scalar")
        for name in UNARY_FUNCTIONS
    ]  # fmt: skip
    return out


def _views() -> list[Instruction]:
    return [
        Instruction("tbuf", ">t d, #b buffer, <r slot, #i result", "S",
                    "view of one slot of a buffer; result 1: extents follow from what is written "
                    "(a compiler's tile)",
                    group="view"),
        Instruction("tptr", ">t d, #g parameter", "S", "view of a whole array in L3", group="view"),
        Instruction("tindex", ">t d, <t a, #i axis, <r index", "S", "fix one axis; it disappears",
                    group="view"),
        Instruction("tslice", ">t d, <t a, #i axis, <r start, <r stop", "S",
                    "part of one axis, within the view: [start, stop), 0 <= start <= stop <= its extent",
                    group="view"),
        Instruction("tover", ">t d, <t a, #i axis, <r start, <r stop", "S",
                    "part of one axis that may reach outside, start <= stop; what lies outside can be "
                    "padded or clipped by the DTE",
                    group="view"),
        Instruction("tstep", ">t d, <t a, #i axis, <r step", "S",
                    "every step-th element of one axis; step >= 1",
                    group="view"),
        Instruction("tperm", ">t d, <t a, #i order", "S",
                    "axes in another order: 3 bits an axis, the first in the lowest", group="view"),
        Instruction("tshape", ">t d, <t a, #i rank, <r n0, <r n1, <r n2", "S",
                    "dense view with other extents and as many elements; axes of 1 come and go in any view",
                    group="view"),
        Instruction("tdim", ">r d, <t a, #i axis", "S", "extent of one axis", group="view"),
        Instruction("tcopyview", ">t d, <t a", "S", "the same view in another register", group="view"),
    ]  # fmt: skip


def _memory() -> list[Instruction]:
    atomics = ("add", "min", "max", "and", "or", "xor", "exchange")
    out = [
        Instruction("lds", ">r d, <t a, <r i, <r j, <r k", "S",
                    "read one element (as many indices as axes; f16, bf16 widen to f32, small ints to i32)",
                    cost="1", group="memory"),
        Instruction("sts", "<t d, <r i, <r j, <r k, <r a", "S",
                    "write one element, narrowed to the tile's type",
                    cost="1", group="memory"),
    ]  # fmt: skip
    out += [
        Instruction(f"atomic_{name}", ">r d, <t a, <r b", "S",
                    f"{name} on one element of L2 or L3 (a view without axes); d is the old value",
                    cost="1", group="atomic")
        for name in atomics
    ]  # fmt: skip
    out += [
        Instruction("atomic_cas", ">r d, <t a, <r expected, <r b", "S",
                    "b into the element if it is `expected`; d is the old value", cost="1", group="atomic"),
        Instruction("tatomic_add", "+t d, <t a", "D",
                    "add a tile in L1 to L2 or L3, element by element, atomically",
                    "atomic_add(d, a)", "atomic_add(d, a)", group="atomic", flops="elements(a)"),
    ]  # fmt: skip
    return out


BINARY = ("add", "sub", "mul", "div", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
REDUCE = ("sum", "max", "min", "argmax", "argmin", "any", "all")
_SLOW_COST = {"div": 4, "floordiv": 8, "mod": 8}
_FUNCTION_COST = {"neg": 1, "abs": 1, "floor": 1, "ceil": 1, "sqrt": 4, "recip": 4}  # the others: 4


def _tiles() -> list[Instruction]:
    out: list[Instruction] = []
    for name in BINARY + COMPARE:
        kind = "compare" if name in COMPARE else "binary"
        cost = _SLOW_COST.get(name, 1)
        flops = "0" if name in (*COMPARE, "and", "or", "xor", "shl", "shr") else "elements(d)"
        for form, signature in (
            ("", ">t d, <t a, <t b"),
            ("_s", ">t d, <t a, <r b"),
            ("_rs", ">t d, <r a, <t b"),
        ):
            call = f"{kind}{form}({name.upper()}, d, a, b)"
            out.append(Instruction(f"t{name}{form}", signature, "V",
                                   f"{name} by elements" + {"": "", "_s": " with a scalar on the right",
                       "_rs": " with a scalar on the left"}[form], call, call, shape="broadcast",
                       cost=f"{cost} * groups(d)", flops=flops, group="tile"))  # fmt: skip
    for name in (*UNARY_FUNCTIONS, "not"):
        cost = _FUNCTION_COST.get(name, 1 if name == "not" else 4)
        call = f"unary({name.upper()}, d, a)"
        out.append(Instruction(f"t{name}", ">t d, <t a", "V", f"{name} by elements", call, call, shape="same",
                               cost=f"{cost} * groups(d)", flops="elements(d)", group="tile"))  # fmt: skip
    for name in REDUCE:
        call = f"reduce({name.upper()}, d, a, axis)"
        out.append(Instruction(f"tr{name}", ">t d, <t a, #i axis", "V",
                               f"{name} along an axis, which stays with extent 1",
                               call, call, shape="reduce", cost="groups(a)", flops="elements(a)",
                               group="tile"))  # fmt: skip
    out += [
        Instruction("tfma", ">t d, <t a, <t b, <t c", "V", "a * b + c by elements, rounded once",
                    "fma(d, a, b, c)",
                    "fma(d, a, b, c)", shape="broadcast", cost="groups(d)", flops="2 * elements(d)",
                    group="tile"),
        Instruction("tselect", ">t d, <t c, <t a, <t b", "V", "a where c, else b", "select(d, c, a, b)",
                    "select(d, c, a, b)", shape="broadcast", cost="groups(d)", group="tile"),
        Instruction("tcopy", ">t d, <t a", "V", "copy, converted to d's type", "copy(d, a)", "copy(d, a)",
                    shape="same", cost="groups(d)", group="tile"),
        Instruction("tfill", ">t d, <r a", "V", "one value everywhere (d keeps its extents)", "fill(d, a)",
                    "fill(d, a)",
                    cost="groups(d)", group="tile"),
        Instruction("tiota", ">t d, <r a, <r b, #i axis", "V",
                    "a + b * index along an axis (d keeps its extents)",
                    "iota(d, a, b, axis)", "iota(d, a, b, axis)", cost="groups(d)", group="tile"),
        Instruction("textent", ">t d, #i rank, <r n0, <r n1, <r n2", "S",
                    "extents of a result tile, before what keeps them; at most those of its buffer",
                    group="view"),
        Instruction("tcumsum", ">t d, <t a, #i axis", "V", "running sum along an axis, in order",
                    "cumsum(d, a, axis)",
                    "cumsum(d, a, axis)", shape="same", cost="2 * groups(a)", flops="elements(a)",
                    group="tile"),
        Instruction("tgather", ">t d, <t a, <t b, #i axis", "V",
                    "d[i] = a[b[i]] along an axis; other axes broadcast; a fault when outside",
                    "gather(d, a, b, axis)",
                    "gather(d, a, b, axis)", shape="gather", cost="4 * groups(d)", group="tile"),
        Instruction("tscatter", "+t d, <t b, <t a, #i axis", "V", "d[b[i]] = a[i] along an axis, in order",
                    "scatter(d, b, a, axis)", "scatter(d, b, a, axis)",
                    cost="4 * max(groups(a), groups(b))", group="tile"),
        Instruction("tscatter_add", "+t d, <t b, <t a, #i axis", "V",
                    "d[b[i]] += a[i] along an axis, in order",
                    "scatter_add(d, b, a, axis)", "scatter_add(d, b, a, axis)",
                    cost="4 * max(groups(a), groups(b))", flops="max(elements(a), elements(b))",
                    group="tile"),
        Instruction("mma", "+t d, <t a, <t b", "M",
                    "d += a @ b; the views may be transposed; sums in order of k",
                    "mma(d, a, b)", "mma(d, a, b)", shape="", cost="macs", flops="2 * macs", group="matrix"),
        Instruction("matmul", ">t d, <t a, <t b", "M", "d = a @ b", "matmul(d, a, b)", "matmul(d, a, b)",
                    shape="matmul", cost="macs", flops="2 * macs", group="matrix"),
    ]  # fmt: skip
    return out


def _dte() -> list[Instruction]:
    common = "<r after, #i channel"
    return [
        Instruction("dma", f">r event, >t d, <t a, {common}", "D",
                    "copy between memories, any strides on both sides; starts when event `after` (0: none) "
                    "is complete",
                    "dma_copy(d, a)", "dma_copy(d, a)", group="dte"),
        Instruction("dmapad", f">r event, >t d, <t a, <r value, {common}", "D",
                    "copy; what of `a` lies outside its array becomes `value`", "dma_pad(d, a, value)",
                    "dma_pad(d, a, value)", group="dte"),
        Instruction("dmaclip", f">r event, >t d, <t a, {common}", "D",
                    "copy; what of `d` lies outside its array is left out", "dma_clip(d, a)",
                    "dma_clip(d, a)",
                    group="dte"),
        Instruction("dmaset", f">r event, >t d, <r value, {common}", "D", "fill with one value",
                    "dma_set(d, value)",
                    "dma_set(d, value)", group="dte"),
        Instruction("wait", "<r event", "Y", "until the transfer is complete; 0 is complete", group="dte"),
        Instruction("waitall", "", "Y", "until all transfers of this thread are complete", group="dte"),
    ]  # fmt: skip


def _vectors() -> list[Instruction]:
    t = "#i dtype"
    out = [
        Instruction("vld", ">v d, <t a, <r i", "V", "128 bytes of a dense view from element i",
                    group="vector"),
        Instruction("vst", "<t d, <r i, <v a", "V", "128 bytes to a dense view from element i",
                    group="vector"),
        Instruction("vsplat", f">v d, <r a, {t}", "V", "one value in all lanes", group="vector"),
        Instruction("viota", f">v d, {t}", "V", "0, 1, 2, ... in the lanes", group="vector"),
        Instruction("vmov", ">v d, <v a", "V", "copy", group="vector"),
        Instruction("vfma", f">v d, <v a, <v b, <v c, {t}", "V", "a * b + c by lanes, rounded once",
                    "vfma(d, a, b, c, dtype)",
                    "vfma(d, a, b, c, dtype)", flops="2 * lanes", group="vector"),
        Instruction("vselect", f">v d, <v c, <v a, <v b, {t}", "V", "a where c's lane is not 0, else b",
                    "vselect(d, c, a, b, dtype)", "vselect(d, c, a, b, dtype)", group="vector"),
    ]  # fmt: skip
    for name in BINARY:
        call = f"vbinary({name.upper()}, d, a, b, dtype)"
        out.append(Instruction("v" + name, f">v d, <v a, <v b, {t}", "V", f"{name} by lanes", call, call,
                               cost=str(_SLOW_COST.get(name, 1)), flops="lanes", group="vector"))  # fmt: skip
    for name in COMPARE:
        call = f"vcompare({name.upper()}, d, a, b, dtype)"
        out.append(Instruction("v" + name, f">v d, <v a, <v b, {t}", "V",
                               f"1 in lanes where a {name} b, else 0, in the same type",
                               call, call, group="vector"))  # fmt: skip
    for name in UNARY_FUNCTIONS:
        call = f"vunary({name.upper()}, d, a, dtype)"
        out.append(Instruction("v" + name, f">v d, <v a, {t}", "V", f"{name} by lanes", call, call,
                               cost=str(_FUNCTION_COST.get(name, 4)), flops="lanes",
                               group="vector"))  # fmt: skip
    for name in ("sum", "max", "min"):
        call = f"vreduce({name.upper()}, a, dtype)"
        out.append(Instruction("vr" + name, f">r d, <v a, {t}", "V", f"{name} of the lanes, in a fixed tree",
                               call, call,
                               cost="5", flops="lanes", group="vector"))  # fmt: skip
    return out


INSTRUCTIONS: tuple[Instruction, ...] = tuple(
    _control() + _scalar() + _views() + _memory() + _tiles() + _dte() + _vectors()
)
OPCODES: dict[str, int] = {instruction.name: number for number, instruction in enumerate(INSTRUCTIONS)}
DTYPE_CODES: dict[str, int] = {dtype.name: dtype.code for dtype in DTYPES}
