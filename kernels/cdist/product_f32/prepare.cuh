/* prepare.cuh: from the caller's rows to the images and facts of operands.cuh.
 *
 * Four lanes take a row, a warp eight: a lane has the chunk of that number of every slab. So reads
 * are 128 bytes of a row, writes 128 bytes of a plane, and what lanes have to tell each other about
 * a row takes them two steps. They keep their chunks in registers, so rows of up to 512 dimensions
 * are read once, those of more than 128 by eight warps together. The reads are under way while the
 * centre is still being found. Operands that are the same rows are read as one.
 *
 * Floor: as many bytes are written as read, 16 MB each way for 65536 x 64, 8 us of an H200's
 * memory. Reached, from cold memory: 65536 x 64 14 us, x 512 76 (floor 64); 16384 rows on both
 * sides, x 64 8, x 128 12. A warp a row, which read it again to write it, took 38, 112, 20 and 20
 * us: too many instructions. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_PREPARE_CUH
#define GPUDIST_CDIST_PRODUCT_F32_PREPARE_CUH

#include "cdist/product_f32/operands.cuh"

namespace gd {
namespace tensor {

/* Warps of a block, if kSplit of them share rows. */
template <int kSplit>
constexpr int kPrepareWarps = kSplit > 4 ? kSplit : 4;
constexpr int kQuad = kChunks, kQuads = 32 / kQuad; /* lanes of a row, and rows of a warp */

/* Chunks of a row in a lane's registers. */
template <int kEach>
using Held = float[kEach][kChunk];

/* Brings a chunk, `left` dimensions of it and zeros beyond. words: aligned for loads of four, which
 * then are all there or all beyond. */
__device__ __forceinline__ void fetch(const float *from, ptrdiff_t stride, bool words, int left,
                                      float (&to)[kChunk])
{
    constexpr int kWord = kPerWord<float>;
    if (words) {
#pragma unroll
        for (int i = 0; i < kChunk; i += kWord) {
            Word<float> word = {};
            if (i < left) {
                word = __ldg(reinterpret_cast<const Word<float> *>(from + i));
            }
            unpack<float>(word, to + i);
        }
        return;
    }
    /* One address at a time, lest eight of them take the registers. */
    ptrdiff_t at = 0;
#pragma unroll
    for (int i = 0; i < kChunk; ++i, at += stride) {
        hide_origin(at);
        to[i] = i < left ? __ldg(from + at) : 0.0f;
    }
}

/* Moves a chunk; zeros beyond stay what they are. */
__device__ __forceinline__ void move(const Shift<float> *shift, int left, float (&x)[kChunk])
{
#pragma unroll
    for (int i = 0; i < kChunk; i += 2) {
        const float4 both = *reinterpret_cast<const float4 *>(shift + i);
        x[i] = Shift<float>{both.x, both.y}.move(x[i]);
        x[i + 1] = Shift<float>{both.z, both.w}.move(x[i + 1]);
    }
    if (left < kChunk) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
            x[i] = i < left ? x[i] : 0.0f;
        }
    }
}

/* Moves and scales a chunk in float64, so that all of it is rounded once. */
__device__ __forceinline__ void scale(const Shift<float> *shift, const double *roots, int left,
                                      float (&x)[kChunk])
{
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
        const double moved = (double)x[i] - (double)shift[i].high - (double)shift[i].low;
        x[i] = i < left ? (float)(moved * roots[i]) : 0.0f;
    }
}

/* x / y, rounded correctly, where y is a normal number of up to 12 bits: then no quotient is nearer
 * than 2^-13 of its last bit to the middle of two numbers. */
__device__ __forceinline__ float divide(float x, float y, float inverse)
{
    const float q = x * inverse;
    return fmaf(fmaf(-q, y, x), inverse, q);
}

/* Scales and splits two numbers: halves with what they leave over. inverse: of unscale. */
template <bool kFine>
__device__ __forceinline__ void split(const float *x, float unscale, float inverse, unsigned &hi,
                                      unsigned &lo)
{
    float y[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        /* Where it is 0 the row may hold anything. */
        y[i] = unscale == 0 ? 0.0f : kFine ? divide(x[i], unscale, inverse) : x[i] * inverse;
    }
    const __half2 high = __floats2half2_rn(y[0], y[1]);
    const float2 taken = __half22float2(high);
    const __half2 low = __floats2half2_rn(y[0] - taken.x, y[1] - taken.y);
    hi = *reinterpret_cast<const unsigned *>(&high);
    lo = *reinterpret_cast<const unsigned *>(&low);
}

