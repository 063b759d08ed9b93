/* Included first by every file that computes: optimised for speed whatever the build's flags are, but no product and sum are
   contracted into one rounding unless it is asked for. */
#ifndef TOPS_TILES_EXACT_H
#define TOPS_TILES_EXACT_H
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off")
#endif
#endif
