/* Blocks of matrix products. Included by tiles_body.h.

   Each element of c has one accumulator and takes its products in order of k, fused, so that blocks of any size give the same
   bits. A block of ROWS rows by COLUMNS columns is held in registers over DEPTH elements of k. The columns of b are packed for it
   into a panel of 32-bit elements, edges filled with 0. a is read as it lies when it is of 32 bits, else MANY_ROWS rows of it are
   widened at a time. Small integers are packed as pairs along k where the processor multiplies such pairs. */

#if LANES == 16
enum { ROWS = 8, COLUMN_VECTORS = 2, DEPTH = 128 };
#elif LANES == 8
enum { ROWS = 6, COLUMN_VECTORS = 2, DEPTH = 256 };
#else
enum { ROWS = 4, COLUMN_VECTORS = 4, DEPTH = 128 };
#endif
enum { COLUMNS = COLUMN_VECTORS * LANES, MANY_ROWS = 128 };

#define UNROLL_BLOCK _Pragma("GCC unroll 16")

/* c (rows, COLUMNS) += a @ panel, for a constant number of rows; depth counts elements of 32 bits. */
typedef void block_function(void *c, int64_t ldc, matrix a, const void *b, int64_t ldb, int64_t depth, int zero);

#define BLOCK_LOOP(x, v, finish)                                                                                             \
    INLINE void x##_block(const int rows, uint8_t *c, int64_t ldc, matrix a, const uint8_t *b, int64_t ldb, int64_t depth,   \
                          int zero, v (*op)(v, v, v)) {                                                                      \
        v sum[ROWS][COLUMN_VECTORS];                                                                                         \
        UNROLL_BLOCK for (int i = 0; i < rows; i++) UNROLL_BLOCK for (int j = 0; j < COLUMN_VECTORS; j++)                    \
            sum[i][j] = zero ? x##_set(0) : x##_load(c + i * ldc + 4 * LANES * j);                                           \
        const uint8_t *p = a.p;                                                                                              \
        for (int64_t k = 0; k < depth; k++) {                                                                                \
            v y[COLUMN_VECTORS];                                                                                             \
            UNROLL_BLOCK for (int j = 0; j < COLUMN_VECTORS; j++) y[j] = x##_load(b + 4 * LANES * j);                        \
            UNROLL_BLOCK for (int i = 0; i < rows; i++) {                                                                    \
                v one = x##_one(p + i * a.row);                                                                              \
                UNROLL_BLOCK for (int j = 0; j < COLUMN_VECTORS; j++) sum[i][j] = op(one, y[j], sum[i][j]);                  \
            }                                                                                                                \
            p += a.column;                                                                                                   \
            b += ldb;                                                                                                        \
        }                                                                                                                    \
        UNROLL_BLOCK for (int i = 0; i < rows; i++) UNROLL_BLOCK for (int j = 0; j < COLUMN_VECTORS; j++)                    \
            x##_store(c + i * ldc + 4 * LANES * j, finish(sum[i][j]));                                                       \
    }
static inline vi i_same(vi x) { return x; }
BLOCK_LOOP(f, vf, f_canonical)
BLOCK_LOOP(i, vi, i_same)

#define BLOCK_FUNCTION(name, x, op, rows)                                                                              \
    static __attribute__((noinline)) void name##_##rows(void *c, int64_t ldc, matrix a, const void *b, int64_t ldb,    \
                                                        int64_t depth, int zero) {                                     \
        x##_block(rows, c, ldc, a, b, ldb, depth, zero, op);                                                           \
    }
#define BLOCK_FUNCTIONS_4(name, x, op) \
    BLOCK_FUNCTION(name, x, op, 1) BLOCK_FUNCTION(name, x, op, 2) BLOCK_FUNCTION(name, x, op, 3) BLOCK_FUNCTION(name, x, op, 4)