/* A number of 12 bits that divides `largest` so that a half holds nearly all of the quotient, which
 * is in [2^14, 2^15]. Of 32 that are tried, each for another half, every lane of a row tries eight.
 * What products leave out then is small where it would be largest, and the product of two such
 * numbers is exact. */
__device__ __forceinline__ float fine_unscale(float largest)
{
    constexpr unsigned kTried = 32;
    const auto number = [&](unsigned i) {
        const float half = (float)((1024 + 33 * i) * 16);
        const float ratio = divide(largest, half, reciprocal(half));
        return __int_as_float((__float_as_int(ratio) + 0x800) & ~0xfff);
    };
    unsigned least = ~0u;
#pragma unroll
    for (unsigned i = threadIdx.x % kQuad, n = 0; n < kTried / kQuad; i += kQuad, ++n) {
        const float own = number(i), quotient = divide(largest, own, reciprocal(own));
        const float rest = fabsf(quotient - __half2float(__float2half_rn(quotient)));
        least = min(least, (__float_as_uint(rest) & ~(kTried - 1)) | i);
    }
#pragma unroll
    for (int step = kQuad / 2; step > 0; step /= 2) {
        least = min(least, __shfl_xor_sync(~0u, least, step));
    }
    return number(least % kTried);
}

/* Sums that facts are made of. Lanes of a row, and warps that share one, join them in the end. */
struct Size {
    double squares = 0;
    float largest = 0, least = __builtin_huge_valf(); /* but for zeros */

    __device__ __forceinline__ void join(const Size &other)
    {
        squares += other.squares;
        largest = fmaxf(largest, other.largest);
        least = fminf(least, other.least);
    }
};

/* The sizes of both halves of each of a lane's chunks, four of which make a hundred and
 * twenty-eight dimensions with those of other lanes. */
template <bool kLeast, int kEach>
struct Sizes {
    double squares[kEach][2] = {};
    float largest = 0, least = __builtin_huge_valf();

    __device__ __forceinline__ void add(const Held<kEach> &x)
    {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
#pragma unroll
            for (int i = 0; i < kChunk; ++i) {
                squares[j][i / 4] = gd_add_square(squares[j][i / 4], (double)x[j][i]);
                largest = fmaxf(largest, fabsf(x[j][i]));
                if constexpr (kLeast) {
                    least = x[j][i] != 0 ? fminf(least, fabsf(x[j][i])) : least;
                }
            }
        }
    }
    /* Adds up in a tree. */
    __device__ __forceinline__ Size sum()
    {
#pragma unroll
        for (int left = kEach; left > 1; left = (left + 1) / 2) {
#pragma unroll
            for (int j = 0; j < left / 2; ++j) {
                squares[j][0] += squares[j + (left + 1) / 2][0];
                squares[j][1] += squares[j + (left + 1) / 2][1];
            }
        }
        double first = squares[0][0], second = squares[0][1];
#pragma unroll
        for (int step = kQuad / 2; step > 0; step /= 2) {
            first += __shfl_xor_sync(~0u, first, step);
            second += __shfl_xor_sync(~0u, second, step);
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
            if constexpr (kLeast) {
                least = fminf(least, __shfl_xor_sync(~0u, least, step));
            }
        }
        return {first + second, largest, least};
    }
};

/* What one row is. unscale: 0 for rows that are computed directly, else the power of two that
 * divides the largest element to [2^14, 2^15), next to the end of a half; in fine rows a number of
 * fine_unscale. */
template <gd_metric kMetric, bool kFine>
__device__ __forceinline__ void find_facts(const Size &size, ptrdiff_t d, double keep, float &norm,
                                           float &unscale)
{
    using R = Rules<kMetric>;
    const double squares = size.squares;
    /* Comparisons with NaN are false; the sum is infinite or NaN if any element is. */
    const bool usual = R::product
                           ? squares <= 1e300 && size.largest >= 0x1p-90f && size.largest <= 0x1p90f
                           : squares >= R::least && squares <= R::most;
    const int exponent = 14 - ((__float_as_int(size.largest) >> 23) - 127);
    unscale = kFine ? fine_unscale(size.largest) : __int_as_float((127 - exponent) << 23);
    /* What a half cannot hold is at most 2^-25 an element, times at most 2^15: 2^-17 of products
     * from d * 2^7 on. Elements from 2^-3 on keep 22 bits, like all others. */
    norm = !R::product                       ? (float)(squares * keep)
           : size.least >= 0x1p-3f * unscale ? 0.0f
                                             : (float)d * -0x1p7f;
    if (!usual) {
        /* A row of zeros has products of 0, and the other row's norm is the distance. */
        norm = squares == 0 ? 0.0f : -__builtin_huge_valf();
        unscale = 0;
    }
}

