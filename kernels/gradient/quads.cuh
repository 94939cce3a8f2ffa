/* quads.cuh: gradients of float32 points with up to four dimensions: a thread has four rows by four
 * of the other side, and all that belongs to these sixteen pairs in registers.
 *
 * Idea: few_dims.cu reads a tile's factors twice from shared memory, once for either side, with the
 * points of both each time. Here a pair's difference serves both sides: a thread adds up its four
 * terms of each row and of each of the others', and threads join theirs in a tree, along the rows
 * by shuffles, the other way by shuffles and once by shared memory. So a tile of 64 x 64 pairs
 * takes one barrier.
 *
 * A sum is of four terms in order, sixteen of which are joined in a tree, the same for either side;
 * such parts of 64 meet as in few_dims.cu. Sums for the rows of a, of b, or both have the same
 * bits, whichever side memory lies along: the launcher calls that side a.
 *
 * Launch: 256 threads a tile. Of regular matrices nothing has to be asked, which spares a third of
 * the instructions; where each is one tile and there are more than a device has blocks at a time,
 * blocks stay, and what belongs to pairs is copied ahead. Reached on an H100, both sides, the
 * kernel alone: euclidean (4096, 64, 64, 3) 57 us, of 2 and 4 dimensions 54 and 58, cityblock (8,
 * 3900, 176, 4) 39. */
#ifndef GPUDIST_GRADIENT_QUADS_CUH
#define GPUDIST_GRADIENT_QUADS_CUH

#include "arch/copies.cuh"
#include "common/points.cuh"
#include "gradient/pairs.cuh"
#include "gradient/terms.cuh"

namespace gd {
namespace quads {

constexpr int kThreads = 256, kQuad = 4, kAcross = kEdge / kQuad, kWarps = kThreads / 32;
constexpr int kMostDims = 4, kAtOnce = 2; /* rows whose pairs are read together */
constexpr unsigned kAll = ~0u;
static_assert(kThreads == kAcross * kAcross, "a thread a quad");

/* What a thread has of four rows, in each dimension. */
template <int D>
using Quad = float[kQuad][D];

/* Brings four points that follow each other, zeros where there is none, and beyond d. */
template <bool kRegular, int D>
__device__ __forceinline__ void take_points(Quad<D> &to, const float *from, const Rows<float> &rows,
                                            ptrdiff_t first, ptrdiff_t d)
{
    if (kRegular && first < rows.count) {
        load_four_points<D>(from + first * D, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
#pragma unroll
        for (int k = 0; k < D; ++k) {
            to[i][k] = !kRegular && first + i < rows.count && k < d
                           ? __ldg(from + (first + i) * rows.stride + k)
                           : 0.0f;
        }
    }
}

/* Brings the numbers of the pairs of some rows with four others, the first of which is (i, j), of
 * m x n. */
template <bool kRegular, int kRows>
__device__ __forceinline__ void take_pairs(float (&to)[kRows][kQuad], const PairsOfOne<float> &from,
                                           ptrdiff_t i, ptrdiff_t j, ptrdiff_t m, ptrdiff_t n)
{
    if constexpr (kRegular) {
        const bool there = i < m && j < n;
        const float *const at = from.data + i * from.down + j;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            load_four(to[r], at + r * from.down, 1, true, there);
        }
        return;
    }
    if (!from.condensed && n % kQuad == 0) { /* fours are there or not */
        const bool words = are_words(from.data, from.along, from.down);
        const float *at = from.data + i * from.down + j * from.along;
#pragma unroll
        for (int r = 0; r < kRows; ++r, at += from.down) {
            load_four(to[r], at, from.along, words, i + r < m && j < n);
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int c = 0; c < kQuad; ++c) {
            const bool there = i + r < m && j + c < n && from.has(i + r, j + c);
            to[r][c] = there ? __ldg(from.at(i + r, j + c)) : 0.0f;
        }
    }
}

/* Joins what lanes that differ in bit kBit have of four rows: each keeps two of them, those with
 * the bit the last two. */
template <int kBit, int D>
__device__ __forceinline__ void join_halves(const Quad<D> &all, float (&half)[2][D])
{
    const bool last = threadIdx.x & kBit;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int k = 0; k < D; ++k) {
            const float other = __shfl_xor_sync(kAll, last ? all[i][k] : all[i + 2][k], kBit);
            half[i][k] = (last ? all[i + 2][k] : all[i][k]) + other;
        }
    }
}