#define BLOCK_NAMES_4(name) name##_1, name##_2, name##_3, name##_4
#if LANES == 16
#define BLOCK_FUNCTIONS(name, x, op)                                                          \
    BLOCK_FUNCTIONS_4(name, x, op) BLOCK_FUNCTION(name, x, op, 5) BLOCK_FUNCTION(name, x, op, 6) \
    BLOCK_FUNCTION(name, x, op, 7) BLOCK_FUNCTION(name, x, op, 8)                             \
    static block_function *const name[] = {BLOCK_NAMES_4(name), name##_5, name##_6, name##_7, name##_8};
#elif LANES == 8
#define BLOCK_FUNCTIONS(name, x, op)                                                          \
    BLOCK_FUNCTIONS_4(name, x, op) BLOCK_FUNCTION(name, x, op, 5) BLOCK_FUNCTION(name, x, op, 6) \
    static block_function *const name[] = {BLOCK_NAMES_4(name), name##_5, name##_6};
#else
#define BLOCK_FUNCTIONS(name, x, op) \
    BLOCK_FUNCTIONS_4(name, x, op)   \
    static block_function *const name[] = {BLOCK_NAMES_4(name)};
#endif
BLOCK_FUNCTIONS(f_blocks, f, f_fma)
BLOCK_FUNCTIONS(i_blocks, i, i_multiply_add)
#ifdef HAS_PAIRS
static inline vi i_pairs_add(vi a, vi b, vi c) { return i_add(c, i_pairs(a, b)); }
BLOCK_FUNCTIONS(pair_blocks, i, i_pairs_add)
#endif

/* Loads of LANES elements as 32 bits, whatever they mean. */
static inline vi load_f16(const void *p) { return (vi)f_load_f16(p); }
static inline vi load_bf16(const void *p) { return (vi)f_load_bf16(p); }
typedef vi load_function(const void *p);

INLINE vi load_head(const uint8_t *p, int64_t n, int size, load_function *load) { /* the first n of LANES, then 0 */
    if (n >= LANES) return load(p);
    if (size == 4) return i_load_n(p, n > 0 ? n : 0);
    uint8_t head[4 * LANES] = {0};
    if (n > 0) memcpy(head, p, (size_t)(n * size));
    return load(head);
}

/* A panel of COLUMNS columns of b, `depth` elements deep, of which `columns` exist. */
INLINE void pack_panel(int32_t *panel, matrix b, int64_t depth, int64_t columns, int dtype, load_function *load) {
    const int size = tk_size[dtype];
    if (b.column == size) { /* rows of b are dense */
        for (int64_t k = 0; k < depth; k++) {
            const uint8_t *row = b.p + k * b.row;
            UNROLL_BLOCK for (int j = 0; j < COLUMN_VECTORS; j++) {
                vi y = columns == COLUMNS ? load(row + j * LANES * size)
                                          : load_head(row + j * LANES * size, columns - j * LANES, size, load);
                i_store(panel + k * COLUMNS + j * LANES, y);
            }
        }
    } else if (b.row == size) { /* columns are: b is a transposed view */
        int32_t line[BLOCK * DEPTH];
        for (int64_t j = 0; j < COLUMNS; j += BLOCK) {
            for (int64_t q = 0; q < BLOCK; q++) {
                const uint8_t *column = b.p + (j + q) * b.column;
                for (int64_t k = 0; k < depth; k += LANES)
                    i_store(line + q * DEPTH + k,
                            j + q < columns ? load_head(column + k * size, depth - k, size, load) : i_set(0));
            }
            for (int64_t k = 0; k < depth; k += BLOCK) /* DEPTH and the panel are multiples of BLOCK */
                transpose_block((uint8_t *)(panel + k * COLUMNS + j), 4 * COLUMNS, (uint8_t *)(line + k), 4 * DEPTH);
        }
    } else {
        for (int64_t k = 0; k < depth; k++)
            for (int64_t j = 0; j < COLUMNS; j++)
                panel[k * COLUMNS + j] = j < columns ? tk_load(b.p + k * b.row + j * b.column, dtype).i : 0;
    }
}

/* a widened to 32 bits, in rows where its rows are dense, else in columns. */
INLINE matrix pack_rows(int32_t *scratch, matrix a, int64_t rows, int64_t depth, int dtype, load_function *load) {
    const int size = tk_size[dtype];
    if (a.column == size) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < depth; k += LANES)
                i_store(scratch + i * DEPTH + k, load_head(a.p + i * a.row + k * size, depth - k, size, load));
        return (matrix){(uint8_t *)scratch, 4 * DEPTH, 4};
    }
    if (a.row == size) {
        for (int64_t k = 0; k < depth; k++)
            for (int64_t i = 0; i < rows; i += LANES)
                i_store(scratch + k * MANY_ROWS + i, load_head(a.p + k * a.column + i * size, rows - i, size, load));
        return (matrix){(uint8_t *)scratch, 4, 4 * MANY_ROWS};
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < depth; k++) scratch[i * DEPTH + k] = tk_load(a.p + i * a.row + k * a.column, dtype).i;
    return (matrix){(uint8_t *)scratch, 4 * DEPTH, 4};
}

