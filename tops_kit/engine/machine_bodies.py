"""The body of each instruction in C, put together from the instruction table.

A body is one block: its operands by the names of the table, the hooks that its operands' roles ask for,
the effect, the events for timing, the result. What each mode makes of the hooks stands in hooks_<mode>.h,
the macros in machine_core.h. Uses the standard library only: it runs while the package is being built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tops_kit.isa.table import Instruction, Operand

_SYNC_BEFORE_READ = "HOOK_ELEMENT_READ(a, at, tk_size[a->dtype]);\nHOOK_SYNC_EVENT(a);"
_SYNC_BEFORE_WRITE = "HOOK_ELEMENT_WRITE(d, at, tk_size[d->dtype]);\nHOOK_SYNC_EVENT(d);"

# what instructions do for which the table states no body in C
STATEMENTS = {
    "jmp": "JUMP(target);",
    "brz": "if (a == 0) JUMP(target);",
    "brnz": "if (a != 0) JUMP(target);",
    "blt": "if (a < b) JUMP(target);",
    "bge": "if (a >= b) JUMP(target);",
    "assert": "if (unlikely(a == 0)) CHECK(fault_set(self, FAULT_ASSERT, NULL, message, 0, 0, 0));",
    "printarg": "print_scalar(self, kind_, a);",
    "printtile": """\
CHECK(print_check(self, a));
HOOK_TILE_PRINT(a);
HOOK_SYNC_EVENT(a);
print_tile(self, a);""",
    "print": "print_finish(self, format);",
    "brk": "HOOK_BRK;",
    "special": "d = self->special[which];",
    "clock": "HOOK_CLOCK(d);",
    "select": "d = c ? a : b;",
    "tbuf": "CHECK(view_buffer(self, d, buffer, slot, result));",
    "tptr": "*d = self->arrays[parameter];",
    "tindex": "CHECK(view_index(self, d, a, axis, index));",
    "tslice": "CHECK(view_slice(self, d, a, axis, start, stop));",
    "tover": "CHECK(view_over(self, d, a, axis, start, stop));",
    "tstep": "CHECK(view_step(self, d, a, axis, step));",
    "tperm": "CHECK(view_permute(self, d, a, order));",
    "tshape": """\
const int32_t extent[] = {n0, n1, n2};
CHECK(view_reshape(self, d, a, tk_size[a->dtype], rank, extent));""",
    "tdim": """\
CHECK(view_axis(self, a, axis));
d = a->n[axis];""",
    "tcopyview": "*d = *a;",
    "textent": """\
const int32_t extent[] = {n0, n1, n2};
if (unlikely(tk_shape_extent(d, rank, extent))) CHECK(fault_shapes(self, d, rank, extent));""",
    "lds": f"""\
const int32_t index[] = {{i, j, k}};
uint8_t *at = NULL;
CHECK(element_address(self, a, index, &at));
{_SYNC_BEFORE_READ}
d = tk_load(at, a->dtype);""",
    "sts": f"""\
const int32_t index[] = {{i, j, k}};
uint8_t *at = NULL;
CHECK(element_address(self, d, index, &at));
{_SYNC_BEFORE_WRITE}
tk_store(at, d->dtype, a);""",
    "vld": """\
HOOK_VECTOR_READ(a, i);
if (unlikely((kind = tk_vload(d, a, i)))) {
    fault_vector(self, kind, a, i);
    goto faulted;
}""",
    "vst": """\
HOOK_VECTOR_WRITE(d, i);
if (unlikely((kind = tk_vstore(d, i, a)))) {
    fault_vector(self, kind, d, i);
    goto faulted;
}""",
    "vsplat": "tk_vsplat(d, a, dtype);",
    "viota": "tk_viota(d, dtype);",
    "vmov": "*d = *a;",
    "wait": """\
