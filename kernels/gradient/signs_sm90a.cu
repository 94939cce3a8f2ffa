/* signs_sm90a.cu: gradients of cityblock distances in float32, by products of signs; on 9.0.
 *
 * Idea: of a pair and a dimension all that counts is the sign of a difference. Elements become
 * ranks of half precision (ranks.cuh). One addition of two halves, cut off to [0, 1], makes the
 * signs of two pairs: 1, 1/2 or 0. Tensor cores add up what is asked times these, less half of what
 * is asked, with which a sum begins. A product of 16 x 8 x 16 has 16 dimensions, the pairs of four
 * rows of a with four rows of b, and eight columns: for each row of a two halves of what is asked,
 * scaled so that the largest of the row's pairs in a slab is from 2^14 to 2^15. What is asked of
 * other rows is 0 in a column: so a column is a thread's own, or nothing, and threads load only
 * their own.
 *
 * - Steps: keys of both operands; ranks; a walk over both sides; join.cuh for each, where blocks
 *   have parts of sums. Where there are enough blocks, one has all parts, and adds them up as
 *   join.cuh does. A side has the bits that it has alone.
 * - Sums begin anew with each 32 rows of b, and parts are so many rows as these alone tell.
 * - Distances say no more than whether they are NaN. They are read where a point is not finite.
 * - What is asked infinitely for is added alone at the end; NaN makes NaN of the row's scale.
 * - Four warps bring slabs of 64 rows of b: their ranks by a bulk copy, halves of what is asked by
 *   registers, loaded a slab ahead. Others multiply, and wait for slabs alone.
 *
 * The bound: four products take 24 cycles of a scheduler, and sixteen additions of two halves 17.
 * They use one pipe: beside each other they take 44 to 48, which is 3.4 ms of 16384 x 16384 x 128,
 * both sides, at 1.755 GHz. What else is issued comes on top: for four products 8 instructions of a
 * warp that multiplies, of 128 dimensions, and 6 of those that bring.
 *
 * Launch: a block has 16 rows of a in 128 dimensions, 32 in 64, or 64 in 32; a warp has 8 rows of
 * these in 32 dimensions where a block has 128, and 16 otherwise. Shape says the rest. Up to 64
 * dimensions some numbers spill that a part of the sums needs once.
 *
 * Reached on an H200, both sides, beside the form before it in the same run, where all warps
 * brought and multiplied: 16384 x 16384 x 128 4.79 ms (5.42); 4096 x 4096 x 128 0.340 (0.386);
 * 2048 x 2048 x 128 0.105 (0.119); (8, 1000, 700, 100) 0.164 (0.188); (64, 512, 512, 64) 0.277
 * (0.278); 4096 x 4096 x 64 0.207 (0.212); 4096 x 4096 x 32 0.159 (0.159). */
#include <cuda_fp16.h>

#include "arch/barrier.cuh"
#include "arch/mma.cuh"
#include "arch/registers.cuh"
#include "arch/shared.cuh"
#include "common/steps.cuh"
#include "gradient/join.cuh"
#include "gradient/ranks.cuh"
#include "gradient/terms.cuh"

namespace {

using gd::kChunk;
using gd::Rank;
using Cityblock = gd::Term<GD_CITYBLOCK>;

constexpr int kBringers = 128; /* threads of a block that bring what others multiply */
constexpr int kWide = 2;       /* products of 16 dimensions, that a warp has side by side */
constexpr int kSlab = gd::kTogether;
constexpr int kOwn = kSlab / 8; /* rows of a slab that a thread makes halves of; a word of them */
constexpr int kChains = 2;      /* of products of a slab, each with sums of its own */
constexpr int kSteps = kOwn / kChains;
constexpr int kImagePitch = 8 + 1; /* of halves of what is asked, in words: it keeps banks apart */
constexpr int kTurnRows = kBringers / 8; /* rows of a whose halves are made at a time */
constexpr unsigned kInfinity = 0x7f800000u;

/* How a block is made: kThreads of it multiply, kAcross warps side by side, each with so many
 * groups of four rows of a. It has room for kStages slabs, a multiprocessor for kBlocks blocks.
 * Threads that multiply take kTaken registers each, others kGiven. */
template <int kAcross, int kThreads, int kBlocks, int kTaken, int kGiven, int kStages>
struct Shape {
    static constexpr int across = kAcross, dims = 16 * kWide * across, rows = 64 / across;
    static constexpr int threads = kThreads, all = threads + kBringers, warps = threads / 32;
    static constexpr int groups = 16 / warps, blocks = kBlocks, stages = kStages;
    static constexpr int taken = kTaken, given = kGiven;
};

/* Slabs, each with ranks and with halves of what is asked. */
template <typename S>
struct Memory {
    alignas(128) Rank ranks[S::stages][S::dims][gd::kRankPitch];
    alignas(16) uint4 image[S::stages][S::rows / 4][kOwn][kImagePitch];
    alignas(16) float4 start[S::stages][kChains][S::rows];
    float scale[S::stages][S::rows];
    uint64_t filled[S::stages], emptied[S::stages]; /* barriers */
    int apart;                                      /* whether something is to be added alone */
};

/* One side: sums for the rows of call.a over those of call.b. */
struct Side {
    gd::Gradient<float> call;
    gd::Ranks own, other;
    const unsigned char *odd[2]; /* of both operands, so many of a matrix */
    unsigned tiles[2];
    unsigned down, parts; /* blocks of a's rows; parts of b's rows */
    ptrdiff_t blocks;     /* of all */
    unsigned at_once;     /* parts that a block does */
    int part_slabs;
    float *workspace;
    bool own_sorted;
};
struct Sides {
    Side side[2];
};

/* Which tile of the sums a block computes, and over which parts of b's rows. */
template <typename S>
struct Tile {
    ptrdiff_t part_rows;
    unsigned first_part, parts;
    ptrdiff_t number, top, dim;

