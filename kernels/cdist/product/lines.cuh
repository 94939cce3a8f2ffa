/* lines.cuh: how results that tensor cores leave all over a warp are stored by cache lines.
 *
 * In float32 on an H200, 16384 x 16384: d = 64 0.386 ms where half lines take 0.42, d = 128 0.51
 * where they take 0.54. Rows that start anywhere slide in registers: n = 16383, d = 128 0.57 ms,
 * pairs 0.31; by way of shared memory, which products need as well, pairs take 4 to 7 % longer,
 * though that is 910 instructions of a warp and not 1535. (Only tiles that are not all there go
 * that way, cosine distances and float64.) If such rows began at lines it would be 0.50 and 0.27,
 * and on an H100 nearly as much if they slid there as well, by nothing (NOTES.md): selections take
 * 3 % at d = 128, and nothing that shows at 64. The rest is not due to lines or sectors that two
 * blocks complete; what it is due to was not found out. Stores by whole sectors of 32 bytes are as
 * quick as by lines, by words of 16 pairs take 0.02 ms longer. Aligned rows pay for lanes having
 * eight columns that touch, which sliding needs: d = 64 1 % more than with four, d = 128
 * nothing. */
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
 * an odd number of columns: they wait in shared memory, each moved by less than a word, so that its
 * words of memory are words here, which eight lanes then store by lines of memory. But for the ends
 * of a row all is stored by words.
 *
 * In float32 no two lanes of a warp meet in a bank when they put results of pairs here: of eight
 * neighbouring rows of pairs each number of places occurs twice, of an even and of an odd row, and
 * rows are an odd number of words apart. */
template <typename T, int kRows, int kCols>
struct Rows {
    static constexpr int kWord = kPerWord<T>, kPitch = kCols + kWord;
    static constexpr int kLines = kCols / kLineCols<T>; /* one more with those that are not whole */
    static constexpr int kLineLanes = 8;

    alignas(16) T places[kRows][kPitch];
    T *starts[kRows]; /* where the first columns stand, or would stand */

    static_assert(kRows <= kLanes && kCols % kLineCols<T> == 0, "a lane a row, whole lines");
    static_assert(kPitch / kWord % 2 == 1, "rows begin in different banks");

    static __device__ __forceinline__ int moved(const T *start)
    {
        return (int)((uintptr_t)start / sizeof(T)) & (kWord - 1);
    }

    /* Finds out where rows go, the first of which is `row`, from column `col` on. */
    template <Form kForm>
    __device__ __forceinline__ void aim(const Cdist<T, kForm> &call, ptrdiff_t row, ptrdiff_t col)
    {
        const int lane = (int)this_thread() % kLanes;
        if (lane < kRows) {
            starts[lane] = call.row(row + lane) + col;
        }
        __syncwarp();
    }

    /* Where a row's results wait, one after the other. */
    __device__ __forceinline__ T *room(int row) { return &places[row][moved(starts[row])]; }

    /* Stores all there is of rows that have been aimed. whole: all columns of all of them. */
    template <Form kForm>
    __device__ __forceinline__ void send(const Cdist<T, kForm> &call, ptrdiff_t row, ptrdiff_t col,
                                         bool whole) const
    {
        if (whole) {
            send_rows<true>(call, row, col);
        }
        else {
            send_rows<false>(call, row, col);
        }
    }

private:
    template <bool kWhole, Form kForm>
    __device__ __forceinline__ void send_rows(const Cdist<T, kForm> &call, ptrdiff_t first_row,
                                              ptrdiff_t first_col) const
    {
        const int lane = (int)this_thread() % kLanes;
        /* The columns that there are of a row, as they are moved: from `low` to before `high`. */
        const auto bound = [&](int row, int by, int &low, int &high) {
            low = by, high = by + kCols;
            if constexpr (!kWhole) {
                const ptrdiff_t own = first_row + row;
                const ptrdiff_t left = call.packed() ? max(own + 1 - first_col, (ptrdiff_t)0) : 0;
                const ptrdiff_t right = own < call.a.count ? call.cols - first_col : 0;
                high = by + (int)min(right, (ptrdiff_t)kCols);
                low = min(by + (int)min(left, (ptrdiff_t)kCols), high);
            }
        };
        __syncwarp();
#pragma unroll(kWhole ? kRows : 1)
        for (int i = 0; i < kRows; i += kLanes / kLineLanes) {
            const int row = i + lane / kLineLanes;
            T *const start = starts[row];
            int low, high;
            bound(row, moved(start), low, high);
            const uintptr_t first = (uintptr_t)start / sizeof(Word<T>);
            /* The lane's place in the line of memory that the first word is in. */
            const int word = lane % kLineLanes - (int)(first % kLineLanes);
            const T *const from = places[row] + word * kWord;
            T *const to = reinterpret_cast<T *>((first + word) * sizeof(Word<T>));
#pragma unroll
            for (int line = 0; line <= kLines; ++line) {
                const int place = word * kWord + line * kLineCols<T>;
                /* All but the first and the last line are whole in any case. */
                const bool sure = kWhole && line != 0 && line != kLines;
                if (sure || (place >= low && place + kWord <= high)) {
                    T results[kWord];
                    load_word(from + line * kLineCols<T>, results);
                    stream_word(to + line * kLineCols<T>, results);
                }
            }
        }
        /* The ends, which fill no word: a lane looks at one place of the first word and of the last
         * one, of a row. */
#pragma unroll(kWhole ? kRows : 1)
        for (int i = 0; i < kRows; i += kLanes / kWord) {
            const int row = i + lane / kWord, place = lane % kWord;
            T *const start = starts[row];
            const int by = moved(start);
            int low, high;
            bound(row, by, low, high);
            const int first = low / kWord * kWord, last = high / kWord * kWord;
            const T *const from = places[row];
            if (first + place >= low && first < low && first + place < high) {
                __stcs(start - by + first + place, from[first + place]);
            }
            if (last + place < high && (last > first || first == low)) {
                __stcs(start - by + last + place, from[last + place]);
            }
        }
        __syncwarp();
    }
};

}  // namespace product_form
}  // namespace gd
#endif