/* Joins what sixteen lanes have of four rows: each gets the sums of the row that this returns. */
template <int D>
__device__ __forceinline__ int join_lanes(const Quad<D> &all, float (&one)[D])
{
    float half[2][D];
    join_halves<1>(all, half);
    const bool second = threadIdx.x & 2;
#pragma unroll
    for (int k = 0; k < D; ++k) {
        const float other = __shfl_xor_sync(kAll, second ? half[0][k] : half[1][k], 2);
        one[k] = (second ? half[1][k] : half[0][k]) + other;
        one[k] += __shfl_xor_sync(kAll, one[k], 4);
        one[k] += __shfl_xor_sync(kAll, one[k], 8);
    }
    return (threadIdx.x & 1) * 2 + second;
}

/* The terms of one dimension that are to be added alone, of a row of either side with those of the
 * other from `first` on. Finds all places anew: for those who never come here they would take
 * registers. */
template <typename Term, bool kTurned>
__device__ __noinline__ float sum_alone_of(const Gradient<float> &call, ptrdiff_t number,
                                           ptrdiff_t row, ptrdiff_t first, int k)
{
    const Rows<float> &own = kTurned ? call.b : call.a, &others = kTurned ? call.a : call.b;
    const PairsOfOne<float> asked(call.asked, call.batch, number, call.pairs, call.b.count);
    const PairsOfOne<float> away(call.away, call.batch, number, call.pairs, call.b.count);
    return sum_alone<Term, kTurned>(
        asked, away, row, own.data + call.batch.offset(own.apart, number) + row * own.stride + k,
        first, others.count, others.data + call.batch.offset(others.apart, number) + k,
        others.stride);
}

/* Whether rows of either side come by fours, all points are dense, and words are aligned. */
inline bool is_regular(const Gradient<float> &call, bool has_away)
{
    const auto has_words = [&](const void *data, const Apart &apart) {
        bool words = (uintptr_t)data % sizeof(float4) == 0;
        for (int axis = 0; axis < call.batch.axes; ++axis) {
            words &= apart.along[axis] % kQuad == 0;
        }
        return words;
    };
    const auto lie = [&](const OfPairs<float> &pairs) {
        return pairs.along == 1 && pairs.down % kQuad == 0 && has_words(pairs.data, pairs.apart);
    };
    const auto are_dense = [&](const Rows<float> &rows) {
        return rows.count % kQuad == 0 && rows.stride == call.d && has_words(rows.data, rows.apart);
    };
    return !call.pairs && lie(call.asked) && (!has_away || lie(call.away)) && are_dense(call.a) &&
           are_dense(call.b);
}

/* Blocks of a multiprocessor, which registers bind. */
template <int D>
constexpr int kBlocks = D < kMostDims ? 3 : 2;

/* Blocks that a device has at a time; 0 if it does not say how many multiprocessors it has. */
template <int D>
ptrdiff_t blocks_at_once(const gd_launch &launch)
{
    int multiprocessors = 0;
    const cudaError_t code = cudaDeviceGetAttribute(
        &multiprocessors, cudaDevAttrMultiProcessorCount, launch.device.index);
    return code == cudaSuccess ? kBlocks<D> * (ptrdiff_t)multiprocessors : 0;
}

/* Adds the terms of pairs to a thread's: of kAtOnce of its rows, from `first` on, with the four
 * others. g, x: what is asked of them, and their distances. kOnce: a difference is taken once for
 * both sides. */
