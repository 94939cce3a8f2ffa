/* ranks.cuh: elements of points as small numbers that compare as they do.
 *
 * Of each dimension the elements of one operand are sorted, and those of the other placed among
 * them. Of kChunk rows a sorted one becomes r, where r are below it; a placed one that as well, if
 * there is one as large, and otherwise r - 1/2. So a rank of the one, less one of the other, is 0
 * for a tie, and otherwise at least 1/2 with the sign of the difference: exactly, whatever the
 * elements are. Half precision holds all of them.
 *
 * The operand of fewer rows is sorted: to place a row takes less. Signs are the same anyway. A
 * block sorts kSorted rows, and counts for each place how many of each chunk are below, so that a
 * row is placed in several chunks at once. */
#ifndef GPUDIST_GRADIENT_RANKS_CUH
#define GPUDIST_GRADIENT_RANKS_CUH

#include <cuda_fp16.h>

#include "common/steps.cuh"
#include "gradient/call.cuh"

namespace gd {

using Rank = __half;
constexpr int kChunk = 1024;  /* rows that ranks are of */
constexpr int kSorted = 4096; /* rows that a block sorts at a time, of a dimension */
constexpr int kChunks = kSorted / kChunk;
constexpr int kKeysOfThread = 4; /* of those that are sorted */
constexpr int kFewestKeys = 32 * kKeysOfThread;
constexpr int kPlaced = 16;   /* rows that a thread places */
constexpr int kTurn = 32;     /* rows by columns of what a block turns */
constexpr int kTogether = 64; /* rows whose ranks lie together */

/* The ranks of an operand: of kTogether rows those of a dimension side by side, and dimensions
 * kRankPitch apart, which keeps banks apart where a piece is copied to shared memory as it is.
 * Placed ones are there once for each chunk of the sorted operand. */
constexpr int kRankPitch = kTogether + 8;
struct Ranks {
    Rank *data;
    ptrdiff_t pitch;                /* keys of a dimension */
    ptrdiff_t piece, chunk, matrix; /* ranks from one piece, chunk, matrix to the next */