    __device__ __forceinline__ Tile(const Side &side, unsigned block)
    {
        const unsigned across = (unsigned)gd::ceil_div(side.call.d, S::dims);
        const unsigned shares = (side.parts + side.at_once - 1) / side.at_once;
        part_rows = side.part_slabs * (ptrdiff_t)kSlab;
        first_part = block / side.down / across % shares * side.at_once;
        parts = min(side.at_once, side.parts - first_part);
        number = block / side.down / across / shares;
        top = (ptrdiff_t)(block % side.down) * S::rows;
        dim = (ptrdiff_t)(block / side.down % across) * S::dims;
    }

    /* Which ranks count for the slab that begins at row j of b: those of a chunk of the sorted
     * rows.
     */
    __device__ __forceinline__ ptrdiff_t chunk(const Side &side, ptrdiff_t j) const
    {
        return (side.own_sorted ? top : j) / kChunk;
    }
};

/* What a block does: its tile, with the rows and dimensions that there are, for rows [first, last)
 * of b; and the matrix's pairs. add_alone is told of it in memory: slabs ask the tile instead. */
struct Share {
    ptrdiff_t number, top, dim, first, last;
    int rows, dims;
    gd::PairsOfOne<float> asked, away;

    template <typename S>
    __device__ __forceinline__ Share(const Side &side, const Tile<S> &tile)
        : number(tile.number),
          top(tile.top),
          dim(tile.dim),
          first(tile.first_part * tile.part_rows),
          last(min((tile.first_part + tile.parts) * tile.part_rows, side.call.b.count)),
          rows((int)min(side.call.a.count - top, (ptrdiff_t)S::rows)),
          dims((int)min(side.call.d - dim, (ptrdiff_t)S::dims)),
          asked(side.call.asked, side.call.batch, number, side.call.pairs, side.call.b.count),
          away(side.call.away, side.call.batch, number, side.call.pairs, side.call.b.count)
    {
    }
};

/* Loads what is asked of each eighth pair of a row from `first` on, of the slab that begins at row
 * j of b and has so many; 0 where there is none. */
__device__ __forceinline__ void load_asked(float (&x)[kOwn], const Share &share, bool whole,
                                           int row, int first, ptrdiff_t j, int cols)
{
    const ptrdiff_t i = share.top + row, along = share.asked.along;
    if (whole && cols == kSlab) {
        const float *from = share.asked.data + i * share.asked.down + (j + first) * along;
        if (along == 1) {
#pragma unroll
            for (int k = 0; k < kOwn; ++k) {
                x[k] = __ldg(from + 8 * k);
            }
        }
        else {
#pragma unroll
            for (int k = 0; k < kOwn; ++k) {
                x[k] = __ldg(from);
                from += 8 * along;
            }
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
        const int col = first + 8 * k;
        const bool there = row < share.rows && col < cols && share.asked.has(i, j + col);
        x[k] = there ? __ldg(share.asked.at(i, j + col)) : 0.0f;
    }
}

__device__ __forceinline__ unsigned size_of(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/* Makes halves of what is asked of a row's pairs, of which eight threads have an eighth each. */
template <typename S>
__device__ __forceinline__ void make_halves(Memory<S> &memory, int stage, float (&x)[kOwn], int row,
                                            int first, bool *apart)
{
    unsigned most = 0;
#pragma unroll
    for (const float value : x) {
        most = max(most, size_of(value));
    }
#pragma unroll
    for (int lane = 1; lane < 8; lane *= 2) {
        most = max(most, __shfl_xor_sync(~0u, most, lane));
    }
    bool none = false; /* whether there is NaN among the row's */
    if (__any_sync(~0u, most >= kInfinity)) {
        most = 0;
#pragma unroll
        for (float &value : x) {
            const unsigned size = size_of(value);
            none |= size > kInfinity;
            *apart |= size == kInfinity;
            value = size >= kInfinity ? 0 : value;
            most = max(most, size_of(value));
        }
#pragma unroll
        for (int lane = 1; lane < 8; lane *= 2) {
            most = max(most, __shfl_xor_sync(~0u, most, lane));
            none |= __shfl_xor_sync(~0u, (int)none, lane) != 0;
        }
    }
    const unsigned exponent = max(most >> 23, 15u);
    const float scale = __uint_as_float((268 - exponent) << 23);
    float sum = 0;
    unsigned high[kOwn / 2], low[kOwn / 2];
#pragma unroll
    for (int k = 0; k < kOwn / 2; ++k) {
        const float one = x[2 * k] * scale, two = x[2 * k + 1] * scale;
        const __half2 taken = __floats2half2_rn(one, two);
        const float2 back = __half22float2(taken);
        const __half2 left = __floats2half2_rn(one - back.x, two - back.y);
        high[k] = *reinterpret_cast<const unsigned *>(&taken);
        low[k] = *reinterpret_cast<const unsigned *>(&left);
        sum = k == 0 ? one + two : sum + (one + two);
    }
#pragma unroll
    for (int lane = 1; lane < 8 / kChains; lane *= 2) {
        sum += __shfl_xor_sync(~0u, sum, lane);
    }
    uint4 *const place = &memory.image[stage][row / 4][first][row % 4 * 2];
    place[0] = make_uint4(high[0], high[1], high[2], high[3]);
    place[1] = make_uint4(low[0], low[1], low[2], low[3]);
    if (first % (8 / kChains) == 0) {
        sum *= -0.5f;
        memory.start[stage][first / (8 / kChains)][row] = make_float4(sum, 0, sum, 0);
        memory.scale[stage][row] =
            none ? __uint_as_float(~0u >> 1) : __uint_as_float((exponent - 13) << 23);
    }
}

/* Takes NaN for what is asked of pairs whose distance is NaN. */
__device__ __forceinline__ void take_odd(float (&x)[kOwn], const Share &share, int row, int first,
                                         ptrdiff_t j, int cols)
{
#pragma unroll 1
    for (int col = 0; col < kSlab; col += 8) {
        const ptrdiff_t to = share.top + row, of = j + first + col;
        if (row < share.rows && first + col < cols && share.asked.has(to, of)) {
            const float away = *share.away.at(to, of);
#pragma unroll
            for (int k = 0; k < kOwn; ++k) {
                x[k] = col == 8 * k && x[k] != 0 && away != away ? away : x[k];
            }
        }
    }
}

/* The slabs of b that a block goes through. */
struct Slabs {
    ptrdiff_t first;
    int count, last_cols;

    __device__ __forceinline__ explicit Slabs(const Share &share)
        : first(share.first),
          count((int)gd::ceil_div(share.last - share.first, kSlab)),
          last_cols((int)(share.last - share.first - (count - 1) * (ptrdiff_t)kSlab))
    {
    }
    __device__ __forceinline__ ptrdiff_t row(int slab) const
    {
        return first + slab * (ptrdiff_t)kSlab;
    }
    __device__ __forceinline__ int cols(int slab) const
    {
        return slab + 1 < count ? kSlab : last_cols;
    }
};

/* Whether the points of a matrix, of either operand, are not all finite. */
template <typename S>
__device__ __forceinline__ bool has_odd(const Side &side, ptrdiff_t number)
{
    bool odd = false;
    for (int i = 0; i < 2; ++i) {
        const unsigned char *from = side.odd[i] + number * side.tiles[i];
        for (unsigned tile = threadIdx.x; tile < side.tiles[i]; tile += S::all) {
            odd |= from[tile] != 0;
        }
    }
    return __syncthreads_or(odd);
}

/* Adds what is asked of pairs for so much that halves cannot have it. */
template <typename S>
__device__ __noinline__ void add_alone(const Side &side, const Share &share, float *to,
                                       ptrdiff_t stride)
{
    const gd::Gradient<float> &call = side.call;
    const float *a = call.a.data + call.batch.offset(call.a.apart, share.number);
    const float *b = call.b.data + call.batch.offset(call.b.apart, share.number);
    for (int at = threadIdx.x; at < S::rows * S::dims; at += S::threads) {
        const int row = at / S::dims, dim = at % S::dims;
        const ptrdiff_t i = share.top + row, k = share.dim + dim;
        if (row >= share.rows || dim >= share.dims) {
            continue;
        }
        for (ptrdiff_t j = share.first; j < share.last; ++j) {
            if (!share.asked.has(i, j)) {
                continue;
            }
            const float asked = *share.asked.at(i, j), away = *share.away.at(i, j);
            const unsigned size = size_of(asked);
            if (away == away && size == kInfinity) {
                to[row * stride + dim] += Cityblock::alone(
                    asked, away, a[i * call.a.stride + k] - b[j * call.b.stride + k]);
            }
        }
    }
}

/* The same for all parts that a block has. */
template <typename S>
__device__ __forceinline__ void add_parts_alone(const Side &side, Share &share, const Tile<S> &tile,
                                                float *to, ptrdiff_t stride, ptrdiff_t size)
{
    const ptrdiff_t last = share.last;
    for (unsigned part = 0; part < tile.parts; ++part) {
        share.last = min(share.first + tile.part_rows, last);
        add_alone<S>(side, share, to + part * size, stride);
        share.first = share.last;
    }
}

/* Where a thread is in its block's tile, in which its warp's rows and dimensions begin at `row` and
 * `dim`: of each four rows it has row t, and of each eight dimensions dimension g. */
template <typename S>
struct Place {
    int g, t, dim, row;

    __device__ __forceinline__ Place()
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        g = lane / 4, t = lane % 4;
        dim = warp % S::across * 16 * kWide, row = warp / S::across * 4 * S::groups;
    }
};

/* A thread's ranks of a, and its sums, by rows and dimensions. */
template <typename S>
using OwnRanks = __half2[S::groups][kWide][2];
template <typename S>
using Totals = float[S::groups][kWide][2];
/* Ranks of eight rows of b in a warp's dimensions, and sums of products with four rows of a. */
using OtherRanks = __half2[kWide][2][4];
using Products = float[kWide][4];

/* Starts to copy the ranks of the slab that begins at row j of b. */
template <typename S>
__device__ __forceinline__ void copy_ranks(Memory<S> &memory, int stage, const Side &side,
                                           const Tile<S> &tile, ptrdiff_t j)
{
    const ptrdiff_t chunk = tile.chunk(side, j);
    const ptrdiff_t there = side.other.piece / gd::kRankPitch - tile.dim;
    const unsigned bytes =
        (unsigned)min((ptrdiff_t)S::dims, there) * gd::kRankPitch * (unsigned)sizeof(Rank);
    gd::barrier_expect(&memory.filled[stage], bytes);
    gd::bulk_copy(memory.ranks[stage],
                  side.other.at(tile.number, chunk) + side.other.place(j, tile.dim), bytes,
                  &memory.filled[stage]);
}

/* Brings slabs: their ranks, and halves of what is asked, by threads with numbers from 0 on. odd:
 * whether points are not all finite. */
template <typename S>
__device__ __forceinline__ void bring(Memory<S> &memory, const Side &side, const Share &share,
                                      const Tile<S> &tile, const Slabs &slabs, int thread, bool odd)
{
    constexpr int kTurns = S::rows / kTurnRows;
    const bool whole = share.rows == S::rows && !share.asked.condensed;
    const int first = thread % 8, of_turn = thread / 8;
    bool apart = false;
    float next[kOwn];
    load_asked(next, share, whole, of_turn, first, slabs.first, slabs.cols(0));
    int stage = 0, phase = 1;
#pragma unroll 1
    for (int slab = 0; slab < slabs.count; ++slab) {
        const ptrdiff_t j = slabs.row(slab);
        if (slab >= S::stages) {
            gd::barrier_wait(&memory.emptied[stage], phase);
        }
        if (thread == 0) {
            copy_ranks(memory, stage, side, tile, j);
        }
#pragma unroll 1
        for (int turn = 0; turn < kTurns; ++turn) {
            const int row = turn * kTurnRows + of_turn;
            float x[kOwn];
#pragma unroll
            for (int k = 0; k < kOwn; ++k) {
                x[k] = next[k];
            }
            const int after = turn + 1 < kTurns ? slab : slab + 1;
            if (after < slabs.count) {
                load_asked(next, share, whole, (turn + 1) % kTurns * kTurnRows + of_turn, first,
                           slabs.row(after), slabs.cols(after));
            }
            if (odd) {
                take_odd(x, share, row, first, j, slabs.cols(slab));
            }
            make_halves(memory, stage, x, row, first, &apart);
        }
        __syncwarp();
        if (thread % 32 == 0) {
            gd::barrier_arrive(&memory.filled[stage]);
        }
        stage = stage + 1 < S::stages ? stage + 1 : 0;
        phase ^= stage == 0;
    }
    if (apart) {
        memory.apart = 1;
    }
}

/* Loads a thread's ranks of a that go with those of the slab that begins at row j of b. */
template <typename S>
__device__ __forceinline__ void load_own(OwnRanks<S> &own, const Side &side, const Share &share,
                                         const Tile<S> &tile, const Place<S> &place, ptrdiff_t j)
{
    const ptrdiff_t chunk = tile.chunk(side, j);
    const Rank *from =
        side.own.at(tile.number, chunk) + side.own.place(tile.top + place.row, tile.dim);
#pragma unroll
    for (int q = 0; q < S::groups; ++q) {
        const int row = place.row + q * 4 + place.t;
        const int at = gd::place_of_row((int)(tile.top % kSlab) + row);
#pragma unroll
        for (int i = 0; i < 2 * kWide; ++i) {
            const int k = place.dim + i * 8 + place.g;
            const Rank rank =
                k < share.dims && row < share.rows ? from[k * gd::kRankPitch + at] : Rank(0.0f);
            own[q][i / 2][i % 2] = __half2half2(__hsub(Rank(0.5f), rank));
        }
    }
}

/* Loads the ranks of b that a step of a slab takes. */
template <typename S>
__device__ __forceinline__ void load_ranks(OtherRanks &there, const Memory<S> &memory, int at,
                                           int step, const Place<S> &place)
{
#pragma unroll
    for (int i = 0; i < 2 * kWide; ++i) {
        *reinterpret_cast<uint4 *>(there[i / 2][i % 2]) = *reinterpret_cast<const uint4 *>(
            &memory.ranks[at][place.dim + i * 8 + place.g][step * 8]);
    }
}

/* Adds two products to a warp's sums for four rows of a in 16 dimensions: signs of four rows of a
 * and of eight rows of b, times what is asked. */
__device__ __forceinline__ void add_products(float (&sum)[4], const __half2 (&own)[2],
                                             const __half2 (&there)[2][4],
                                             const unsigned (&asked)[4])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        unsigned signs[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const __half2 sign = __hadd2_sat(own[r % 2], there[r % 2][2 * half + r / 2]);
            signs[r] = *reinterpret_cast<const unsigned *>(&sign);
        }
        const unsigned of_half[2] = {asked[2 * half], asked[2 * half + 1]};
        gd::multiply_add(sum, signs, of_half);
    }
}