CHECK(transfer_known(self, event));
HOOK_WAIT((uint32_t)event);
if (HOOK_DEFERS) CHECK(transfer_complete(self, (uint32_t)event));
HOOK_WAIT_EVENT(EV_WAIT, (uint32_t)event);""",
    "waitall": """\
HOOK_WAIT_ALL;
if (HOOK_DEFERS) CHECK(transfer_complete_all(self));
HOOK_WAIT_EVENT(EV_WAITALL, 0);""",
    "barrier": """\
HOOK_WAIT_EVENT(EV_BARRIER, 0);
self->epoch++;
LEAVE(PC + 1, THREAD_AT_BARRIER);""",
    "gridbarrier": """\
HOOK_WAIT_EVENT(EV_GRIDBARRIER, 0);
self->grid_epoch++;
LEAVE(PC + 1, THREAD_AT_GRID_BARRIER);""",
    "end": """\
if (HOOK_DEFERS) CHECK(transfer_complete_all(self));
HOOK_END;
HOOK_WAIT_EVENT(EV_END, 0);
LEAVE(PC + 1, THREAD_ENDED);""",
}
_LEAVES = ("jmp", "barrier", "gridbarrier", "end")  # nothing comes after their statement
_C_TYPES = {"i": "int32_t", "f": "float"}
_FIELDS = {"int32_t": ".i", "uint32_t": ".u", "float": ".f", "reg": ""}
_RENAMED = {"kind": "kind_"}  # names of the table that the loop uses for something else
# scalar registers that are taken whole, since their type is that of a tile, or doesn't matter
_WHOLE = {
    "select": "dab",
    "lds": "d",
    "sts": "a",
    "printarg": "a",
    "vsplat": "a",
    "dmapad": "value",
    "dmaset": "value",
}
_KEPT_NAN = ("fmov", "roundf16", "roundbf16", "i2f")  # these keep a NaN's bits, or can't make one
_TRANSFERS = {"dma": "DMA_COPY", "dmapad": "DMA_PAD", "dmaclip": "DMA_CLIP", "dmaset": "DMA_SET"}
_SCATTERS = {"tscatter": "false", "tscatter_add": "true"}  # whether the old elements are read
_TARGETS = {"tgather": "a", "tscatter": "d", "tscatter_add": "d"}  # what their indices `b` go into
_SHAPES = {"same": "a", "reduce": "a, axis", "matmul": "a, b", "gather": "a, b, axis"}


def body(instruction: Instruction) -> str:
    """The block of an instruction. ValueError: neither the table nor this module states what it does."""
    x = instruction
    lines = [*_declarations(x), *_effect(x), *_results(x)]
    if x.name not in _LEAVES:
        lines.append("NEXT;")
    inside = "\n".join("    " + line for line in lines)
    return f"/* {x.text} */\nOP({x.name}) {{\n{inside}\n}}"


def _name(operand: Operand) -> str:
    return _RENAMED.get(operand.name, operand.name)


def _has(x: Instruction, name: str) -> bool:
    return any(operand.name == name for operand in x.operands)


def _tiles(x: Instruction) -> list[str]:
    """Tile operands: what is written first, then what is read."""
    tiles = [o for o in x.operands if o.kind == "t"]
    return [o.name for o in tiles if o.writes] + [o.name for o in tiles if not o.writes]


def _padded(names: list[str], count: int) -> str:
    return ", ".join([*names, *["NULL"] * count][:count])


def _declarations(x: Instruction) -> Iterator[str]:
    for position, operand in enumerate(x.operands):
        name, const = _name(operand), "" if operand.writes else "const "
        match operand.kind:
            case "r" if operand.writes:
                yield f"{_register_type(x, operand)} {name};"
            case "r":
                type_ = _register_type(x, operand)
                yield f"const {type_} {name} = R({position}){_FIELDS[type_]};"
            case "t":
                # a source may be the register whose extents are about to change: SEPARATE points it elsewhere
                fixed = "" if x.shape and not operand.writes else "const "
                yield f"{const}tile *{fixed}{name} = T({position});"
            case "v":
                yield f"{const}vreg *const {name} = V({position});"
            case _:
                yield f"const int {name} = I({position});"


def _register_type(x: Instruction, operand: Operand) -> str:
    if x.group == "scalar" and x.name != "select":
        return _C_TYPES[x.type[-1] if operand.writes else x.type[0]]
    if operand.name == "event":
        return "uint32_t" if operand.writes else "int32_t"
    if x.group in ("atomic", "tile") or (x.group == "vector" and operand.writes):
        return "reg"
    return "reg" if operand.name in _WHOLE.get(x.name, ()) else "int32_t"


def _results(x: Instruction) -> Iterator[str]:
    for position, operand in enumerate(x.operands):
        if operand.kind == "r" and operand.writes:
            yield f"R({position}){_FIELDS[_register_type(x, operand)]} = {_name(operand)};"


def _effect(x: Instruction) -> list[str]:
    if x.name in STATEMENTS:
        events = _vector_events(x) if x.group == "vector" else []
        return [*STATEMENTS[x.name].split("\n"), *events]
    if x.group == "scalar":
        return _scalar(x)
    if x.name in _TRANSFERS:
        return _transfer(x)
    if x.name.startswith("atomic_"):
        return _atomic(x)
    if x.name == "tatomic_add":
        return _tile_atomic(x)
    if x.group in ("tile", "matrix") and x.c:
        return _tile(x)
    if x.group == "vector" and x.c:
        call = _call(x)
        checked = f"d = {call};" if x.operands[0].kind == "r" else f"CHECK_TILES({call}, NULL, NULL, NULL);"
        return [checked, *_vector_events(x)]
    raise ValueError(f"{x.name} has no body: neither the table nor machine_bodies.py states it")


def _call(x: Instruction) -> str:
    """The call of the tile library: `binary(ADD, d, a, b)` is tk_binary(TK_ADD, d, a, b) in C."""
    return "tk_" + re.sub(r"\b([A-Z]+)\b", r"TK_\1", x.c)


def _scalar(x: Instruction) -> list[str]:
    out = []
    if x.name in ("idiv", "imod"):
        out.append("if (unlikely(b == 0)) CHECK(fault_set(self, FAULT_DIVIDE, NULL, a, 0, 0, 0));")
    value = x.c
    if x.type == "f" and x.name not in _KEPT_NAN and not value.startswith("tk_"):
        value = f"tk_canonical({value})"
    return [*out, f"d = {value};"]


def _tile(x: Instruction) -> list[str]:
    names = _tiles(x)
    reads = [o.name for o in x.operands if o.kind == "t" and not o.writes]
    concerned = f"{_sources_are(x)}, {_padded(names, 4)}"
    out = []
    if x.shape:
        out += [f"SEPARATE({name}, d);" for name in reads]
        if x.shape == "broadcast":
            out.append(f"const tile *const sources[] = {{{', '.join(reads)}}};")
            call = f"tk_shape_broadcast(d, {len(reads)}, sources)"
        else:
            call = f"tk_shape_{x.shape}(d, {_SHAPES[x.shape]})"
        out.append(f"CHECK_SOURCES({call}, {concerned});")
    out += _access_hooks(x)
    if x.name in _TARGETS:
        out += [
            f"if (unlikely((kind = {_call(x)}))) {{",
            f"    fault_sources(self, kind, {concerned});",
            f"    fault_index(self, b, a, {_TARGETS[x.name]}, axis);",
            "    goto faulted;",
            "}",
        ]
    else:
        out.append(f"CHECK_SOURCES({_call(x)}, {concerned});")
    if x.unit == "M":
        out.append("const int64_t macs = view_elements(d) * a->n[a->rank - 1];")
    largest = "a" if "a" in names and x.shape in ("reduce", "") else "d"
    unit = {"V": "EV_VECTOR", "M": "EV_MATRIX"}[x.unit]
    out.append("WORK(macs);" if x.unit == "M" else f"WORK(tile_bytes({largest}));")
    return [*out, f"HOOK_TILE_EVENT({unit}, {x.cost}, {x.flops}, {_padded(names, 4)});"]


def _sources_are(x: Instruction) -> str:
    """How the extents of the sources go together, for the fault of those that don't."""
    if x.unit == "M":
        return "SOURCES_PRODUCT"
    return "SOURCES_INDEXED" if x.shape == "gather" else "SOURCES_ALIKE"


