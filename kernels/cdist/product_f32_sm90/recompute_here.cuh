/* recompute_here.cuh: suspect elements that the warp which found them computes again, all of them,
 * without a list in memory or a step that follows: for once_sm90a.cu.
 *
 * A warp has sixteen rows by 64 columns. Where many of these are suspect it computes all in a
 * register tile, else those that are, one a lane, or one by several lanes (recompute_own.cuh). All
 * add in the order of GD_FOLD, so that this changes no bit. There is but one GD_GROUP of
 * dimensions.
 */
#ifndef GPUDIST_CDIST_PRODUCT_F32_SM90_RECOMPUTE_HERE_CUH
#define GPUDIST_CDIST_PRODUCT_F32_SM90_RECOMPUTE_HERE_CUH

#include "cdist/product_f32/recompute_own.cuh"

namespace gd {
namespace tensor {

/* From so many suspects of a warp's 1024 results on it computes all of them. */
constexpr unsigned kManySuspects = 24;

/* Brings a word of a row's dimensions, zeros beyond the last. */
__device__ __forceinline__ void bring_word(const float *from, ptrdiff_t stride, bool words,
                                           ptrdiff_t left, float (&to)[kPerWord<float>])
{
    if (words && left > 0) {
        load_word_const(from, to);
        return;
    }
#pragma unroll
    for (int k = 0; k < kPerWord<float>; ++k) {
        to[k] = k < left ? __ldg(from + k * stride) : 0.0f;
    }
}

/* Stores what is suspect of eight results that touch, bit 7 being the first one's. words: they are
 * all there, and aligned. */
__device__ __forceinline__ void store_suspects(float *to, const float (&results)[8], unsigned bits,
                                               bool words)
{
    constexpr int kWord = kPerWord<float>;
    if (words) { /* by whole words, which the warp has stored before */
#pragma unroll
        for (int i = 0; i < 8; i += kWord) {
            float word[kWord];
            load_word(to + i, word);
#pragma unroll
            for (int e = 0; e < kWord; ++e) {
                word[e] = bits & 0x80 >> (i + e) ? results[i + e] : word[e];
            }
            stream_word(to + i, word);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (bits & 0x80 >> i) {
            to[i] = results[i];
        }
    }
}

/* Words of a row of points in shared memory. */
template <int kSlabs>
constexpr int kRowWords = kSlabs * kDims / kPerWord<float>;

/* Brings points as they are to shared memory, where images have been, with zeros beyond the last
 * row and dimension. kTurns: as columns are read, of which lanes have rows eight apart: their words
 * are in such an order that these come from all banks. */
template <int kSlabs, int kRows, bool kTurns>
__device__ __forceinline__ void bring_points(uint4 *to, const Points<float> &points, bool words,
                                             ptrdiff_t d, ptrdiff_t first)
{
    constexpr int kWord = kPerWord<float>, kWords = kRowWords<kSlabs>;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < kRows * kWords; i += (int)blockDim.x) {
        const int row = i / kWords, k = i % kWords;
        const ptrdiff_t left = d - k * kWord;
        float x[kWord] = {};
        if (first + row < points.count && left > 0) {
            bring_word(
                points.data + (first + row) * points.row_stride + k * kWord * points.col_stride,
                points.col_stride, words, left, x);
        }
        store_word(reinterpret_cast<float *>(to + row * kWords + (kTurns ? k ^ (row / 8 % 8) : k)),
                   x);
    }
}

/* Computes all elements of a warp's unit, whose points are in shared memory, and stores those that
 * are suspect in lanes' words: a lane four rows by eight columns that touch. */
template <typename M, int kSlabs>
__device__ __forceinline__ void recompute_densely(const Cdist<float> &call, const uint4 *points_a,
                                                  const uint4 *points_b, uint32_t word,
                                                  ptrdiff_t row, ptrdiff_t col)
{
    constexpr int kHigh = 4, kWide = 8, kWord = kPerWord<float>, kWords = kRowWords<kSlabs>;
    const int lane = (int)(this_thread() % kLanes);
    const int across = lane % 8, first_row = lane / 8 * kHigh;
    const ptrdiff_t first_col = col + across * kWide;
    const auto load = [](const uint4 *from, float (&to)[kWord]) {
        load_word(reinterpret_cast<const float *>(from), to);
    };
    points_a += first_row * kWords;
    points_b += across * kWide * kWords;
    float total[kHigh][kWide] = {};
#pragma unroll 1
    for (int dim = 0; dim < (int)call.d; dim += GD_FOLD) {
        float fold[kHigh][kWide] = {};
#pragma unroll 1
        for (int k = dim / kWord; k < (dim + GD_FOLD) / kWord; ++k) {
            float a[kHigh][kWord];
#pragma unroll
            for (int i = 0; i < kHigh; ++i) {
                load(points_a + i * kWords + k, a[i]);
            }
#pragma unroll
            for (int j = 0; j < kWide; ++j) {
                float b[kWord];
                load(points_b + j * kWords + (k ^ across), b);
#pragma unroll
                for (int e = 0; e < kWord; ++e) {
#pragma unroll
                    for (int i = 0; i < kHigh; ++i) {
                        fold[i][j] = M::term(fold[i][j], a[i][e], b[e]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kHigh * kWide; ++i) {
            float &sum = total[i / kWide][i % kWide];
            sum = M::join(sum, fold[i / kWide][i % kWide]);
        }
    }
    const bool whole = call.words && first_col + kWide <= call.b.count;
    uint32_t unsafe = 0;
#pragma unroll
    for (int i = 0; i < kHigh; ++i) {
        /* Whoever had these of the products knows which are suspect (place_of_element): a byte. */
        const int in_unit = first_row + i;
        const uint32_t theirs = __shfl_sync(~0u, word, in_unit % 8 * 4 + across % 4);
        const unsigned bits = theirs >> (24 - across / 4 * 16 - in_unit / 8 * 8) & 0xff;
        float results[kWide];
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
            results[j] = M::finish(total[i][j]);
            unsafe = unsafe << 1 | (unsigned)(!M::safe(results[j]) && bits & 0x80 >> j);
        }
        store_suspects(call.row(row + in_unit) + first_col, results, bits, bits != 0 && whole);
    }
    /* The last bit is that of the last element. */
#pragma unroll 1
    for (; unsafe != 0; unsafe &= unsafe - 1) {
        const int i = kHigh * kWide - __ffs((int)unsafe);
        const ptrdiff_t to_row = row + first_row + i / kWide, to_col = first_col + i % kWide;
        call.row(to_row)[to_col] = result_in_f64<M>(call, to_row, to_col);
    }
}

/* Computes what is suspect in lanes' words, 32 elements at a time. */
template <typename M>
__device__ __forceinline__ void recompute_singly(const Cdist<float> &call, bool words,
                                                 uint32_t word, ptrdiff_t row, ptrdiff_t col,
                                                 int2 *list)
{
    const int lane = (int)(this_thread() % kLanes);
    int waiting = 0;
#pragma unroll 1
    while (true) {
        const unsigned have = __ballot_sync(~0u, word != 0);
        const int i = __clz((int)word), place = place_of_element<float>(lane, i & 31);
        if (word != 0) {
            list[waiting + __popc(have & ((1u << lane) - 1))] =
                make_int2((int)row + place % kUnitRows, (int)col + place / kUnitRows);
        }
        word &= ~(0x80000000u >> (i & 31));
        waiting += __popc(have);
        if (waiting < kLanes && have != 0) {
            continue;
        }
        if (waiting == 0) {
            return;
        }
        const int count = min(waiting, kLanes);
        waiting -= count;
        __syncwarp();
        recompute_own<M>(call, words, list + waiting, count);
        __syncwarp();
    }
}

/* The suspects of a unit that are there. */
__device__ __forceinline__ uint32_t those_there(const Cdist<float> &call, uint32_t word,
                                                ptrdiff_t row, ptrdiff_t col)
{
    const int lane = (int)(this_thread() % kLanes);
    for (uint32_t left = word; left != 0;) {
        const int i = __clz((int)left), place = place_of_element<float>(lane, i);
        const uint32_t suspect = 0x80000000u >> i;
        left &= ~suspect;
        word &= row + place % kUnitRows < call.a.count && col + place / kUnitRows < call.b.count
                    ? ~0u
                    : ~suspect;
    }
    return word;
}

}  // namespace tensor
}  // namespace gd
#endif