/* Adds the products of a step with the q-th four of a warp's rows of a; those of a chain's first
 * step begin its sums. image: halves of what is asked of the warp's rows, at the thread's column.
 */
template <typename S>
__device__ __forceinline__ void add_step(Products &sum, unsigned (&asked)[4], unsigned image,
                                         const __half2 (&own)[kWide][2], const OtherRanks &there,
                                         const Memory<S> &memory, int at, int step, int q,
                                         const Place<S> &place)
{
    gd::load_word_if(asked, image + (q * kOwn + step) * kImagePitch * 16, place.g / 2 == place.t);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
        if (step % kSteps == 0) {
            const float4 start = memory.start[at][step / kSteps][place.row + q * 4 + place.t];
            sum[i][0] = start.x, sum[i][1] = start.y;
            sum[i][2] = start.z, sum[i][3] = start.w;
        }
        add_products(sum[i], own[i], there[i], asked);
    }
}

/* Adds what a chain has summed up to a thread's sums: both halves, back in the scale of their row.
 */
template <typename S>
__device__ __forceinline__ void add_chain(Totals<S> &total, const Products (&sum)[S::groups],
                                          const Memory<S> &memory, int at, const Place<S> &place)
{
#pragma unroll
    for (int q = 0; q < S::groups; ++q) {
        const float scale = memory.scale[at][place.row + q * 4 + place.t];
#pragma unroll
        for (int i = 0; i < kWide; ++i) {
            total[q][i][0] = __fmaf_rn(sum[q][i][0] + sum[q][i][1], scale, total[q][i][0]);
            total[q][i][1] = __fmaf_rn(sum[q][i][2] + sum[q][i][3], scale, total[q][i][1]);
        }
    }
}

