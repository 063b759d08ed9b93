/* The processor-specific part of the tile library, written over lanes. tiles_generic.c, tiles_avx2.c and tiles_avx512.c each
   include a lanes_*.h, then this, and so give the same functions for their processor; KERNELS names the table. */
#include "kernels.h"
#include "functions.h"
#include "body_rows.h"
#include "body_reduce.h"
#include "body_matrix.h"
#include "body_copy.h"

const tile_kernels KERNELS = {
    .name = PATH_NAME,
    .binary = {{FORMS(fo, add), FORMS(fo, sub), FORMS(fo, mul), FORMS(fo, div), FORMS(fo, min), FORMS(fo, max),
                FORMS(fo, floordiv), FORMS(fo, mod), NO_FORMS, NO_FORMS, NO_FORMS, NO_FORMS, NO_FORMS},
               {FORMS(io, add), FORMS(io, sub), FORMS(io, mul), FORMS(io, floordiv), FORMS(io, min), FORMS(io, max),
                FORMS(io, floordiv), FORMS(io, mod), FORMS(io, and), FORMS(io, or), FORMS(io, xor), FORMS(io, shl),
                FORMS(io, shr)}},
    .compare = {{FORMS(fc, lt), FORMS(fc, le), FORMS(fc, gt), FORMS(fc, ge), FORMS(fc, eq), FORMS(fc, ne)},
                {FORMS(ic, lt), FORMS(ic, le), FORMS(ic, gt), FORMS(ic, ge), FORMS(ic, eq), FORMS(ic, ne)}},
    .unary = {{row_f_neg, row_f_abs, row_exp, row_log, row_sqrt, row_rsqrt, row_tanh, row_erf, row_sigmoid, row_sin, row_cos,
               row_floor, row_ceil, row_recip, NULL},
              {row_i_neg, row_i_abs, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, row_i_not}},
    .fma = {row_f_fma, row_i_fma},
    .select = {row_select1, row_select2, row_select4},
    .widen = {NULL, NULL, widen_f16, widen_bf16, widen_i8, widen_i16, widen_u8, widen_bool},
    .narrow = {NULL, NULL, narrow_f16, narrow_bf16, narrow_8, narrow_16, narrow_8, narrow_bool},
    .f_to_i = row_f_to_i,
    .i_to_f = row_i_to_f,
    .clean = row_clean,
    .lanes = {{lanes_f_sum, lanes_f_max, lanes_f_min}, {lanes_i_sum, lanes_i_max, lanes_i_min}},
    .fold = {{fold_f_sum, fold_f_max, fold_f_min}, {fold_i_sum, fold_i_max, fold_i_min}},
    .reduce = {{reduce_f_sum, reduce_f_max, reduce_f_min}, {reduce_i_sum, reduce_i_max, reduce_i_min}},
    .find = {find_f, find_i},
    .product = product,
    .copy = copy_bytes,
    .stream = stream_bytes,
    .transpose4 = transpose4,
};