template <typename Term, bool kOnce, int D>
__device__ __forceinline__ void add_terms(Quad<D> &terms_a, Quad<D> &terms_b, bool &apart,
                                          const Quad<D> &own, const Quad<D> &others, int first,
                                          const float (&g)[kAtOnce][kQuad],
                                          const float (&x)[kAtOnce][kQuad], float p)
{
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
        const int i = first + r;
#pragma unroll
        for (int j = 0; j < kQuad; ++j) {
            const float factor = Term::factor(g[r][j], x[r][j], &apart);
#pragma unroll(Term::is_long ? 1 : D)
            for (int k = 0; k < D; ++k) {
                if constexpr (kOnce) {
                    Term::add_both(terms_a[i][k], terms_b[j][k], factor, x[r][j], own[i][k],
                                   others[j][k], p);
                }
                else {
                    terms_a[i][k] =
                        Term::add(terms_a[i][k], factor, x[r][j], own[i][k], others[j][k], p);
                    terms_b[j][k] =
                        Term::add(terms_b[j][k], factor, x[r][j], others[j][k], own[i][k], p);
                }
            }
        }
    }
}

/* Leaves what a thread keeps of a warp's sums of four rows, which begin at `across`. */
template <int D>
__device__ __forceinline__ void leave_share(float (&share)[kEdge][D], const float (&half)[2][D],
                                            int across)
{
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int k = 0; k < D; ++k) {
            share[across + (threadIdx.x & 16) / 8 + i][k] = half[i][k];
        }
    }
}

/* The sum of what all warps left of one of b's rows. */
template <int D>
__device__ __forceinline__ float sum_of_shares(const float (&shares)[kWarps][kEdge][D], int col,
                                               int k)
{
    float pairs[kWarps / 2];
#pragma unroll
    for (int i = 0; i < kWarps / 2; ++i) {
        pairs[i] = shares[2 * i][col][k] + shares[2 * i + 1][col][k];
    }
    return (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]);
}

/* Sums of a's rows go to call.out or, if several blocks share them, to parts; those of b's rows to
 * parts_b, or to out_b if a has no more than one tile of them. What has no place is not wanted.
 * kRegular: see is_regular; points have D dimensions then. */
