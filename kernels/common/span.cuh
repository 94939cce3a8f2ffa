/* span.cuh: 16-byte stores into rows that start anywhere.
 *
 * A matrix with an odd number of columns has rows that start off 16-byte boundaries, each
 * differently, and single elements take 1.5 times as long to write. But rows whose numbers differ
 * by a multiple of the elements in a word start equally far off, whatever the stride; so do pairs'
 * rows, each one element shorter than the one before, by twice that multiple. So a block
 * takes rows of one such kind, and its columns are shifted to suit them: then all is as if rows
 * were aligned, but for the two ends of a row, which are stored singly. Where writing binds, kinds
 * are twice as many, so that a warp writes whole sectors: odd matrices take 5 to 9 % less. */
#ifndef GPUDIST_COMMON_SPAN_CUH
#define GPUDIST_COMMON_SPAN_CUH

#include "common/metrics.cuh"

namespace gd {

/* The binary logarithm of how many elements a word has, and a sector, the 32 bytes that the
 * memory's cache writes as a whole. */
template <typename T>
constexpr unsigned kLogWord = kPerWord<T> == 4 ? 2 : 1;
template <typename T>
constexpr unsigned kLogSector = kLogWord<T> + 1;

/* The logarithm of the number of kinds of rows that the result has, where rows of a kind begin
 * equally far off a boundary of 1 << log_aligned elements, a word or more: consecutive rows are of
 * kinds 0, 1, ... in turn. */
template <typename T, Form kForm>
unsigned log_kinds_of(const Target<T, kForm> &to, unsigned log_aligned)
{
    return to.pairs ? log_aligned + 1 : to.words ? 0 : log_aligned;
}

/* The number of columns by which a block's are shifted to suit rows of this kind. */
template <typename T, Form kForm>
__device__ __forceinline__ int shift_of(const Target<T, kForm> &to, unsigned log_kinds,
                                        unsigned kind)
{
    const unsigned aligned = 1u << (log_kinds - (to.packed() ? 1 : 0));
    return (int)((uintptr_t)to.row(kind) / sizeof(T) & (aligned - 1));
}

/* A thread's results in one row, a word of them at most: at columns first + j * step, of which the
 * row has those with low <= j < high. */
template <typename T>
struct Span {
    ptrdiff_t first, step; /* first is negative where the word begins before the row */
    int low, high;

    template <Form kForm>
    __device__ __forceinline__ Span(const Target<T, kForm> &to, ptrdiff_t first_, ptrdiff_t step_)
        : first(first_), step(step_), low(first_ < 0 ? (int)-first_ : 0), high(0)
    {
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            high += first + j * step < to.cols;
        }
    }

    /* The block's columns are from `col` on, or a little before, as it suits rows of this kind.
     * Without kinds, where rows are not of words, a thread's columns lie apart, so that
     * neighbouring threads write neighbouring elements. */
    template <Form kForm>
    static __device__ __forceinline__ Span in_block(const Target<T, kForm> &to, ptrdiff_t col,
                                                    unsigned log_kinds, unsigned kind)
    {
        const bool apart = log_kinds == 0 && !to.words;
        return Span(to, col + threadIdx.x * (apart ? 1 : kPerWord<T>)-shift_of(to, log_kinds, kind),
                    apart ? blockDim.x : 1);
    }
    __device__ __forceinline__ bool empty() const { return high <= low; }

    /* Column j, or the nearest one that there is. */
    template <typename P>
    __device__ __forceinline__ ptrdiff_t column(const Points<P> &columns, int j) const
    {
        return max(columns.clamp(first + j * step), (ptrdiff_t)0);
    }

    /* The first result that has a place in the row: of pairs, which are never apart, the one right
     * of the diagonal. It goes up with the row, so callers keep it. */
    template <Form kForm>
    __device__ __forceinline__ int start(const Target<T, kForm> &to, ptrdiff_t row) const
    {
        return to.packed() ? (int)(row + 1 - first) : low;
    }

    /* Results from `start` on leave the cache first. `at` points to the row's place for column
     * `first`. */
    __device__ __forceinline__ void store(T *at, const T *results, int start) const
    {
        if (step == 1 && start <= 0 && high == kPerWord<T>) {
            stream_word(at, results);
            return;
        }
#pragma unroll
        for (int j = 0; j < kPerWord<T>; ++j) {
            if (start <= j && j < high) {
                __stcs(at + j * step, results[j]);
            }
        }
    }

    /* The run that recompute_f64 takes for these results. */
    template <Form kForm>
    __device__ __forceinline__ Run<T> run(const Cdist<T, kForm> &call) const
    {
        Run<T> run(call, first + low * step, step);
        run.count = high - low;
        return run;
    }
};

}  // namespace gd
#endif