/* Writes a thread's sums of a part, which begin anew. */
template <typename S>
__device__ __forceinline__ void store_part(Totals<S> &total, float *to, ptrdiff_t stride,
                                           const Share &share, const Place<S> &place)
{
#pragma unroll
    for (int q = 0; q < S::groups; ++q) {
        const int row = place.row + q * 4 + place.t;
#pragma unroll
        for (int i = 0; i < 2 * kWide; ++i) {
            const int k = place.dim + i * 8 + place.g;
            if (row < share.rows && k < share.dims) {
                to[row * stride + k] = -total[q][i / 2][i % 2];
            }
            total[q][i / 2][i % 2] = 0;
        }
    }
}

/* Adds up all parts of a tile, which one block has: this is what join_parts would do. */
template <typename S>
__device__ __forceinline__ void join_own(const float *from, ptrdiff_t stride, ptrdiff_t size,
                                         const gd::Gradient<float> &call, const Share &share,
                                         const Tile<S> &tile)
{
    float *const out = call.out.data + call.batch.offset(call.out.apart, tile.number) +
                       tile.top * call.out.stride + tile.dim;
    for (int at = threadIdx.x; at < S::rows * S::dims; at += S::threads) {
        const int row = at / S::dims, k = at % S::dims;
        if (row < share.rows && k < share.dims) {
            float lost = 0, sum = 0;
#pragma unroll 8
            for (unsigned part = 0; part < tile.parts; ++part) {
                gd::add_exactly(sum, lost, from[part * size + row * stride + k]);
            }
            out[row * call.out.stride + k] = gd::both_parts(sum, lost);
        }
    }
}

