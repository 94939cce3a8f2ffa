/* tile_f64_buffer.cuh: how operands reach the shared memory of tile_f64.cu.
 *
 * A slab holds kBufferDims dimensions of a tile's points, a point a row, as they lie in memory: so
 * asynchronous copies bring it, which pass no registers and wait for nobody. Between rows are four
 * banks of padding: a warp's threads then read words of eight neighbouring rows at the same time
 * from all banks. */
#ifndef GPUDIST_CDIST_DIRECT_TILE_F64_BUFFER_CUH
#define GPUDIST_CDIST_DIRECT_TILE_F64_BUFFER_CUH

#include <cuda_pipeline_primitives.h>

#include "common/metrics.cuh"

namespace gd {

constexpr int kBufferThreads = 128; /* of a block */
constexpr int kBufferDims = GD_FOLD;

template <typename T>
constexpr int kBufferPitch = kBufferDims + kPerWord<T>;

template <typename T, int kPoints>
using Buffer = T[kPoints][kBufferPitch<T>];

/* Brings the slabs of one operand, one after the other.
 *
 * kSpread: threads side by side have runs of columns that touch in the matrix, a word of results
 * each, and read the first of each run together. So in the slab it is these that touch: of every
 * eight runs first the first columns, then the second ones.
 * kWords: points are aligned and full words. Else copies are of single elements. */
template <typename T, int kPoints, bool kSpread, bool kWords>
struct Copier {
    static constexpr int each = kWords ? kPerWord<T> : 1; /* elements a copy */
    static constexpr int across = kBufferDims / each;     /* threads along a point */
    static constexpr int step = kBufferThreads / across;  /* points at a time */

    const Points<T> &x;
    const T *from; /* this thread's first element of the next slab */
    int points;    /* so many are there */

    __device__ __forceinline__ Copier(const Points<T> &x_, ptrdiff_t first, unsigned thread)
        : x(x_),
          from(x.data + (first + thread / across) * x.row_stride +
               thread % across * each * along()),
          points((int)min(x.count - first, (ptrdiff_t)kPoints))
    {
    }

    __device__ __forceinline__ ptrdiff_t along() const { return kWords ? 1 : x.col_stride; }

    /* It permutes the bits of a number, so that the place of a sum without carries is the sum of
     * the places. */
    static __device__ __forceinline__ int place_of(int point)
    {
        constexpr int kRun = kPerWord<T>, kSpan = 8 * kRun;
        return kSpread ? point / kSpan * kSpan + point % kRun * 8 + point % kSpan / kRun : point;
    }

    /* Starts to copy the next slab, of which `depth` dimensions are there. Zeros stand for the
     * others, which add nothing to any metric, and for points that are not there. */
    __device__ __forceinline__ void copy(Buffer<T, kPoints> &to, int depth, unsigned thread)
    {
        const int k = thread % across * each, point = thread / across;
        T *const at = &to[place_of(point)][k];
        const T *next = from;
        if (depth == kBufferDims && points == kPoints) {
#pragma unroll
            for (int i = 0; i < kPoints; i += step) {
                __pipeline_memcpy_async(at + place_of(i) * kBufferPitch<T>, next, each * sizeof(T));
                next += step * x.row_stride;
            }
        }
        else {
#pragma unroll 1
            for (int i = 0; i < kPoints; i += step) {
                const bool there = k < depth && point + i < points;
                __pipeline_memcpy_async(at + place_of(i) * kBufferPitch<T>, there ? next : x.data,
                                        each * sizeof(T), there ? 0 : each * sizeof(T));
                next += step * x.row_stride;
            }
        }
        from += kBufferDims * along();
    }
};

}  // namespace gd
#endif
