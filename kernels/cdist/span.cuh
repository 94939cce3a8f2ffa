/* span.cuh: 16-byte stores into rows that start anywhere.
 *
 * A matrix with an odd number of columns has rows that start off 16-byte boundaries, each
 * differently, and single elements take 1.5 times as long to write. But rows whose numbers differ
 * by a multiple of the elements in a word start equally far off, whatever the stride. So a block
 * takes rows of one such kind, and its columns are shifted to suit them: then all is as if rows
 * were aligned, but for the two ends of a row, which are stored singly. */
#ifndef GPUDIST_SPAN_CUH
#define GPUDIST_SPAN_CUH

#include "metrics.cuh"

namespace gd {

/* Rows so short are all ends. There a thread's columns lie apart instead, so that neighbouring
 * threads still write neighbouring elements. */
constexpr ptrdiff_t kAllEnds = 64;

/* How many kinds of rows the result has: consecutive rows are of kinds 0, 1, ... in turn. */
template <typename T>
unsigned kinds_of(const Cdist<T> &call)
{
    return call.words || call.b.count <= kAllEnds ? 1 : kPerWord<T>;
}

/* A thread's results in one row, a word of them at most: at columns first + j * step, of which the
 * row has those with low <= j < high. */
template <typename T>
struct Span {
    ptrdiff_t first, step; /* first is negative where the word begins before the row */
    int low, high;

    /* The block's columns are from `col` on, or a little before, as it suits rows of this kind. */
    __device__ __forceinline__ Span(const Cdist<T> &call, ptrdiff_t col, unsigned kinds,
                                    unsigned kind)
        : high(0)
    {
        const bool apart = kinds == 1 && !call.words;
        const uintptr_t start = (uintptr_t)call.out / sizeof(T) + kind * call.out_stride;
        const int shift = kinds == 1 ? 0 : (int)(start % kPerWord<T>);
        step = apart ? blockDim.x : 1;
        first = col + threadIdx.x * (apart ? 1 : kPerWord<T>)-shift;
        low = first < 0 ? (int)-first : 0;
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            high += first + j * step < call.b.count;
        }
    }
    __device__ __forceinline__ bool empty() const { return high <= low; }

    /* Column j, or the nearest one that there is. */
    __device__ __forceinline__ ptrdiff_t column(const Cdist<T> &call, int j) const
    {
        return call.b.clamp(max(first + j * step, (ptrdiff_t)0));
    }

    /* Results leave the cache first. `to` points to the row's element at column `first`. */
    __device__ __forceinline__ void store(T *to, const T *results) const
    {
        if (step == 1 && high - low == kPerWord<T>) {
            stream_word(to, results);
            return;
        }
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            if (low <= j && j < high) {
                __stcs(to + j * step, results[j]);
            }
        }
    }

    /* The same results, as repair takes them. */
    __device__ __forceinline__ Run<T> run(const Cdist<T> &call) const
    {
        Run<T> run(call, first + low * step, step);
        run.count = high - low;
        return run;
    }
};

}  // namespace gd
#endif