/* Where a block's sums begin: in the workspace where there are several parts, which lie `size`
 * apart, otherwise in the result. */
template <typename S>
__device__ __forceinline__ float *sums_of(const Side &side, const Tile<S> &tile, ptrdiff_t stride,
                                          ptrdiff_t size)
{
    const gd::Gradient<float> &call = side.call;
    return (side.workspace != nullptr
                ? side.workspace + (tile.number * side.parts + tile.first_part) * size
                : call.out.data + call.batch.offset(call.out.apart, tile.number)) +
           tile.top * stride + tile.dim;
}

template <typename S>
__device__ __forceinline__ void begin_barriers(Memory<S> &memory)
{
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < S::stages; ++stage) {
            gd::barrier_init(&memory.filled[stage], kBringers / 32 + 1);
            gd::barrier_init(&memory.emptied[stage], S::warps);
        }
        memory.apart = 0;
        gd::show_barriers();
    }
}

/* Multiplies what others bring, and stores the sums of each part of b's rows from `to` on. */
template <typename S>
__device__ __forceinline__ void multiply(Memory<S> &memory, const Side &side, const Share &share,
                                         const Tile<S> &tile, const Slabs &slabs, float *to,
                                         ptrdiff_t stride, ptrdiff_t size)
{
    const Place<S> place;
    OwnRanks<S> own;
    load_own(own, side, share, tile, place, share.first);
    Totals<S> total = {};
    unsigned asked[2][4] = {}; /* of other threads' rows nothing is ever loaded */
    /* Slabs until a part ends, and until own ranks are of another chunk. */
    int of_part = side.part_slabs;
    int of_chunk = side.own_sorted ? INT_MAX : (int)((kChunk - share.first % kChunk) / kSlab);
    int stage = 0, phase = 0;
#pragma unroll 1
    for (int slab = 0; slab < slabs.count; ++slab) {
        if (of_part == 0) {
            store_part(total, to, stride, share, place);
            to += size;
            of_part = side.part_slabs;
            if (of_chunk == 0) {
                load_own(own, side, share, tile, place, slabs.row(slab));
                of_chunk = kChunk / kSlab;
            }
        }
        --of_part;
        --of_chunk;
        gd::barrier_wait(&memory.filled[stage], phase);
        const unsigned image = gd::shared_address(&memory.image[stage][place.row / 4][0][place.g]);
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) {
            Products sum[S::groups];
#pragma unroll
            for (int step = chain * kSteps; step < (chain + 1) * kSteps; ++step) {
                OtherRanks there;
                load_ranks(there, memory, stage, step, place);
#pragma unroll
                for (int q = 0; q < S::groups; ++q) {
                    add_step(sum[q], asked[q % 2], image, own[q], there, memory, stage, step, q,
                             place);
                }
            }
            add_chain(total, sum, memory, stage, place);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            gd::barrier_arrive(&memory.emptied[stage]);
        }
        stage = stage + 1 < S::stages ? stage + 1 : 0;
        phase ^= stage == 0;
    }
    store_part(total, to, stride, share, place);
}