template <typename Term, int D, bool kRegular>
__global__ void __launch_bounds__(kThreads, kBlocks<D>)
    add_up(const __grid_constant__ Gradient<float> call, const __grid_constant__ Sums<float> out_b,
           unsigned down, unsigned chunks, unsigned tiles_each, float *parts, float *parts_b)
{
    __shared__ float shares[2][kWarps][kEdge][D]; /* of b's rows, by each warp */
    /* Sums of a's rows and what was lost of them, which would take registers. */
    __shared__ float sums[2][D][kThreads];
    /* Mostly there is nothing to divide. */
    const unsigned beside = down > 1 ? blockIdx.x / down : blockIdx.x;
    const unsigned chunk = chunks > 1 ? beside % chunks : 0;
    const ptrdiff_t number = chunks > 1 ? beside / chunks : beside;
    const ptrdiff_t top = (ptrdiff_t)(blockIdx.x - beside * down) * kEdge, d = call.d;
    const ptrdiff_t m = call.a.count, n = call.b.count, tiles = ceil_div(n, (ptrdiff_t)kEdge);
    const PairsOfOne<float> asked(call.asked, call.batch, number, call.pairs, n);
    const PairsOfOne<float> away(call.away, call.batch, number, call.pairs, n);
    const float *const a = call.a.data + call.batch.offset(call.a.apart, number);
    const float *const b = call.b.data + call.batch.offset(call.b.apart, number);
    const bool wants_a = call.out.data != nullptr, wants_b = out_b.data != nullptr;
    const int warp = (int)threadIdx.x / 32, across = (int)threadIdx.x % kAcross * kQuad;
    const ptrdiff_t row = top + threadIdx.x / kAcross * kQuad;
    Quad<D> own;
    take_points<kRegular>(own, a, call.a, row, d);
#pragma unroll
    for (int k = 0; k < D; ++k) {
        sums[0][k][threadIdx.x] = sums[1][k][threadIdx.x] = 0;
    }
    const ptrdiff_t last = min((ptrdiff_t)(chunk + 1) * tiles_each, tiles);
    int in_quad = 0, buffer = 0;
#pragma unroll 1
    for (ptrdiff_t tile = (ptrdiff_t)chunk * tiles_each; tile < last; ++tile, buffer ^= 1) {
        const ptrdiff_t left = tile * kEdge;
        Quad<D> others, terms_a = {}, terms_b = {};
        bool apart = false;
        take_points<kRegular>(others, b, call.b, left + across, d);
#pragma unroll
        for (int first = 0; first < kQuad; first += kAtOnce) {
            float g[kAtOnce][kQuad], x[kAtOnce][kQuad] = {};
            take_pairs<kRegular>(g, asked, row + first, left + across, m, n);
            if constexpr (Term::has_away) {
                take_pairs<kRegular>(x, away, row + first, left + across, m, n);
            }
            /* Of squares in three dimensions loads would begin later for it: 5 % longer. */
            constexpr bool kOnce =
                D != 3 || (Term::metric != GD_EUCLIDEAN && Term::metric != GD_SQEUCLIDEAN);
            add_terms<Term, kOnce>(terms_a, terms_b, apart, own, others, first, g, x, call.p);
        }
        float one[D];
        if (wants_a) {
            in_quad = join_lanes<D>(terms_a, one);
        }
        if (wants_b) {
            float half[2][D];
            join_halves<16>(terms_b, half);
            leave_share(shares[buffer][warp], half, across);
        }
        /* Who comes here has read the shares of the tile before. */
        const bool some_apart = __syncthreads_or(apart);
        const ptrdiff_t to = row + in_quad;
        if (wants_a && threadIdx.x % kAcross < kQuad && to < m) {
#pragma unroll
            for (int k = 0; k < D; ++k) {
                if (some_apart && k < d) {
                    one[k] += sum_alone_of<Term, false>(call, number, to, left, k);
                }
                if (parts == nullptr) {
                    add_exactly(sums[0][k][threadIdx.x], sums[1][k][threadIdx.x], one[k]);
                }
                else if (k < d) {
                    parts[((number * tiles + tile) * m + to) * d + k] = one[k];
                }
            }
        }
        const int col = (int)threadIdx.x / D, k = (int)threadIdx.x % D;
        if (wants_b && col < kEdge && k < d && left + col < n) {
            float all = sum_of_shares(shares[buffer], col, k);
            if (some_apart) {
                all += sum_alone_of<Term, true>(call, number, left + col, top, k);
            }
            if (parts_b != nullptr) {
                parts_b[((number * down + top / kEdge) * n + left + col) * d + k] = all;
            }
            else {
                out_b.data[call.batch.offset(out_b.apart, number) + (left + col) * out_b.stride +
                           k] = all;
            }
        }
    }
    if (wants_a && parts == nullptr && threadIdx.x % kAcross < kQuad && row + in_quad < m) {
        float *const out = call.out.data + call.batch.offset(call.out.apart, number) +
                           (row + in_quad) * call.out.stride;
#pragma unroll
        for (int k = 0; k < D; ++k) {
            if (k < d) {
                out[k] = both_parts(sums[0][k][threadIdx.x], sums[1][k][threadIdx.x]);
            }
        }
    }
}

/* Where the numbers of one of the matrices begin, from the pair of a thread's first rows on. */
__device__ __forceinline__ const float *pairs_from(const OfPairs<float> &all, const Batch &batch,
                                                   unsigned number, ptrdiff_t row, ptrdiff_t col)
{
    return all.data + batch.offset(all.apart, number) + row * all.down + col;
}

/* Regular matrices of one tile each, with the bits of add_up. A block takes one after the other;
 * what belongs to the next one's pairs is on its way to shared memory meanwhile, where a thread
 * finds its own again. */