/* Joins what warps have found of the rows that they share. */
template <int kSplit>
__device__ __forceinline__ void join_warps(Size &size)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    __shared__ Size shares[kSplit][kQuads];
    if (lane % kQuad == 0) {
        shares[warp][lane / kQuad] = size;
    }
    __syncthreads();
    size = shares[0][lane / kQuad];
#pragma unroll
    for (int i = 1; i < kSplit; ++i) {
        size.join(shares[i][lane / kQuad]);
    }
}

/* What a row of an operand is, with the terms of scaled rows; zeros where there is none. */
template <gd_metric kMetric, bool kFine, int kCols>
__device__ __forceinline__ void find_facts_of(const PlanOf<kCols> &plan, const Points<float> &x,
                                              const Size &size, ptrdiff_t d, unsigned row,
                                              bool of_a, float &norm, float &unscale)
{
    find_facts<kMetric, kFine>(size, d, plan.keep, norm, unscale);
    if (Rules<kMetric>::scalable && plan.terms.a && norm >= 0) {
        norm = (float)(plan.terms.norm(size.squares, x.clamp(row), of_a) * plan.keep);
    }
    if (row >= x.count) {
        norm = unscale = 0;
    }
}

/* Where a row is in the images of an operand: its tile, and its place there. */
struct RowPlace {
    unsigned tile;
    int in_tile;
};

/* Puts what a row is where those look who finish its results. */
template <int kCols>
__device__ __forceinline__ void put_facts(const PlanOf<kCols> &plan, const RowPlace &in_a,
                                          const RowPlace &in_b, bool of_a, bool of_b, float norm,
                                          float unscale)
{
    if (of_a) {
        plan.facts_a[in_a.tile].norm[in_a.in_tile] = norm;
        plan.facts_a[in_a.tile].unscale[in_a.in_tile] = unscale;
    }
    if (of_b) {
        plan.facts_b[in_b.tile].norm[in_b.in_tile] = norm;
        plan.facts_b[in_b.tile].unscale[in_b.in_tile] = unscale;
    }
}

/* Puts a chunk into the images of the operands that it is of, as halves and what these leave over,
 * which lie in another order in B's. */
template <int kCols, bool kFine>
__device__ __forceinline__ void put_chunk(const float (&chunk)[kChunk], float unscale,
                                          float inverse, bool of_a, bool of_b, uint4 *at_a,
                                          uint4 *at_b)
{
    unsigned hi[4], lo[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        split<kFine>(chunk + 2 * i, unscale, inverse, hi[i], lo[i]);
    }
    const uint4 high = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    const uint4 low = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    if (of_a) {
        at_a[0] = high;
        at_a[Shape<kCols>::plane_a] = low;
    }
    if (of_b) {
        at_b[0] = low;
        at_b[Shape<kCols>::plane_b] = high;
    }
}

/* Says that nothing is suspect yet. */
template <int kCols>
__device__ __forceinline__ void begin_suspects(const PlanOf<kCols> &plan)
{
    *plan.suspects.total = 0;
    if (plan.terms.lost) {
        *plan.terms.lost = 0;
    }
    if (plan.suspects.tiles_down == 1) { /* nobody looks for an order */
        *plan.suspects.queued = plan.suspects.listed[0] = plan.suspects.ordered[0] = 0;
    }
}

/* Dimensions of a lane's chunk in a slab, at most; none, or less, beyond the last. */
__device__ __forceinline__ int left_of(ptrdiff_t d, int slab, int in_slab)
{
    return (int)min(d - (ptrdiff_t)slab * kDims, (ptrdiff_t)kDims) - in_slab;
}

/* Moves, or scales, the chunks that a lane holds of slabs from `slab` on. */
template <gd_metric kMetric, int kEach, int kCols>
__device__ __forceinline__ void shift_piece(const PlanOf<kCols> &plan, ptrdiff_t d, int slab,
                                            int slabs, int in_slab, Held<kEach> &y)
{
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        const ptrdiff_t first = (ptrdiff_t)(slab + j) * kDims + in_slab;
        if (Rules<kMetric>::scalable && plan.weights.roots && slab + j < slabs) {
            scale(plan.shift + first, plan.weights.roots + first, left_of(d, slab + j, in_slab),
                  y[j]);
        }
        else if (slab + j < slabs) {
            move(plan.shift + first, left_of(d, slab + j, in_slab), y[j]);
        }
    }
}

/* Puts the chunks that a lane holds of slabs from `slab` on into the images. */
template <int kCols, bool kFine, int kEach>
__device__ __forceinline__ void put_piece(const Held<kEach> &y, int slab, int slabs, float unscale,
                                          float inverse, bool of_a, bool of_b, uint4 *image_a,
                                          uint4 *image_b)
{
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (slab + j >= slabs) {
            break;
        }
        put_chunk<kCols, kFine>(y[j], unscale, inverse, of_a, of_b,
                                image_a + (ptrdiff_t)(slab + j) * Shape<kCols>::image_a,
                                image_b + (ptrdiff_t)(slab + j) * Shape<kCols>::image_b);
    }
}

