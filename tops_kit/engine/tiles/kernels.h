/* What the processor-specific files give to the rest: work on rows (dense runs of elements in memory) and on blocks of matrices.
   Rows of 32-bit elements (f32, i32) are computed in place; others are widened to such rows first, and narrowed after. */
#ifndef TOPS_TILES_KERNELS_H
#define TOPS_TILES_KERNELS_H
#include "tiles.h"

/* Which operands of a row are one element for the whole row. */
enum { ROW_A = 1, ROW_B = 2, ROW_C = 4 };

/* An operand of a matrix product: element (i, k) lies at p + i * row + k * column, in bytes. */
typedef struct {
    const uint8_t *p;
    int64_t row, column;
} matrix;

typedef void binary_row(void *d, const void *a, const void *b, int64_t n);
typedef void unary_row(void *d, const void *a, int64_t n);
typedef struct {
    const char *name;
    binary_row *binary[2][13][3]; /* [f32, i32][op - TK_ADD][0, ROW_A, ROW_B]; NULL where there is none */
    binary_row *compare[2][6][3]; /* [op - TK_LT]: d is bool */
    unary_row *unary[2][15];      /* [op - TK_NEG] */
    void (*fma[2])(void *d, const void *a, const void *b, const void *c, int64_t n, int single);
    void (*select[3])(void *d, const uint8_t *c, const void *a, const void *b, int64_t n, int single); /* of 1, 2, 4 bytes */
    unary_row *widen[DT_COUNT], *narrow[DT_COUNT]; /* to and from 32 bits; NULL for f32, i32 */
    unary_row *f_to_i, *i_to_f;
    unary_row *clean; /* f32: NaN to the one NaN */
    /* Reductions along a row: 32 lanes, begun with the identity, and folded at the end; SUM, MAX, MIN. */
    void (*lanes[2][3])(void *lanes, const void *a, int64_t n); /* n a multiple of 32, but at the end of the row */
    reg (*fold[2][3])(void *lanes);
    reg (*reduce[2][3])(const void *a, int64_t n); /* begin, lanes and fold in one */
    int64_t (*find[2])(const void *a, int64_t n, reg value); /* the first element that equals, or is NaN where value is; else n */
    /* c (m, n) += a (m, k) @ b (k, n) of one type; row i of c lies at c + i * ldc elements; `zero`: c = a @ b. */
    void (*product)(int dtype, int64_t m, int64_t n, int64_t k, void *c, int64_t ldc, matrix a, matrix b, int zero);
    void (*copy)(uint8_t *d, const uint8_t *a, int64_t bytes);   /* what is read streams in ahead */
    void (*stream)(uint8_t *d, const uint8_t *a, int64_t bytes); /* past the caches; tk_fp_end makes others see it */
    void (*transpose4)(uint8_t *d, int64_t ldd, const uint8_t *a, int64_t lda, int64_t rows, int64_t columns);
} tile_kernels;

extern const tile_kernels tk_generic, tk_avx2, tk_avx512;
extern const tile_kernels *tk_kernels; /* the chosen ones: dispatch.c */
#endif
