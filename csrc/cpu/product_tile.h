/* product_tile.h: the register tile of kernels that multiply points: MR rows by NV vectors of
 * columns, with room left for the columns' vectors and a row's value. */
#ifndef GPUDIST_CPU_PRODUCT_TILE_H
#define GPUDIST_CPU_PRODUCT_TILE_H

#if defined(__AVX512F__) || defined(__aarch64__)
enum { MR = 8, NV = 3 };
#else
enum { MR = 4, NV = 3 };
#endif

#endif