template <typename Term, int D>
__global__ void __launch_bounds__(kThreads, kBlocks<D>)
    add_up_small(const __grid_constant__ Gradient<float> call,
                 const __grid_constant__ Sums<float> out_b, unsigned count)
{
    constexpr int kKinds = Term::has_away ? 2 : 1;
    __shared__ float4 ahead[kKinds][kQuad][kThreads];
    __shared__ float shares[2][kWarps][kEdge][D]; /* of b's rows, by each warp */
    const ptrdiff_t m = call.a.count, n = call.b.count;
    const bool wants_a = call.out.data != nullptr, wants_b = out_b.data != nullptr;
    const int warp = (int)threadIdx.x / 32, across = (int)threadIdx.x % kAcross * kQuad;
    const int row = (int)threadIdx.x / kAcross * kQuad;
    const bool there = row < m && across < n;
    const auto bring = [&](unsigned number) {
#pragma unroll
        for (int kind = 0; kind < kKinds; ++kind) {
            const OfPairs<float> &all = kind == 0 ? call.asked : call.away;
            const float *const from = pairs_from(all, call.batch, number, row, across);
#pragma unroll
            for (int r = 0; r < kQuad; ++r) {
                copy_async<16>((float *)&ahead[kind][r][threadIdx.x], from + r * all.down, there);
            }
        }
        end_copies();
    };
    bring(blockIdx.x);
    int buffer = 0;
#pragma unroll 1
    for (unsigned number = blockIdx.x; number < count; number += gridDim.x, buffer ^= 1) {
        Quad<D> own, others, terms_a = {}, terms_b = {};
        float pairs[2][kQuad / kAtOnce][kAtOnce][kQuad] = {};
        bool apart = false;
        take_points<true>(own, call.a.data + call.batch.offset(call.a.apart, number), call.a, row,
                          D);
        take_points<true>(others, call.b.data + call.batch.offset(call.b.apart, number), call.b,
                          across, D);
        await_copies<0>();
#pragma unroll
        for (int i = 0; i < kKinds * kQuad; ++i) {
            load_word((const float *)&ahead[i / kQuad][i % kQuad][threadIdx.x],
                      pairs[i / kQuad][i % kQuad / kAtOnce][i % kAtOnce]);
        }
        if (number + gridDim.x < count) {
            bring(number + gridDim.x);
        }
#pragma unroll
        for (int half = 0; half < kQuad / kAtOnce; ++half) {
            add_terms<Term, true>(terms_a, terms_b, apart, own, others, half * kAtOnce,
                                  pairs[0][half], pairs[1][half], call.p);
        }
        float one[D];
        int in_quad = 0;
        if (wants_a) {
            in_quad = join_lanes<D>(terms_a, one);
        }
        if (wants_b) {
            float half[2][D];
            join_halves<16>(terms_b, half);
            leave_share(shares[buffer][warp], half, across);
        }
        /* Who comes here has read the shares of the matrix before. */
        const bool some_apart = __syncthreads_or(apart);
        const int to = row + in_quad, col = (int)threadIdx.x / D, k = (int)threadIdx.x % D;
        if (wants_a && threadIdx.x % kAcross < kQuad && to < m) {
            float *const out =
                call.out.data + call.batch.offset(call.out.apart, number) + to * call.out.stride;
#pragma unroll
            for (int q = 0; q < D; ++q) {
                out[q] = some_apart ? one[q] + sum_alone_of<Term, false>(call, number, to, 0, q)
                                    : one[q];
            }
        }
        if (wants_b && col < kEdge && col < n) {
            float all = sum_of_shares(shares[buffer], col, k);
            if (some_apart) {
                all += sum_alone_of<Term, true>(call, number, col, 0, k);
            }
            out_b.data[call.batch.offset(out_b.apart, number) + col * out_b.stride + k] = all;
        }
    }
}

}  // namespace quads
}  // namespace gd
#endif