/* c (rows, columns) += a @ panel. An incomplete panel goes through a block of its own. */
static void multiply_panel(block_function *const *blocks, int64_t rows, int64_t columns, int64_t depth, int32_t *c, int64_t ldc,
                           matrix a, const void *b, int64_t ldb, int zero) {
    for (int64_t i = 0; i < rows; i += ROWS) {
        int64_t count = rows - i < ROWS ? rows - i : ROWS;
        matrix part = {a.p + i * a.row, a.row, a.column};
        int32_t *target = c + i * ldc;
        if (columns == COLUMNS) {
            blocks[count - 1](target, 4 * ldc, part, b, ldb, depth, zero);
            continue;
        }
        int32_t edge[ROWS * COLUMNS] = {0};
        for (int64_t r = 0; r < count && !zero; r++) memcpy(edge + r * COLUMNS, target + r * ldc, (size_t)columns * 4);
        blocks[count - 1](edge, 4 * COLUMNS, part, b, ldb, depth, zero);
        for (int64_t r = 0; r < count; r++) memcpy(target + r * ldc, edge + r * COLUMNS, (size_t)columns * 4);
    }
}

INLINE void multiply(block_function *const *blocks, int dtype, load_function *load, int64_t m, int64_t n, int64_t depth,
                     int32_t *c, int64_t ldc, matrix a, matrix b, int zero) {
    const int size = tk_size[dtype];
    int32_t panel[DEPTH * COLUMNS] __attribute__((aligned(64)));
    int32_t scratch[size == 4 ? 1 : MANY_ROWS * DEPTH] __attribute__((aligned(64)));
    int64_t many = size == 4 ? m : MANY_ROWS;
    for (int64_t i = 0; i < m; i += many) {
        int64_t rows = m - i < many ? m - i : many;
        for (int64_t k = 0; k < depth; k += DEPTH) {
            int64_t deep = depth - k < DEPTH ? depth - k : DEPTH;
            matrix left = {a.p + i * a.row + k * a.column, a.row, a.column};
            if (size < 4) left = pack_rows(scratch, left, rows, deep, dtype, load);
            for (int64_t j = 0; j < n; j += COLUMNS) {
                int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
                matrix right = {b.p + k * b.row + j * b.column, b.row, b.column};
                int in_place = size == 4 && b.column == 4 && columns == COLUMNS && rows <= ROWS; /* used once: not packed */
                if (!in_place) pack_panel(panel, right, deep, columns, dtype, load);
                multiply_panel(blocks, rows, columns, deep, c + i * ldc + j, ldc, left, in_place ? right.p : (uint8_t *)panel,
                               in_place ? b.row : 4 * COLUMNS, zero && k == 0);
            }
        }
    }
}

#ifdef HAS_PAIRS
/* Small integers: two elements along k in 32 bits. */
INLINE vi load_pairs(const uint8_t *p, const uint8_t *q, int64_t n, int size, load_function *load) {
    vi low = load_head(p, n, size, load), high = q ? load_head(q, n, size, load) : i_set(0);
    return (low & 0xFFFF) | (vi)((vu)high << 16);
}

INLINE int32_t pair_at(const uint8_t *p, int64_t step, int both, int dtype) {
    uint32_t low = tk_load(p, dtype).u & 0xFFFF, high = both ? tk_load(p + step, dtype).u : 0;
    return (int32_t)(low | high << 16);
}

