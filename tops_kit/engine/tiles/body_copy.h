/* Copies of bytes and transpositions. Included by tiles_body.h. */

/* Four vectors at a time; vb is what copies fastest, which wider than 32 bytes does not. */
enum { COPY_STEP = 4 * sizeof(vb) };

/* The processor reads further ahead in several places than in one: long transfers run in four at a time, which are
   parts of up to 16 KB, and of at least a page, of 4 KB. */
enum { PLACES = 4, PLACE_MOST = 1 << 14, PLACE_LEAST = 1 << 12 };

INLINE void copy_step(uint8_t *d, const uint8_t *a) {
    vb x[4];
    UNROLL_LANES for (int k = 0; k < 4; k++) x[k] = b_load(a + k * sizeof(vb));
    UNROLL_LANES for (int k = 0; k < 4; k++) b_store(d + k * sizeof(vb), x[k]);
}

static void copy_bytes(uint8_t *d, const uint8_t *a, int64_t bytes) {
    int64_t i = 0;
    while (bytes - i >= PLACES * PLACE_LEAST) {
        int64_t part = (bytes - i) / PLACES;
        part = part > PLACE_MOST ? PLACE_MOST : part - part % COPY_STEP;
        for (int64_t k = i; k < i + part; k += COPY_STEP)
            UNROLL_LANES for (int place = 0; place < PLACES; place++) copy_step(d + k + place * part, a + k + place * part);
        i += PLACES * part;
    }
    for (; i + COPY_STEP <= bytes; i += COPY_STEP) copy_step(d + i, a + i);
    if (i < bytes) memcpy(d + i, a + i, (size_t)(bytes - i));
}

static void stream_bytes(uint8_t *d, const uint8_t *a, int64_t bytes) {
    int64_t i = (int64_t)(-(uintptr_t)d & 63); /* to the next line of the cache */
    if (i > bytes) i = bytes;
    if (i) memcpy(d, a, (size_t)i);
    for (; i + COPY_STEP <= bytes; i += COPY_STEP) {
        vb x[4];
        UNROLL_LANES for (int k = 0; k < 4; k++) x[k] = b_load(a + i + k * sizeof(vb));
        UNROLL_LANES for (int k = 0; k < 4; k++) b_stream(d + i + k * sizeof(vb), x[k]);
    }
    if (i < bytes) memcpy(d + i, a + i, (size_t)(bytes - i));
}

/* d (columns, rows) = a transposed, elements of 4 bytes. */
static void transpose4(uint8_t *d, int64_t ldd, const uint8_t *a, int64_t lda, int64_t rows, int64_t columns) {
    int64_t i = 0;
    for (; i + BLOCK <= rows; i += BLOCK) {
        int64_t j = 0;
        for (; j + BLOCK <= columns; j += BLOCK) transpose_block(d + j * ldd + 4 * i, ldd, a + i * lda + 4 * j, lda);
        for (; j < columns; j++)
            for (int64_t r = i; r < i + BLOCK; r++) memcpy(d + j * ldd + 4 * r, a + r * lda + 4 * j, 4);
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) memcpy(d + j * ldd + 4 * i, a + i * lda + 4 * j, 4);
}
