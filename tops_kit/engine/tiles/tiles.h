/* The tile library: what tile, matrix, vector and DTE instructions do. Bodies of tops_kit/isa/table.py call it by these names;
   tops_kit/engine/tiles_twin does the same in numpy, bit for bit.

   Every function that returns int returns a FAULT_* number, FAULT_NONE when all went well; after a fault no element of `d` has
   changed. Checks come in this order: memory spaces, views that reach outside, element types, extents, values.

   Extents. The machine calls a tk_shape_* function first: it gives a result tile (tile.result) its extents, and compares those
   of others. The operations compare once more, so that none reads or writes outside of its views whatever it is given.

   Sources may overlap `d` in any way: they are read as if before anything is written.

   Numbers. f32 is IEEE, nothing contracted, denormals kept. f16 and bf16 are widened to f32, computed, and rounded once at the
   end. Small integers are computed in 32 bits and narrowed. A scalar operand counts as a tile filled with it: it is first
   rounded or narrowed to the tile's type; it is given as `f` for float tiles, as `i` for the others. Arithmetic whose result is
   NaN gives TK_NAN_BITS whatever the payloads were, min, max and reductions included; moves (copy to the same type, select,
   gather, scatter, DTE) keep every bit; neg and abs change the sign alone.

   FLOORDIV and MOD of floats are Python's `//` and `%` of these numbers as doubles, each result rounded to f32 once: of the exact
   remainder, so a == (a // b) * b + a % b as nearly as f32 has it. By 0 they are a / b and NaN.

   Errors of functions of f32, in units in the last place of the true result, subnormal results included; tests hold them to it:
     sqrt, recip   0.5     correctly rounded
     exp           0.8     0 below -103.98, infinite above 88.73
     log           0.9     -inf at 0, NaN below
     rsqrt         1.5     1 / sqrt(x), rounded twice
     tanh          1.5
     erf           1.2
     sigmoid       1.6
     sin, cos      1.6     of every finite number: quarter turns are taken out exactly, however large it is
     floor, ceil, neg, abs exact
   f16 and bf16 round these once more. */
#ifndef TOPS_TILES_H
#define TOPS_TILES_H
#include "elements.h"

/* Operations: one numbering for all kinds (MIN and MAX are binary and reductions). The twin has the same numbers. */
enum {
    TK_ADD, TK_SUB, TK_MUL, TK_DIV, TK_MIN, TK_MAX, TK_FLOORDIV, TK_MOD, TK_AND, TK_OR, TK_XOR, TK_SHL, TK_SHR, /* binary */
    TK_LT, TK_LE, TK_GT, TK_GE, TK_EQ, TK_NE, /* compare */
    TK_NEG, TK_ABS, TK_EXP, TK_LOG, TK_SQRT, TK_RSQRT, TK_TANH, TK_ERF, TK_SIGMOID, TK_SIN, TK_COS, TK_FLOOR, TK_CEIL,
    TK_RECIP, TK_NOT, /* unary */
    TK_SUM, TK_ARGMAX, TK_ARGMIN, TK_ANY, TK_ALL, /* reductions, with TK_MAX and TK_MIN */
    TK_COUNT
};

/* Extents of a result, before the operation. FAULT_SHAPE where they do not fit. */
int tk_shape_broadcast(tile *d, int count, const tile *const *sources); /* 1 to 3 sources, as numpy broadcasts */
int tk_shape_same(tile *d, const tile *a);
int tk_shape_reduce(tile *d, const tile *a, int axis);           /* as `a`, with extent 1 along the axis */
int tk_shape_matmul(tile *d, const tile *a, const tile *b);      /* rows of `a` by columns of `b`; a third axis: a batch */
int tk_shape_gather(tile *d, const tile *a, const tile *b, int axis); /* along the axis as `b`, else a and b broadcast */
int tk_shape_extent(tile *d, int rank, const int32_t *n);        /* textent: result tiles only */