template <typename S>
__global__ void __launch_bounds__(S::all, S::blocks) walk(const __grid_constant__ Sides sides)
{
    extern __shared__ uint4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<S> *>(dynamic);
    const bool second = blockIdx.x >= sides.side[0].blocks;
    const Side &side = sides.side[second];
    const gd::Gradient<float> &call = side.call;
    const Tile<S> tile(side, blockIdx.x - (second ? (unsigned)sides.side[0].blocks : 0));
    Share share(side, tile);
    const Slabs slabs(share);
    begin_barriers(memory);
    gd::follow();
    const bool odd = has_odd<S>(side, tile.number); /* here all threads meet */
    if (threadIdx.x >= S::threads) {
        gd::give_registers<S::given>();
        bring(memory, side, share, tile, slabs, (int)threadIdx.x - S::threads, odd);
        gd::arrive_part<1, S::all>();
        return;
    }
    gd::take_registers<S::taken>();
    const ptrdiff_t stride = side.workspace != nullptr ? call.d : call.out.stride;
    const ptrdiff_t size = call.a.count * call.d; /* of a part of the sums */
    float *const to = sums_of(side, tile, stride, size);
    multiply(memory, side, share, tile, slabs, to, stride, size);
    gd::sync_part<1, S::all>();
    if (memory.apart) {
        add_parts_alone(side, share, tile, to, stride, size);
        gd::sync_part<2, S::threads>();
    }
    if (tile.parts == side.parts && tile.parts > 1) {
        join_own(to, stride, size, call, share, tile);
    }
}

