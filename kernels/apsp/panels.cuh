/* panels.cuh: what the phases of blocked Floyd-Warshall hand on to each other: the matrix, and for
 * each pivot k of a round column k and row k of the whole matrix as they were at stage k.
 *
 * Layout: a panel is cut into blocks of `pivots` lines; in a block, the lines of one pair of pivots
 * lie together, so that what phase 3 reads of a tile is one piece of memory. A ring says how panels
 * and matrix hold elements (Word, Stored); closing works on one element a register (Value). */
#ifndef GPUDIST_APSP_PANELS_CUH
#define GPUDIST_APSP_PANELS_CUH

#include <cuda_pipeline_primitives.h>

#include "semiring/rings.cuh"

namespace gd {

/* Two neighbouring pairs, of which the first lies at an even place. */
template <typename V>
__device__ __forceinline__ void load_run(const Pair<V> *from, Pair<V> *to)
{
#pragma unroll
    for (int e = 0; e < 2; e += kPerWord<V> / 2) {
        load_word<V>(&from[e].first, &to[e].first);
    }
}
template <typename V>
__device__ __forceinline__ void store_run(Pair<V> *to, const Pair<V> *from)
{
#pragma unroll
    for (int e = 0; e < 2; e += kPerWord<V> / 2) {
        store_word<V>(&to[e].first, &from[e].first);
    }
}

/* How Plus and its like hold elements: as they are. */
template <typename Ring>
struct Storage {
    using Word = typename Ring::Word;  /* of the inner loop of phase 3 */
    using Value = Word;                /* in the registers of phases 1 and 2 */
    using Stored = Word;               /* in the matrix */
    static constexpr int kPerWord = 1; /* neighbouring columns in a word of the matrix */

    /* Two neighbouring columns of the matrix. */
    static __device__ __forceinline__ void load(const Stored *from, Value *to)
    {
        const Pair<Value> both = *reinterpret_cast<const Pair<Value> *>(from);
        to[0] = both.first, to[1] = both.second;
    }
    static __device__ __forceinline__ void store(Stored *to, const Value *from)
    {
        *reinterpret_cast<Pair<Value> *>(to) = {from[0], from[1]};
    }
    /* Two neighbouring lines enter a panel, or leave it for shared memory, where they are after
     * __pipeline_wait_prior(). */
    static __device__ __forceinline__ void put_cols(Pair<Word> *at, Pair<Value> x, Pair<Value> y)
    {
        const Pair<Value> two[2] = {x, y};
        store_run(at, two);
    }
    static __device__ __forceinline__ void put_rows(Pair<Word> *at, Pair<Value> x, Pair<Value> y)
    {
        put_cols(at, x, y);
    }
    static __device__ __forceinline__ void get_cols(const Pair<Word> *at, Pair<Value> *to)
    {
#pragma unroll
        for (int e = 0; e < 2; e += gd::kPerWord<Value> / 2) {
            __pipeline_memcpy_async(to + e, at + e, 16);
        }
    }
    static __device__ __forceinline__ void get_rows(const Pair<Word> *at, Pair<Value> *to)
    {
        get_cols(at, to);
    }
};

/* Joins one element with the two terms of a pair. */
template <typename Ring>
__device__ __forceinline__ void fold_values(typename Storage<Ring>::Value &c,
                                            Pair<typename Storage<Ring>::Value> a,
                                            Pair<typename Storage<Ring>::Value> b)
{
    if constexpr (Storage<Ring>::kPerWord == 1) {
        Ring::fold(c, a, b);
    }
    else {
        Ring::fold_values(c, a, b);
    }
}

/* The panels of a round of so many pivots (0: the call knows), in blocks of so many lines of
 * columns and of rows. What phase 3 reads of a tile is then whole blocks. The panel of predecessors
 * is laid out like that of rows. */
template <int kRoundPivots, int kColsLines, int kRowsLines>
struct Layout {
    static constexpr int kPivots = kRoundPivots, kColsWidth = kColsLines, kRowsWidth = kRowsLines;
};
template <typename Ring, int kPivots>
using Whole =
    Layout<kPivots, kPivots,
           kPivots == 128 && std::is_same<Ring, Plus<float>>::value ? kPivots / 2 : kPivots>;
/* A round of 128 pivots of which 64 are closed at a time. */
using Halves = Layout<128, 64, 64>;
/* What closes pivots of a round sees of its panels. Those that are closed 64 at a time with
 * predecessors, of either round, have one kernel. */
template <typename Ring, int kPivots, bool kPred>
using Closing = std::conditional_t<kPred, Layout<0, 64, 64>, Whole<Ring, kPivots>>;

/* Where a pair of pivots and a line are in a panel of blocks of kWidth lines, with so many lines in
 * a word. */
template <int kWidth, int kPerWord = 1>
__host__ __device__ constexpr ptrdiff_t panel_at(int pivots, int pair, ptrdiff_t line)
{
    return ((line / kWidth * (pivots / 2) + pair) * kWidth + line % kWidth) / kPerWord;
}

/* The matrices that are closed in place; pred is NULL without predecessors. A symmetric matrix
 * stays symmetric, bit for bit, as a + b is b + a: then only the tiles on and above its diagonal
 * are kept up, without predecessors, and a strip makes both panels. */
template <typename Ring>
struct Paths {
    using Hold = Storage<Ring>;
    typename Hold::Stored *dist;
    int32_t *pred;
    ptrdiff_t padded, stride; /* lines; elements from a row of dist to the next */
    bool symmetric;
    int pivots; /* of a round */
    Pair<typename Hold::Word> *cols, *rows;
    Pair<int32_t> *preds; /* in the order of rows: {k + 1, k} */

    template <typename Panels>
    __device__ __forceinline__ int pivots_of() const
    {
        return Panels::kPivots > 0 ? Panels::kPivots : pivots;
    }
    /* Where a pair of pivots and a line are in the panels. */
    template <typename Panels>
    __device__ __forceinline__ ptrdiff_t cols_at(int pair, ptrdiff_t line) const
    {
        return panel_at<Panels::kColsWidth>(pivots_of<Panels>(), pair, line);
    }
    template <typename Panels>
    __device__ __forceinline__ ptrdiff_t rows_at(int pair, ptrdiff_t line) const
    {
        return panel_at<Panels::kRowsWidth, Hold::kPerWord>(pivots_of<Panels>(), pair, line);
    }
};

template <typename V>
__device__ __forceinline__ Pair<V> turned(Pair<V> x)
{
    return {x.second, x.first};
}

}  // namespace gd
#endif