    /* Where the pieces of a matrix and a chunk begin. */
    __device__ __forceinline__ Rank *at(ptrdiff_t number, ptrdiff_t chunk_) const
    {
        return data + number * matrix + chunk_ * chunk;
    }
    /* From there on, the place of a row that is the first of its piece, and a dimension. */
    __device__ __forceinline__ ptrdiff_t place(ptrdiff_t row, ptrdiff_t dim) const
    {
        return row / kTogether * piece + dim * kRankPitch;
    }
};

/* A number that compares as x does; both zeros are one. */
__device__ __forceinline__ unsigned key_of(float x)
{
    const int bits = __float_as_int(x + 0.0f);
    return (unsigned)bits ^ ((unsigned)(bits >> 31) | 0x80000000u);
}

/* Which place a row has among the ranks of its kTogether: a thread that has what belongs to each
 * eighth row finds their ranks side by side. */
__device__ __forceinline__ int place_of_row(int row)
{
    return row % 8 * (kTogether / 8) + row % kTogether / 8;
}
/* The other way round. */
__device__ __forceinline__ int row_of_place(int place)
{
    return place % (kTogether / 8) * 8 + place / (kTogether / 8);
}

/* Of an operand: points, and where keys go, dimension by dimension; what blocks tell of each tile:
 * whether it has numbers that are not finite. */
struct Turn {
    Rows<float> points;
    unsigned *keys;
    ptrdiff_t pitch;
    unsigned char *odd;
    unsigned down;
    ptrdiff_t blocks;
};
struct Turns {
    Turn of[2];
};

/* Keys of both operands. */
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    make_keys(const __grid_constant__ Turns turns, const __grid_constant__ Batch batch, ptrdiff_t d,
              unsigned across)
{
    __shared__ unsigned tile[kTurn][kTurn + 1];
    constexpr int kStep = kThreads / kTurn;
    const bool second = blockIdx.x >= turns.of[0].blocks;
    const Turn &turn = turns.of[second];
    const unsigned block = blockIdx.x - (second ? (unsigned)turns.of[0].blocks : 0);
    const ptrdiff_t number = block / turn.down / across;
    const ptrdiff_t top = block % turn.down * (ptrdiff_t)kTurn;
    const ptrdiff_t dim = block / turn.down % across * (ptrdiff_t)kTurn;
    const int lane = threadIdx.x % kTurn, first = threadIdx.x / kTurn;
    const float *from = turn.points.data + batch.offset(turn.points.apart, number);
    bool odd = false;
    follow();
#pragma unroll
    for (int i = first; i < kTurn; i += kStep) {
        if (top + i < turn.points.count && dim + lane < d) {
            const float x = __ldg(from + (top + i) * turn.points.stride + dim + lane);
            tile[i][lane] = key_of(x);
            odd |= !isfinite(x);
        }
    }
    odd = __syncthreads_or(odd);
    unsigned *const keys = turn.keys + number * d * turn.pitch;
#pragma unroll
    for (int k = first; k < kTurn; k += kStep) {
        if (top + lane < turn.points.count && dim + k < d) {
            keys[(dim + k) * turn.pitch + top + lane] = tile[lane][k];
        }
    }
    if (threadIdx.x == 0) {
        turn.odd[block] = odd;
    }
}

/* Where a sorted key lies in shared memory: a search begins at multiples of powers of two. */
__device__ __forceinline__ int place_of(int i) { return i + (i >> 5); }

/* Sorts kKeysOfThread keys of each of the block's threads: thread t then has numbers
 * kKeysOfThread * t on. A bitonic network, whose long steps go by shared memory. */
__device__ __forceinline__ void sort_keys(unsigned (&x)[kKeysOfThread], uint4 *shared, int count)
{
    const int thread = threadIdx.x, own = thread * kKeysOfThread;
#pragma unroll 1
    for (int size = 2; size <= count; size *= 2) {
#pragma unroll 1
        for (int apart = size / 2; apart >= kKeysOfThread; apart /= 2) {
            const int other = apart / kKeysOfThread;
            const bool least = ((own & apart) == 0) == ((own & size) == 0);
            unsigned y[kKeysOfThread];
            if (other >= 32) {
                __syncthreads();
                shared[thread] = make_uint4(x[0], x[1], x[2], x[3]);
                __syncthreads();
                const uint4 theirs = shared[thread ^ other];
                y[0] = theirs.x, y[1] = theirs.y, y[2] = theirs.z, y[3] = theirs.w;
            }
            else {
#pragma unroll
                for (int i = 0; i < kKeysOfThread; ++i) {
                    y[i] = __shfl_xor_sync(~0u, x[i], other);
                }
            }
#pragma unroll
            for (int i = 0; i < kKeysOfThread; ++i) {
                x[i] = least ? min(x[i], y[i]) : max(x[i], y[i]);
            }
        }
#pragma unroll
        for (int apart = kKeysOfThread / 2; apart > 0; apart /= 2) {
#pragma unroll
            for (int i = 0; i < kKeysOfThread; ++i) {
                if ((i & apart) == 0 && apart < size) {
                    const bool up = ((own + i) & size) == 0;
                    const unsigned low = min(x[i], x[i + apart]), high = max(x[i], x[i + apart]);
                    x[i] = up ? low : high, x[i + apart] = up ? high : low;
                }
            }
        }
    }
}

/* How many of the sorted keys are below each of some. */
__device__ __forceinline__ void count_below(int (&below)[kKeysOfThread], const unsigned *sorted,
                                            int count, const unsigned (&key)[kKeysOfThread])
{
#pragma unroll
    for (int &found : below) {
        found = 0;
    }
#pragma unroll 1
    for (int step = count / 2; step > 0; step /= 2) {
#pragma unroll
        for (int i = 0; i < kKeysOfThread; ++i) {
            below[i] += sorted[place_of(below[i] + step - 1)] < key[i] ? step : 0;
        }
    }
#pragma unroll
    for (int i = 0; i < kKeysOfThread; ++i) {
        below[i] += sorted[place_of(below[i])] < key[i];
    }
}

/* Makes of each number the sum of all before it, of two words of halves each. A thread has
 * kKeysOfThread of them; behind the last goes the sum of all. */
__device__ __forceinline__ void sum_before(uint2 *counts, uint2 *of_warps)
{
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    uint2 own[kKeysOfThread], all = {0, 0};
#pragma unroll
    for (int i = 0; i < kKeysOfThread; ++i) {
        const uint2 one = counts[thread * kKeysOfThread + i];
        own[i] = all;
        all.x += one.x, all.y += one.y;
    }
    uint2 before = all;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
        const unsigned x = __shfl_up_sync(~0u, before.x, apart);
        const unsigned y = __shfl_up_sync(~0u, before.y, apart);
        before.x += lane >= apart ? x : 0, before.y += lane >= apart ? y : 0;
    }
    if (lane == 31) {
        of_warps[warp] = before;
    }
    __syncthreads();
    before.x -= all.x, before.y -= all.y;
    for (int i = 0; i < warp; ++i) {
        before.x += of_warps[i].x, before.y += of_warps[i].y;
    }
#pragma unroll
    for (int i = 0; i < kKeysOfThread; ++i) {
        counts[thread * kKeysOfThread + i] = make_uint2(before.x + own[i].x, before.y + own[i].y);
    }
    if (thread + 1 == blockDim.x) {
        counts[blockDim.x * kKeysOfThread] = make_uint2(before.x + all.x, before.y + all.y);
    }
    __syncthreads();
}

/* The number of a chunk, of those in two words. */
__device__ __forceinline__ int of_chunk(uint2 counts, int chunk)
{
    return (int)((chunk < 2 ? counts.x : counts.y) >> chunk % 2 * 16 & 0xffff);
}

__device__ __forceinline__ void store_ranks(Rank *to, const float (&rank)[kKeysOfThread])
{
    const __half2 low = __floats2half2_rn(rank[0], rank[1]);
    const __half2 high = __floats2half2_rn(rank[2], rank[3]);
    *reinterpret_cast<uint2 *>(to) = make_uint2(*reinterpret_cast<const unsigned *>(&low),
                                                *reinterpret_cast<const unsigned *>(&high));
}

