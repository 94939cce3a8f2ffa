/* segments.cuh: how tiles store rows that start anywhere.
 *
 * Threads of a tile hold words of results: where rows start off 16-byte boundaries (an odd number
 * of columns, pairs), each would store its elements singly, and a warp's would touch every sector
 * of memory four times. So a warp hands its results round in shared memory, by segments of 128
 * bytes, 8 threads' words, and stores each segment with neighbouring threads. */
#ifndef GPUDIST_COMMON_SEGMENTS_CUH
#define GPUDIST_COMMON_SEGMENTS_CUH

#include "common/metrics.cuh"

namespace gd {

template <typename T>
constexpr int kSegment = 8 * kPerWord<T>; /* columns */

/* A warp's, one a row. */
template <typename T, int kRows>
using Segments = T[kRows][kSegment<T>];

/* Stores a warp's segments, from column `col` on, or pieces of rows that are kWidth columns wide.
 * Its rows come in groups of kGroup that touch, the first from row `top` on, the next `apart` rows
 * further; the result has `rows` in all. The warp has to meet before, and after if it writes
 * segments again. */
template <int kGroup, int kWidth = 0, typename T, int kRows, int kPitch>
__device__ __forceinline__ void store_segments(const Target<T> &to,
                                               const T (&segments)[kRows][kPitch], ptrdiff_t rows,
                                               ptrdiff_t top, int apart, ptrdiff_t col)
{
    constexpr int kCols = kWidth > 0 ? kWidth : kSegment<T>;
    constexpr int kAtOnce = kCols < 32 ? 32 / kCols : 1; /* rows */
    constexpr int kEach = kCols < 32 ? 1 : kCols / 32;   /* columns of a lane, 32 apart */
    constexpr bool kMany = kGroup / kAtOnce * kEach >= 8;
    const int lane = threadIdx.x % 32, place = lane % kCols;
    col += place;
    if (col >= to.cols) {
        return;
    }
    bool there[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        there[e] = e == 0 || col + e * 32 < to.cols;
    }
#pragma unroll 1
    for (int group = 0; group < kRows; group += kGroup, top += apart) {
        ptrdiff_t row = top + lane / kCols;
        T *at = to.row(row) + col;
        const T *from = &segments[group + lane / kCols][place];
        if (kMany && top + kGroup <= rows && (!to.packed() || top + kGroup <= col)) {
            /* All of them are there, as nearly always: a store takes five instructions, not twenty.
             * Of pairs a row is shorter than the one before, and so is the step to the next. */
            ptrdiff_t next = to.step(row, kAtOnce);
            const int fall = to.packed() ? kAtOnce * kAtOnce : 0;
#pragma unroll 4
            for (int i = 0; i < kGroup; i += kAtOnce) {
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    if (there[e]) {
                        __stcs(at + e * 32, from[i * kPitch + e * 32]);
                    }
                }
                at += next, next -= fall;
            }
            continue;
        }
#pragma unroll(kMany ? 1 : 4)
        for (int i = lane / kCols; i < kGroup; i += kAtOnce) {
#pragma unroll
            for (int e = 0; e < kEach; ++e) {
                if (there[e] && row < rows && (!to.packed() || row < col + e * 32)) {
                    __stcs(at + e * 32, segments[group + i][place + e * 32]);
                }
            }
            at += to.step(row, kAtOnce);
            row += kAtOnce;
        }
    }
}

}  // namespace gd
#endif