/* How many rows of b make a part of the sum: whole slabs, and so many that parts are few. */
ptrdiff_t rows_of_part(ptrdiff_t n) { return n <= 1024 ? 256 : n <= 2048 ? 512 : 1024; }
ptrdiff_t parts_of(ptrdiff_t n) { return n > 0 ? gd::ceil_div(n, rows_of_part(n)) : 1; }

/* What the launches of a call share: of a and b keys, ranks, and parts of sums. */
struct Plan {
    unsigned *keys[2];
    unsigned char *odd[2];
    ptrdiff_t down[2], across; /* tiles of points, of which keys are made */
    gd::Ranks ranks[2];
    float *parts[2];
    size_t bytes;
    int sorted;              /* 0 or 1: a or b */
    ptrdiff_t sorts, chunks; /* of the sorted operand: rows that a block sorts, that ranks are of */

    Plan(const gd_gradient &call, void *workspace, bool both)
    {
        const ptrdiff_t rows[] = {call.a.first.rows, call.b.first.rows}, d = call.a.first.cols;
        gd::Layout layout = {(unsigned char *)workspace};
        sorted = rows[1] <= rows[0];
        sorts = gd::ceil_div(rows[sorted], gd::kSorted);
        chunks = gd::ceil_div(rows[sorted], kChunk);
        across = gd::ceil_div(d, gd::kTurn);
        for (int i = 0; i < 2; ++i) {
            gd::Ranks &r = ranks[i];
            r.pitch = gd::ceil_div(rows[i], gd::kTogether) * gd::kTogether;
            r.piece = gd::ceil_div(d, 16 * kWide) * 16 * kWide * gd::kRankPitch;
            r.chunk = i == sorted ? 0 : r.pitch / gd::kTogether * r.piece;
            r.matrix = r.pitch / gd::kTogether * r.piece * (i == sorted ? 1 : chunks);
            layout(keys[i], call.count * d * r.pitch);
            layout(r.data, call.count * r.matrix);
            down[i] = gd::ceil_div(rows[i], gd::kTurn);
            layout(odd[i], call.count * down[i] * across);
            const ptrdiff_t count = parts_of(rows[!i]);
            const bool some = count > 1 && (i == 0 || both);
            layout(parts[i], some ? call.count * count * rows[i] * d : 0);
            parts[i] = some ? parts[i] : nullptr;
        }
        bytes = layout.bytes;
    }
};

/* Whether blocks of equal work keep a device busy that has room for so many at a time. */
bool keeps_busy(ptrdiff_t blocks, ptrdiff_t room)
{
    return blocks * 10 >= gd::ceil_div(blocks, room) * room * 9;
}