/* The bytes of shared memory that a block takes which sorts so many keys. */
inline size_t shared_of_keys(int keys)
{
    return (keys + keys / 32 + 4) * sizeof(unsigned) +
           (keys > kChunk ? (keys + 2 + 32) * sizeof(uint2) : 0);
}

/* Ranks of a dimension: a block's number tells which rows it places, among which of the sorted
 * operand, the dimension and the matrix. keys, a power of two: how many it sorts, of which those
 * beyond the rows are larger than all. Ranks of rows that are not there are some. */
template <int kMostThreads>
__global__ void __launch_bounds__(kMostThreads)
    rank(const unsigned *sorted_keys, const unsigned *placed_keys, int keys, ptrdiff_t sorted_rows,
         unsigned d, unsigned segments, unsigned sorts, const __grid_constant__ Ranks sorted,
         const __grid_constant__ Ranks placed)
{
    extern __shared__ uint4 shared[];
    unsigned *const in_order = reinterpret_cast<unsigned *>(shared);
    uint2 *const counts = reinterpret_cast<uint2 *>(in_order + keys + keys / 32 + 4);
    const unsigned segment = blockIdx.x % segments, sort = blockIdx.x / segments % sorts;
    const unsigned dim = blockIdx.x / segments / sorts % d;
    const ptrdiff_t number = blockIdx.x / segments / sorts / d;
    const ptrdiff_t first = sort * (ptrdiff_t)kSorted;
    const int count = (int)min(sorted_rows - first, (ptrdiff_t)kSorted);
    const int own = threadIdx.x * kKeysOfThread;
    const int chunks = (count + kChunk - 1) / kChunk;
    unsigned mine[kKeysOfThread], x[kKeysOfThread];
    int below[kKeysOfThread];
    float found[kKeysOfThread];
    sorted_keys += (number * d + dim) * sorted.pitch + first;
    placed_keys += (number * d + dim) * placed.pitch;
    follow();
#pragma unroll
    for (int i = 0; i < kKeysOfThread; ++i) {
        const int row = own / kTogether * kTogether + row_of_place(own % kTogether + i);
        x[i] = mine[i] = row < count ? sorted_keys[row] : ~0u;
    }
    sort_keys(x, shared, keys);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kKeysOfThread; ++i) {
        in_order[place_of(own + i)] = x[i];
        if (chunks > 1) {
            counts[own + i] = make_uint2(0, 0);
        }
    }
    __syncthreads();
    count_below(below, in_order, keys, mine);
    const int chunk = own / kChunk; /* that of the thread's own rows */
    if (chunks > 1) {
#pragma unroll
        for (int i = 0; i < kKeysOfThread; ++i) {
            const int row = own / kTogether * kTogether + row_of_place(own % kTogether + i);
            if (row < count) {
                atomicAdd(chunk < 2 ? &counts[below[i]].x : &counts[below[i]].y,
                          1u << chunk % 2 * 16);
            }
        }
        __syncthreads();
        sum_before(counts, counts + keys + 2);
    }
    if (segment == 0 && own / kTogether * kTogether < count) {
#pragma unroll
        for (int i = 0; i < kKeysOfThread; ++i) {
            found[i] = (float)(chunks > 1 ? of_chunk(counts[below[i]], chunk) : below[i]);
        }
        store_ranks(sorted.at(number, 0) + sorted.place(first + own, dim) + own % kTogether, found);
    }
    Rank *const to = placed.at(number, sort * kChunks);
    const ptrdiff_t rows = blockDim.x * (ptrdiff_t)kPlaced;
    const ptrdiff_t last = min((segment + 1) * rows, placed.pitch);
#pragma unroll 1
    for (ptrdiff_t i = segment * rows + own; i < last; i += blockDim.x * kKeysOfThread) {
        unsigned key[kKeysOfThread];
        uint2 before[kKeysOfThread], ties[kKeysOfThread];
#pragma unroll
        for (int k = 0; k < kKeysOfThread; ++k) {
            key[k] =
                placed_keys[i / kTogether * kTogether + row_of_place((int)(i % kTogether) + k)];
        }
        count_below(below, in_order, keys, key);
#pragma unroll
        for (int k = 0; k < kKeysOfThread; ++k) {
            const bool tie = below[k] < keys && in_order[place_of(below[k])] == key[k];
            before[k] = make_uint2((unsigned)below[k], 0);
            ties[k] = make_uint2(tie, 0);
            if (chunks > 1) {
                before[k] = counts[below[k]];
                const uint2 after = counts[below[k] + tie];
                ties[k] = make_uint2(after.x - before[k].x, after.y - before[k].y);
            }
        }
#pragma unroll 1
        for (int c = 0; c < chunks; ++c) {
#pragma unroll
            for (int k = 0; k < kKeysOfThread; ++k) {
                found[k] = (float)of_chunk(before[k], c) - (of_chunk(ties[k], c) > 0 ? 0.0f : 0.5f);
            }
            store_ranks(to + c * placed.chunk + placed.place(i, dim) + i % kTogether, found);
        }
    }
}

}  // namespace gd
#endif
