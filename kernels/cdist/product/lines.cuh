/* lines.cuh: how results that tensor cores leave all over a warp are stored by cache lines.
 *
 * In float32 on an H200, 16384 x 16384: d = 64 0.386 ms where half lines take 0.42, d = 128 0.51
 * where they take 0.54. Rows that start anywhere slide in registers: n = 16383, d = 128 0.57 ms,
 * pairs 0.31; by way of shared memory, which products need as well, 0.64 and 0.34. (Only tiles that
 * are not all there still go that way, and float64.) If such rows could be stored as they are it
 * would be 0.50 and 0.27: two warps share a scheduler, a selection takes its pipe two cycles, and
 * there are 330 more of them than the 144 of aligned rows. Stores by whole sectors of 32 bytes are
 * as quick as by lines, by words of 16 pairs take 0.02 ms longer. Aligned rows pay for lanes having
 * eight columns that touch, which sliding needs: d = 64 1 % more than with four, d = 128 nothing.
 */
#ifndef GPUDIST_CDIST_PRODUCT_LINES_CUH
#define GPUDIST_CDIST_PRODUCT_LINES_CUH

#include "cdist/product/recompute/suspects.cuh"

namespace gd {
namespace product_form {

/* Results of a cache line. A lane holds a quarter of it, two words that touch. */
template <typename T>
constexpr int kLineCols = 128 / (int)sizeof(T);

/* Stores lines of two neighbouring rows. Lanes 0 to 3, 8 to 11 and so on hold the upper row, those
 * after them the lower one. As they stand a store would fill two half lines. So the upper lanes
 * give their second words for the first ones of the lower row, and eight lanes have all of a line:
 * upper ones the first words of each row, lower ones the second ones. */
template <typename T>
__device__ __forceinline__ void exchange(bool lower, const T (&own)[2][kPerWord<T>],
                                         T (&of_row)[2][kPerWord<T>])
{
#pragma unroll
    for (int e = 0; e < kPerWord<T>; ++e) {
        const T other = __shfl_xor_sync(~0u, lower ? own[0][e] : own[1][e], 4);
        of_row[0][e] = lower ? other : own[0][e];
        of_row[1][e] = lower ? own[1][e] : other;
    }
}

/* Stores a line of each of two neighbouring rows. `to` is where the lane's word stands in the upper
 * one. */
template <typename T>
__device__ __forceinline__ void store_lines(T *to, ptrdiff_t stride, bool lower,
                                            const T (&own)[2][kPerWord<T>])
{
    T of_row[2][kPerWord<T>];
    exchange(lower, own, of_row);
    stream_word(to, of_row[0]);
    stream_word(to + stride, of_row[1]);
}

/* Stores lines of rows that start anywhere, of which all columns are there. A row's results slide
 * by so many places, less than a word, that words here are words of memory; what slides out of a
 * lane comes to the next one. Then each lane puts its words off until the next line, if they stand
 * in the line of memory that the lanes with the first words of that one begin: so lines are stored
 * whole, but for the ends of the rows. Registers are scarce, so small numbers share two of them. */
template <typename T>
struct Sliding {
    static constexpr int kWord = kPerWord<T>, kMost = kWord - 1; /* places to slide by */
    static constexpr int kWordBytes = kWord * (int)sizeof(T);

    T *to[2][2]; /* of each pair of rows, and of the two: where a word of the first line goes */
    bool there[2][2]; /* and whether it goes there at once */
    T before[2][kMost], put_off[2][2][kWord];
    int left;      /* the lane before, of the four of a row, around the corner */
    unsigned bits; /* the words that are put off, then by how many places the lane's rows slide */

    __device__ __forceinline__ bool is_first() const { return (left & 3) == 3; }
    __device__ __forceinline__ bool is_last() const { return (left & 3) == 2; }
    __device__ __forceinline__ bool is_lower() const { return left & 4; }
    __device__ __forceinline__ bool is_late(int h, int r) const { return bits >> (h * 2 + r) & 1; }
    __device__ __forceinline__ int shift(int h) const { return bits >> (4 + h * 2) & kMost; }

    /* The lane's rows start at own[0] and own[1]. */
    __device__ __forceinline__ explicit Sliding(T *const (&own)[2])
    {
        const int lane = (int)this_thread() % kLanes;
        left = (lane & ~3) | ((lane - 1) & 3), bits = 0;
        const int place = lane % 4 * 2 + is_lower();
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uintptr_t at = (uintptr_t)own[h];
            const uintptr_t other = __shfl_xor_sync(~0u, (unsigned long long)at, 4);
            bits |= (unsigned)(at % kWordBytes / sizeof(T)) << (4 + h * 2);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const uintptr_t row = r == is_lower() ? at : other, first = row / kWordBytes;
                const bool late = first % 8 + place >= 8;
                bits |= (unsigned)late << (h * 2 + r);
                there[h][r] = !late && (place != 0 || row % kWordBytes == 0);
                to[h][r] = (T *)((first + place - (late ? 8 : 0)) * kWordBytes);
            }
#pragma unroll
            for (int i = 0; i < kMost; ++i) {
                before[h][i] = 0;
            }
        }
    }

    template <int kBy, int kCount>
    static __device__ __forceinline__ void slide(bool really, T (&x)[kCount])
    {
#pragma unroll
        for (int i = kCount - 1; i >= kBy; --i) {
            x[i] = really ? x[i - kBy] : x[i];
        }
    }

    /* Stores what it can of a line of rows h, from column `col` on. */
    __device__ __forceinline__ void store(int h, int col, bool first, bool last,
                                          const T (&results)[2][kWord])
    {
        T x[kMost + 2 * kWord], words[2][kWord], of_row[2][kWord];
#pragma unroll
        for (int i = 0; i < 2 * kWord; ++i) {
            x[kMost + i] = results[i / kWord][i % kWord];
        }
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
            const T last_one = x[2 * kWord + i];
            x[i] = __shfl_sync(~0u, is_last() ? before[h][i] : last_one, left);
            before[h][i] = last_one;
        }
        if constexpr (kWord == 4) {
            slide<2>(shift(h) & 2, x);
        }
        slide<1>(shift(h) & 1, x);
#pragma unroll
        for (int i = 0; i < 2 * kWord; ++i) {
            words[i / kWord][i % kWord] = x[kMost + i];
        }
        exchange(is_lower(), words, of_row);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            T now[kWord];
#pragma unroll
            for (int e = 0; e < kWord; ++e) {
                now[e] = first || !is_late(h, r) ? of_row[r][e] : put_off[h][r][e];
                put_off[h][r][e] = of_row[r][e];
            }
            if (!first || there[h][r]) {
                stream_word(to[h][r] + col, now);
            }
            if (last && is_late(h, r)) {
                stream_word(to[h][r] + col + kLineCols<T>, of_row[r]);
            }
        }
        /* The ends, which fill no word. */
        if (first || last) {
            const int r = is_lower(), place = (((left + 1) & 3) * 2 + r) * kWord;
            T *const own = (r ? to[h][1] : to[h][0]) + col + shift(h) - place +
                           (is_late(h, r) ? kLineCols<T> : 0);
#pragma unroll
            for (int e = 0; e < kMost; ++e) {
                if (first && is_first() && shift(h) != 0 && e < kWord - shift(h)) {
                    __stcs(own + e, results[0][e]);
                }
                if (last && is_last() && e >= kMost - shift(h)) {
                    __stcs(own + kLineCols<T> - kMost + e, results[1][1 + e]);
                }
            }
        }
    }
};

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

}  // namespace product_form
}  // namespace gd
#endif