/* sides: that the call has, each of about as many blocks. */
template <typename S>
Side side_of(const gd_gradient &call, const Plan &plan, bool turned, int sides, ptrdiff_t room)
{
    Side side = {};
    side.call = gd::gradient_of<float>(call, turned);
    side.own = plan.ranks[turned];
    side.other = plan.ranks[!turned];
    for (int i = 0; i < 2; ++i) {
        side.odd[i] = plan.odd[i];
        side.tiles[i] = (unsigned)(plan.down[i] * plan.across);
    }
    side.down = (unsigned)gd::ceil_div(side.call.a.count, S::rows);
    side.parts = (unsigned)parts_of(side.call.b.count);
    side.part_slabs = (int)(rows_of_part(side.call.b.count) / kSlab);
    const ptrdiff_t all = call.count * side.down * gd::ceil_div(side.call.d, S::dims);
    side.at_once = keeps_busy(sides * all, room) ? side.parts : 1;
    side.blocks = all * gd::ceil_div(side.parts, side.at_once);
    side.workspace = plan.parts[turned];
    side.own_sorted = plan.sorted == (int)turned;
    return side;
}

template <typename S>
cudaError_t launch(const gd_gradient &call, const Plan &plan, bool both)
{
    constexpr int kTurners = 256;
    const ptrdiff_t d = call.a.first.cols;
    gd::Steps steps(call.launch);
    const ptrdiff_t room = S::blocks * (ptrdiff_t)steps.processors;
    const Side first = side_of<S>(call, plan, false, 1 + both, room);
    const Side second = both ? side_of<S>(call, plan, true, 1 + both, room) : first;
    const int sorted = plan.sorted;
    gd::Turns turns = {};
    for (int i = 0; i < 2; ++i) {
        gd::Turn &turn = turns.of[i];
        turn.points = i == 0 ? first.call.a : first.call.b;
        turn.keys = plan.keys[i];
        turn.pitch = plan.ranks[i].pitch;
        turn.odd = plan.odd[i];
        turn.down = (unsigned)plan.down[i];
        turn.blocks = call.count * plan.down[i] * plan.across;
    }
    steps.enqueue(gd::make_keys<kTurners>, turns.of[0].blocks + turns.of[1].blocks, dim3(kTurners),
                  0, turns, first.call.batch, d, (unsigned)plan.across);
    const ptrdiff_t sorted_rows = turns.of[sorted].points.count;
    int keys = gd::kFewestKeys;
    while (keys < sorted_rows && keys < gd::kSorted) {
        keys *= 2;
    }
    const int threads = keys / gd::kKeysOfThread;
    const ptrdiff_t segments =
        gd::ceil_div(plan.ranks[!sorted].pitch, threads * (ptrdiff_t)gd::kPlaced);
    steps.enqueue(gd::rank<gd::kSorted / gd::kKeysOfThread>, call.count * d * plan.sorts * segments,
                  dim3(threads), gd::shared_of_keys(keys), plan.keys[sorted], plan.keys[!sorted],
                  keys, sorted_rows, (unsigned)d, (unsigned)segments, (unsigned)plan.sorts,
                  plan.ranks[sorted], plan.ranks[!sorted]);
    steps.enqueue(walk<S>, first.blocks + (both ? second.blocks : 0), dim3(S::all),
                  sizeof(Memory<S>), Sides{{first, second}});
    const auto join = [&](const Side &side) {
        if (steps.code == cudaSuccess && side.at_once < side.parts) {
            steps.code = gd::join(call.launch, (const float *)side.workspace, side.parts,
                                  call.count, side.call.a.count, d, side.call.out, side.call.batch);
        }
    };
    join(first);
    if (both) {
        join(second);
    }
    return steps.code;
}

}  // namespace

extern "C" gd_status gd_cuda_gradient_signs(gd_gradient *call, gd_error *err)
{
    const bool both = call->out_b.first.data != nullptr;
    const ptrdiff_t d = call->a.first.cols;
    if (call->b.first.rows == 0) {
        return gd_cuda_gradient_tile(call, err); /* writes zeros */
    }
    const Plan plan(*call, call->launch.workspace, both);
    call->launch.workspace_bytes = plan.bytes;
    if (call->launch.sizing) {
        return GD_OK;
    }
    GD_CUDA_TRY(err, "gradient/cuda_signs",
                (d <= 32   ? launch<Shape<1, 128, 2, 216, 40, 4>>(*call, plan, both)
                 : d <= 64 ? launch<Shape<2, 128, 3, 120, 40, 3>>(*call, plan, both)
                           : launch<Shape<4, 256, 2, 96, 48, 3>>(*call, plan, both)));
    return GD_OK;
}