/* d = a op b, by elements, broadcast. Types are equal. AND, OR, XOR, SHL, SHR: not on floats. */
int tk_binary(int op, tile *d, const tile *a, const tile *b);
int tk_binary_s(int op, tile *d, const tile *a, reg b);
int tk_binary_rs(int op, tile *d, reg a, const tile *b);
/* The same with a bool tile `d`. */
int tk_compare(int op, tile *d, const tile *a, const tile *b);
int tk_compare_s(int op, tile *d, const tile *a, reg b);
int tk_compare_rs(int op, tile *d, reg a, const tile *b);
/* d = op(a). NEG and ABS on every type; NOT on integers (complement) and bool; the others on floats. */
int tk_unary(int op, tile *d, const tile *a);
/* Along one axis of `a`, whose extent in `d` is 1. SUM: into f32 or i32; ARGMAX, ARGMIN: into i32; ANY, ALL: into bool. */
int tk_reduce(int op, tile *d, const tile *a, int axis);
int tk_fma(tile *d, const tile *a, const tile *b, const tile *c);
int tk_select(tile *d, const tile *c, const tile *a, const tile *b); /* c is bool */
int tk_copy(tile *d, const tile *a);                                 /* converts; broadcasts */
int tk_fill(tile *d, reg a);
int tk_iota(tile *d, reg a, reg b, int axis); /* a + b * index; floats: product and sum rounded each */
int tk_cumsum(tile *d, const tile *a, int axis); /* d of a's type, or of its accumulator (f32, i32) */
/* Index tiles are of integers. The axis counts in the broadcast axes of a and b. */
int tk_gather(tile *d, const tile *a, const tile *b, int axis);
int tk_scatter(tile *d, const tile *b, const tile *a, int axis);
int tk_scatter_add(tile *d, const tile *b, const tile *a, int axis);
/* (.., M, N) += (.., M, K) @ (.., K, N); d is f32 for floats, i32 for integers. */
int tk_mma(tile *d, const tile *a, const tile *b);
int tk_matmul(tile *d, const tile *a, const tile *b);

/* In `slot` of a view of L3: the array is so large that it will not be found in a cache, so writes go past it. */
enum { TK_STREAMS = 1 << 8 };

/* Between any memories. Types are equal; `a` broadcasts to `d`, or one has the other's extents and axes of extent 1 between them. */
int tk_dma_copy(const tile *d, const tile *a);
int tk_dma_pad(const tile *d, const tile *a, reg value); /* what of `a` lies outside becomes `value` */
int tk_dma_clip(const tile *d, const tile *a);           /* what of `d` lies outside is left out */
int tk_dma_set(const tile *d, reg value);
/* Which axis of `a` goes with each axis of `d` in a transfer (-1: none, a is broadcast). FAULT_SHAPE where extents do not fit. */
int tk_pair_axes(const tile *d, const tile *a, int *with);
int tk_atomic_add(const tile *d, const tile *a); /* in row-major order */

/* Vector registers: 128 / size lanes of `dtype`. */
int tk_vload(vreg *d, const tile *a, int32_t i); /* a is dense; FAULT_INDEX outside, FAULT_VIEW where it is not dense */
int tk_vstore(const tile *d, int32_t i, const vreg *a);
void tk_vsplat(vreg *d, reg a, int dtype);
void tk_viota(vreg *d, int dtype);
int tk_vbinary(int op, vreg *d, const vreg *a, const vreg *b, int dtype);
int tk_vcompare(int op, vreg *d, const vreg *a, const vreg *b, int dtype); /* 1 or 0, in the same type */
int tk_vunary(int op, vreg *d, const vreg *a, int dtype);
int tk_vfma(vreg *d, const vreg *a, const vreg *b, const vreg *c, int dtype);
int tk_vselect(vreg *d, const vreg *c, const vreg *a, const vreg *b, int dtype);
reg tk_vreduce(int op, const vreg *a, int dtype); /* SUM, MAX, MIN, as tk_reduce on one row */

/* An operation on floats, unary or binary, on single f32: the same bits as on a tile. */
float tk_scalar(int op, float x);
float tk_scalar_binary(int op, float x, float y);

/* Which instructions of the processor are used: "generic", "avx2" or "avx512". The environment variable TOPSKIT_TILES chooses
   when it names one that this processor has; results do not depend on it. */
const char *tk_path(void);
int tk_use_path(const char *name); /* 0 when this processor, or this build, does not have it; for tests */

/* Floating-point control of this thread: rounds to nearest, keeps denormals, whatever a library has set. tk_fp_begin returns
   what tk_fp_end puts back; a launch brackets each host thread's work with them. tk_fp_end also makes other threads see what was
   streamed. */
uint32_t tk_fp_begin(void);
void tk_fp_end(uint32_t saved);
#endif