INLINE void multiply_pairs(int dtype, load_function *load, int64_t m, int64_t n, int64_t depth, int32_t *c, int64_t ldc,
                           matrix a, matrix b, int zero) {
    const int size = tk_size[dtype];
    int32_t panel[DEPTH * COLUMNS] __attribute__((aligned(64)));
    int32_t scratch[MANY_ROWS * DEPTH] __attribute__((aligned(64)));
    for (int64_t i = 0; i < m; i += MANY_ROWS) {
        int64_t rows = m - i < MANY_ROWS ? m - i : MANY_ROWS;
        for (int64_t k = 0; k < depth; k += 2 * DEPTH) {
            int64_t deep = depth - k < 2 * DEPTH ? depth - k : 2 * DEPTH, pairs = (deep + 1) / 2;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t q = 0; q < pairs; q++)
                    scratch[r * DEPTH + q] =
                        pair_at(a.p + (i + r) * a.row + (k + 2 * q) * a.column, a.column, 2 * q + 1 < deep, dtype);
            matrix left = {(uint8_t *)scratch, 4 * DEPTH, 4};
            for (int64_t j = 0; j < n; j += COLUMNS) {
                int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
                for (int64_t q = 0; q < pairs; q++) {
                    const uint8_t *p = b.p + (k + 2 * q) * b.row + j * b.column;
                    int both = 2 * q + 1 < deep;
                    for (int64_t s = 0; s < COLUMNS; s += b.column == size ? LANES : 1) {
                        if (b.column == size)
                            i_store(panel + q * COLUMNS + s,
                                    load_pairs(p + s * size, both ? p + b.row + s * size : NULL, columns - s, size, load));
                        else
                            panel[q * COLUMNS + s] = s < columns ? pair_at(p + s * b.column, b.row, both, dtype) : 0;
                    }
                }
                multiply_panel(pair_blocks, rows, columns, pairs, c + i * ldc + j, ldc, left, panel, 4 * COLUMNS, zero && k == 0);
            }
        }
    }
}
#define SMALL_INTEGERS(dtype, load) multiply_pairs(dtype, load, m, n, k, c, ldc, a, b, zero)
#else
#define SMALL_INTEGERS(dtype, load) multiply(i_blocks, dtype, load, m, n, k, c, ldc, a, b, zero)
#endif

#define PRODUCT(name, call)                                                                                                  \
    static __attribute__((noinline)) void name(int64_t m, int64_t n, int64_t k, void *c, int64_t ldc, matrix a, matrix b,    \
                                               int zero) {                                                                   \
        call;                                                                                                                \
    }
PRODUCT(product_f32, multiply(f_blocks, DT_F32, i_load, m, n, k, c, ldc, a, b, zero))
PRODUCT(product_f16, multiply(f_blocks, DT_F16, load_f16, m, n, k, c, ldc, a, b, zero))
PRODUCT(product_bf16, multiply(f_blocks, DT_BF16, load_bf16, m, n, k, c, ldc, a, b, zero))
PRODUCT(product_i32, multiply(i_blocks, DT_I32, i_load, m, n, k, c, ldc, a, b, zero))
PRODUCT(product_i16, SMALL_INTEGERS(DT_I16, i_load_i16))
PRODUCT(product_i8, SMALL_INTEGERS(DT_I8, i_load_i8))
PRODUCT(product_u8, SMALL_INTEGERS(DT_U8, i_load_u8))

static void product(int dtype, int64_t m, int64_t n, int64_t k, void *c, int64_t ldc, matrix a, matrix b, int zero) {
    switch (dtype) {
    case DT_F32: product_f32(m, n, k, c, ldc, a, b, zero); break;
    case DT_F16: product_f16(m, n, k, c, ldc, a, b, zero); break;
    case DT_BF16: product_bf16(m, n, k, c, ldc, a, b, zero); break;
    case DT_I32: product_i32(m, n, k, c, ldc, a, b, zero); break;
    case DT_I16: product_i16(m, n, k, c, ldc, a, b, zero); break;
    case DT_I8: product_i8(m, n, k, c, ldc, a, b, zero); break;
    default: product_u8(m, n, k, c, ldc, a, b, zero);
    }
}