def _access_hooks(x: Instruction) -> Iterator[str]:
    tiles = [o for o in x.operands if o.kind == "t"]
    if x.name in _SCATTERS:  # of d only what the indices name is touched
        yield "HOOK_VIEW_READ(b);"
        yield "HOOK_VIEW_READ(a);"
        yield f"HOOK_SCATTER(d, b, a, axis, {_SCATTERS[x.name]});"
        return
    yield from (f"HOOK_VIEW_READ({o.name});" for o in tiles if o.reads)
    yield from (f"HOOK_VIEW_WRITE({o.name});" for o in tiles if o.writes)


def _vector_events(x: Instruction) -> list[str]:
    names = _tiles(x)
    dtype = "dtype" if _has(x, "dtype") else f"{names[0]}->dtype" if names else "DT_F32"
    flops = x.flops.replace("lanes", f"(128 / tk_size[{dtype}])")
    out = [f"HOOK_VECTOR_EVENT({dtype}, {x.cost}, {flops}, {names[0] if names else 'NULL'});"]
    if x.operands[0].kind == "r":  # the scalar unit waits for the result
        out.append("HOOK_SYNC_EVENT(NULL);")
    return out


def _transfer(x: Instruction) -> list[str]:
    a = "a" if _has(x, "a") else "NULL"
    value = "value" if _has(x, "value") else "(reg){0}"
    loads = [] if a == "NULL" else ["CHECK(array_allows(self, a, MAY_LOAD));"]
    deferred = f"transfer_defer(self, PC, {_TRANSFERS[x.name]}, (uint32_t)after, channel, d, {a}, {value})"
    return [
        "CHECK(transfer_known(self, after));",
        *loads,
        "CHECK(array_allows(self, d, MAY_STORE));",
        "event = ++self->events;",
        f"HOOK_DMA_ISSUE(event, d, {a}, (uint32_t)after, channel);",
        "if (HOOK_DEFERS) {",
        f"    CHECK({deferred});",
        "} else {",
        f"    CHECK_TILES({_call(x)}, d, {a}, NULL);",
        "}",
        "LOG_STORE(d);",
        "WORK(tile_bytes(d));",
        f"HOOK_DMA_EVENT(event, d, {a}, (uint32_t)after, channel);",
    ]


def _atomic(x: Instruction) -> list[str]:
    operation = x.name.removeprefix("atomic_")
    bitwise = "true" if operation in ("and", "or", "xor") else "false"
    apply = f"atomic_apply(a, ATOMIC_{operation.upper()}, b)"
    return [
        f"CHECK(atomic_check(self, a, {bitwise}));",
        "HOOK_ATOMIC(a);",
        f"d = {'atomic_compare_and_set(a, expected, b)' if operation == 'cas' else apply};",
        f"HOOK_ATOMIC_EVENT(a, NULL, {x.flops});",
    ]


def _tile_atomic(x: Instruction) -> list[str]:
    return [
        "CHECK(array_allows(self, d, MAY_STORE));",
        "HOOK_VIEW_READ(a);",
        "HOOK_TILE_ATOMIC(d);",
        f"CHECK_TILES({_call(x)}, d, a, NULL);",
        "LOG_STORE(d);",
        "WORK(tile_bytes(a));",
        f"HOOK_ATOMIC_EVENT(d, a, {x.flops});",
    ]
