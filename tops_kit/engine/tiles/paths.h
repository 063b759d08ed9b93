/* Which processor-specific files of the tile library this build has. */
#ifndef TOPS_TILES_PATHS_H
#define TOPS_TILES_PATHS_H
#if defined(__x86_64__) && defined(__GNUC__) && !defined(TOPSKIT_GENERIC_TILES)
#if !defined(__clang__) || (defined(__AVX2__) && defined(__FMA__) && defined(__F16C__))
#define TK_HAS_AVX2
#endif
#if !defined(__clang__) || (defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__))
#define TK_HAS_AVX512
#endif
#endif
#endif