/* kSplit warps share eight rows. kEach: chunks that a lane holds at a time. */
template <gd_metric kMetric, int kSplit, int kEach, bool kFine, int kCols>
__global__ void __launch_bounds__(kPrepareWarps<kSplit> * 32, kSplit > 1 ? 3 : 0)
    prepare(const __grid_constant__ Cdist<float> call, const __grid_constant__ PlanOf<kCols> plan,
            bool words_a, bool words_b, bool same)
{
    constexpr bool kShifts = Rules<kMetric>::shifts;
    constexpr int kImageA = Shape<kCols>::image_a, kImageB = Shape<kCols>::image_b;
    constexpr int kRows = kPrepareWarps<kSplit> / kSplit * kQuads;
    static_assert(kTileRows % kRows == 0 && kCols % kRows == 0, "a block, one tile");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const unsigned blocks_a = (unsigned)plan.tiles_down * (kTileRows / kRows);
    const bool of_a = blockIdx.x < blocks_a;
    const Points<float> &x = of_a ? call.a : call.b;
    const bool words = of_a ? words_a : words_b;
    const unsigned row = (blockIdx.x - (of_a || same ? 0 : blocks_a)) * kRows +
                         (unsigned)(warp / kSplit * kQuads + lane / kQuad);
    const bool of_b = same ? row < plan.tiles_across * kCols : !of_a;
    const float *const from = x.data + x.clamp(row) * x.row_stride;
    /* Slabs of this warp: kEach of every kEach * kSplit. */
    constexpr int kPiece = kEach * kSplit;
    const int slabs = (int)plan.slabs, first_slab = warp % kSplit * kEach;
    Held<kEach> y;
    const int in_slab = lane % kQuad * kChunk;
    const auto bring = [&](int slab) {
        const float *const start = from + ((ptrdiff_t)slab * kDims + in_slab) * x.col_stride;
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            fetch(start + j * kDims * x.col_stride, x.col_stride, words,
                  left_of(call.d, slab + j, in_slab), y[j]);
        }
    };
    const auto shift = [&](int slab) {
        if constexpr (kShifts) {
            shift_piece<kMetric>(plan, call.d, slab, slabs, in_slab, y);
        }
    };

    /* The first step of all has to wait before it reads. */
    if constexpr (!kShifts) {
        follow();
    }
    bring(first_slab);
    if constexpr (kShifts) {
        follow<true>();
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        begin_suspects(plan);
    }
    if (call.packed()) {
        plan.suspects.clear();
    }

    Sizes<!kShifts, kEach> sizes;
    int slab = first_slab;
#pragma unroll 1
    for (;; bring(slab)) {
        shift(slab);
        sizes.add(y);
        if (kSplit == 1 || slab + kPiece >= slabs) {
            break;
        }
        slab += kPiece;
    }
    Size size = sizes.sum();
    if constexpr (kSplit > 1) {
        join_warps<kSplit>(size);
    }
    float norm, unscale;
    find_facts_of<kMetric, kFine>(plan, x, size, call.d, row, of_a, norm, unscale);
    const RowPlace in_a = {row / kTileRows, (int)(row % kTileRows)};
    const RowPlace in_b = {row / kCols, (int)(row % kCols)};
    if (warp % kSplit == 0 && lane % kQuad == 0) {
        put_facts(plan, in_a, in_b, of_a, of_b, norm, unscale);
    }

    /* The inverse of a power of two, whose exponent has the other sign. */
    const float inverse =
        kFine ? reciprocal(unscale) : __int_as_float((127 * 2 << 23) - __float_as_int(unscale));
    const ptrdiff_t plane = lane % kQuad * 2;
    uint4 *const image_a = plan.image_a + in_a.tile * plan.slabs * kImageA +
                           plane * Shape<kCols>::plane_a + in_a.in_tile;
    uint4 *const image_b = plan.image_b + in_b.tile * plan.slabs * kImageB +
                           plane * Shape<kCols>::plane_b + place_of_column(in_b.in_tile);
    /* The last piece is still there. */
#pragma unroll 1
    while (true) {
        put_piece<kCols, kFine, kEach>(y, slab, slabs, unscale, inverse, of_a, of_b, image_a,
                                       image_b);
        if (kSplit == 1 || slab == first_slab) {
            return;
        }
        slab -= kPiece;
        bring(slab);
        shift(slab);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
