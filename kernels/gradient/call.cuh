/* call.cuh: what the kernels of gradients share: their parameters, and where the elements of pairs
 * are. */
#ifndef GPUDIST_GRADIENT_CALL_CUH
#define GPUDIST_GRADIENT_CALL_CUH

#include "common/launch.cuh"
#include "common/stack.cuh"
#include "common/words.cuh"

namespace gd {

/* The points of one operand in all matrices of a batch: dense rows, so many elements apart. */
template <typename T>
struct Rows {
    const T *data;
    ptrdiff_t count, stride;
    Apart apart;

    /* Whether rows can be read by aligned words from any whole word on. */
    bool words;
};

/* What belongs to pairs: a number for each, anyhow apart. */
template <typename T>
struct OfPairs {
    const T *data;
    ptrdiff_t down, along;
    Apart apart;
};

/* Where sums go: rows of d numbers, `stride` apart; or, of a part of the sum, into the workspace,
 * one matrix after the other. */
template <typename T>
struct Sums {
    T *data;
    ptrdiff_t stride;
    Apart apart;
};

/* One side of a gradient: sums for the rows of a, over the rows of b. */
template <typename T>
struct Gradient {
    OfPairs<T> asked, away;
    Rows<T> a, b;
    Sums<T> out;
    ptrdiff_t d;
    bool pairs; /* of a with itself, condensed */
    T p;
    Batch batch;
};

/* The numbers of the pairs of one matrix. */
template <typename T>
struct PairsOfOne {
    const T *data;
    ptrdiff_t down, along, n;
    bool condensed;

    __device__ __forceinline__ PairsOfOne(const OfPairs<T> &all, const Batch &batch,
                                          ptrdiff_t number, bool condensed_, ptrdiff_t n_)
        : data(all.data + batch.offset(all.apart, number)),
          down(all.down),
          along(all.along),
          n(n_),
          condensed(condensed_)
    {
    }
    /* Where the number of the pair of rows i and j is; a row makes no pair with itself. */
    __device__ __forceinline__ const T *at(ptrdiff_t i, ptrdiff_t j) const
    {
        if (!condensed) {
            return data + i * down + j * along;
        }
        const ptrdiff_t low = min(i, j), high = max(i, j);
        return data + (low * (2 * n - low - 1) / 2 + high - low - 1) * along;
    }
    __device__ __forceinline__ bool has(ptrdiff_t i, ptrdiff_t j) const
    {
        return !condensed || i != j;
    }
    /* Whether neighbours in memory are pairs of one row of a, in a tile that begins at (i, j). */
    __device__ __forceinline__ bool lies_along(ptrdiff_t i, ptrdiff_t j) const
    {
        return condensed ? i <= j : llabs(along) <= llabs(down);
    }
};

/* x + y is now x, and what rounding took from it is added to `lost` (Knuth's sum of two). */
template <typename T>
__device__ __forceinline__ void add_exactly(T &x, T &lost, T y)
{
    const T all = x + y, part = all - x;
    lost += (x - (all - part)) + (y - part);
    x = all;
}
/* What both make; what was lost of an infinite sum is NaN. */
template <typename T>
__device__ __forceinline__ T both_parts(T x, T lost)
{
    return x - x == 0 ? x + lost : x;
}

template <typename T>
Apart elements_apart(const gd_stack &stack, int axes)
{
    Apart apart = {};
    for (int axis = 0; axis < axes; ++axis) {
        apart.along[axis] = stack.strides[axis] / (ptrdiff_t)sizeof(T);
    }
    return apart;
}

template <typename T>
Rows<T> rows_of(const gd_stack &stack, int axes)
{
    const gd_matrix &x = stack.first;
    Rows<T> rows = {(const T *)x.data, x.rows, x.row_stride, elements_apart<T>(stack, axes),
                    rows_of_words((const T *)x.data, x.row_stride) && x.cols % kPerWord<T> == 0};
    for (int axis = 0; axis < axes; ++axis) {
        rows.words &= rows.apart.along[axis] % kPerWord<T> == 0;
    }
    return rows;
}

/* The call's one side, or with `turned` the other: what is asked of pairs is that of the rows of b,
 * and the result out_b. */
template <typename T>
Gradient<T> gradient_of(const gd_gradient &call, bool turned)
{
    const int axes = call.axes;
    const auto pairs = [&](const gd_stack &x) -> OfPairs<T> {
        const ptrdiff_t down = x.first.row_stride, along = x.first.col_stride;
        const bool swap = turned && !call.pairs;
        return {(const T *)x.first.data, swap ? along : down, swap ? down : along,
                elements_apart<T>(x, axes)};
    };
    const gd_stack &out = turned ? call.out_b : call.out;
    return {pairs(call.asked),
            pairs(call.distances),
            rows_of<T>(turned ? call.b : call.a, axes),
            rows_of<T>(turned ? call.a : call.b, axes),
            {(T *)out.first.data, out.first.row_stride, elements_apart<T>(out, axes)},
            call.a.first.cols,
            call.pairs,
            (T)call.p,
            batch_of(axes, call.shape)};
}

}  // namespace gd
#endif
