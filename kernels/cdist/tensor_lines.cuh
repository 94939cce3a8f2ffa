/* tensor_lines.cuh: how results that tensor cores leave all over a warp are stored by cache lines.
 * In float32 on an H200, 16384 x 16384: d = 64 0.386 ms where half lines take 0.42, d = 128 0.51
 * where they take 0.54. Rows that start anywhere, d = 127: 0.63 ms, by lines of the tile instead of
 * memory 0.80. With these rows moved so that no two lanes of a store to shared memory meet in a
 * bank it was 0.68: what binds is the number of instructions. Yet one bulk copy of a row instead of
 * words takes longer: 0.75 ms (d = 128), and pairs 0.405 instead of 0.344. */
#ifndef GPUDIST_TENSOR_LINES_CUH
#define GPUDIST_TENSOR_LINES_CUH

#include "tensor_marks.cuh"

namespace gd {
namespace marked {

/* Results of a cache line, of which half is a word of each of four neighbouring lanes. */
template <typename T>
constexpr int kLineCols = 128 / (int)sizeof(T);
template <typename T>
constexpr int kHalfLine = kLineCols<T> / 2;

/* Stores a line of each of two neighbouring rows. Lanes 0 to 3, 8 to 11 and so on hold the upper
 * row, those after them the lower one: `own` is a word of the line's left half, and one of the
 * right. As they stand a store would fill two half lines. So the upper lanes give their right half
 * for the left half of the lower row, and eight lanes fill one line after the other. `to` is where
 * the lane's word stands in the upper row: upper lanes have the left half, lower ones the right. */
template <typename T>
__device__ __forceinline__ void store_lines(T *to, ptrdiff_t stride, bool lower,
                                            const T (&own)[2][kPerWord<T>])
{
    T first[kPerWord<T>], second[kPerWord<T>];
#pragma unroll
    for (int e = 0; e < kPerWord<T>; ++e) {
        const T other = __shfl_xor_sync(~0u, lower ? own[0][e] : own[1][e], 4);
        first[e] = lower ? other : own[0][e];
        second[e] = lower ? own[1][e] : other;
    }
    stream_word(to, first);
    stream_word(to + stride, second);
}

/* Rows of a warp's results that start anywhere in memory, as those of pairs do, or of a matrix with
 * an odd number of columns: they wait in shared memory, each moved so that its words and lines of
 * memory are words and lines here, and what that moves beyond the end stands at the beginning. So
 * but for the ends of a row lines are stored whole. */
template <typename T, int kRows, int kCols>
struct Rows {
    struct alignas(16) Row {
        T *at;           /* where the tile's first column stands, or would stand */
        int moved;       /* by so many places */
        short low, high; /* columns there are, from low on */
    };
    alignas(16) T places[kRows][kCols];
    Row rows[kRows];

    static_assert(kRows <= kLanes && kCols % kLineCols<T> == 0, "a lane a row, whole lines");
    static __device__ __forceinline__ int wrapped(int place)
    {
        return place < kCols ? place : place - kCols;
    }

    /* Finds out where rows go, the first of which is `row`, from column `col` on. */
    template <Form kForm>
    __device__ __forceinline__ void aim(const Cdist<T, kForm> &call, ptrdiff_t row, ptrdiff_t col)
    {
        const int lane = (int)this_thread() % kLanes;
        if (lane < kRows) {
            row += lane;
            T *const at = call.row(row) + col;
            const ptrdiff_t left = call.packed() ? max(row + 1 - col, (ptrdiff_t)0) : 0;
            const ptrdiff_t right = row < call.a.count ? call.cols - col : 0;
            rows[lane] = {at, (int)((uintptr_t)at / sizeof(T) % kLineCols<T>),
                          (short)min(left, (ptrdiff_t)kCols), (short)min(right, (ptrdiff_t)kCols)};
        }
        __syncwarp();
    }

    /* Puts results that touch into a row, the first in column `col`, which is `most` at most. */
    template <int kCount>
    __device__ __forceinline__ void put(int row, int moved, int col, int most,
                                        const T (&results)[kCount])
    {
#pragma unroll
        for (int e = 0; e < kCount; ++e) {
            const int place = moved + col + e;
            const bool wraps = most + kCount + kLineCols<T> > kCols;
            places[row][wraps ? wrapped(place) : place] = results[e];
        }
    }

    /* Stores all rows. */
    __device__ __forceinline__ void send() const
    {
        constexpr int kWord = kPerWord<T>, kWords = kCols / kWord;
        const int lane = (int)this_thread() % kLanes;
        __syncwarp();
#pragma unroll 8
        for (int i = lane; i < kRows * kWords; i += kLanes) {
            const Row to = rows[i / kWords];
            const int place = i % kWords * kWord, before = place - to.moved;
            const int col = before < 0 ? before + kCols : before;
            T word[kWord];
            load_word(&places[i / kWords][place], word);
            if (to.low <= col && col + kWord <= to.high) {
                stream_word(to.at + col, word);
            }
        }
        /* The ends, which fill no word: two of each row. */
#pragma unroll
        for (int i = lane; i < 2 * kRows; i += kLanes) {
            const Row to = rows[i % kRows];
            const int first = (to.low + to.moved + kWord - 1) / kWord * kWord - to.moved;
            const int last = (to.high + to.moved) / kWord * kWord - to.moved;
            const int from = i < kRows ? to.low : max(first, last);
            const int until = i < kRows ? min(first, (int)to.high) : to.high;
#pragma unroll
            for (int e = 0; e < kWord - 1; ++e) {
                if (from + e < until) {
                    __stcs(to.at + from + e, places[i % kRows][wrapped(from + e + to.moved)]);
                }
            }
        }
        __syncwarp();
    }
};

}  // namespace marked
}  // namespace gd
#endif
