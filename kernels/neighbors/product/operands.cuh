/* operands.cuh: what the search by products keeps in memory, and the bound that makes it exact.
 *
 * Rows are moved by a centre and multiplied by a power of two; a and b are such rows, ah and bh
 * what halves keep of them, al and bl what that loses. For one row a the order of distances is that
 * of
 *
 *      v = |b|^2 / 2 - ab,
 *
 * of which the tensor cores give |b|^2 / 2 - ah bh. As ab - ah bh = ah bl + al b, they are off by
 *
 *      e = |ah| |bl| + |al| |b| + kProducts |ah| |bh| + kRest (|a|^2 + |b|^2) + kLeast
 *
 * at most. The third term is what tensor cores cut off: of each of 17 addends of a step no more
 * than 2^-23 of the largest, which |ah| |bh| is not below. The fourth is all that has a relative
 * error of some 2^-24: moving, norms, v itself, the sum of squares that gpudist reports, and its
 * root: two rows whose distances are reported as equal are no further apart than this. The last is
 * for what underflows; `quantum` is the reported distances' least step, in units of v.
 *
 * So e is a sum of products of what belongs to a row of A and what belongs to a tile of B. With
 * any limit G, the pairs with v - e <= G have all neighbours among them if k of them have
 * v + e <= G. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_OPERANDS_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_OPERANDS_CUH

#include <cuda_fp16.h>

#include "arch/dependent.cuh"
#include "common/metrics.cuh"

namespace gd {
namespace filter {

constexpr int kTileRows = 256, kTileCols = 256;
constexpr int kGroupRows = 128; /* of a group of four warps */
constexpr int kStepDims = 16;   /* of one instruction */
constexpr int kLanes = 32;

constexpr int kMostNeighbors = GD_POINTS_NEIGHBORS;
constexpr int kMostOdd = 128; /* columns that halves do not hold, which each row is held against */

/* In units of v. */
constexpr float kLeast = 0x1p-40f;
constexpr float kLargest = 6e4f; /* of an element that a half holds */
constexpr float kFar = 1e38f;    /* beyond any v */

__host__ __device__ constexpr float products_error(ptrdiff_t steps)
{
    return (float)steps * 18 * 0x1p-23f;
}
__host__ __device__ constexpr float rest_error(ptrdiff_t d)
{
    return 0x1p-18f + (float)d * 0x1p-27f;
}

/* A row of A: what its bound has beside what is the tile's, and its limit. */
struct alignas(16) RowFacts {
    float high;  /* |ah| */
    float low;   /* |al| + kProducts |ah| */
    float rest;  /* what is the row's alone */
    float limit; /* G; -infinity for rows that have to be done otherwise */
};
/* A tile of B: the largest |bl|, |b| and what is the column's alone. */
struct alignas(16) TileFacts {
    float low, norm, rest, unused;
};
__device__ __forceinline__ float bound(const RowFacts &row, const TileFacts &tile)
{
    return fmaf(row.high, tile.low, fmaf(row.low, tile.norm, row.rest + tile.rest));
}

/* What is known of a tile of B: half of each column's square, infinite where there is no column.
 * Columns ascend by that, so that those at 0, 32, 64 ... are the least of the 32 from there on. */
struct alignas(128) ColumnFacts {
    float half_squares[kTileCols];
    TileFacts tile;
};
/* An image has planes of eight dimensions, a word for each of 256 columns or of 128 rows. Short
 * rows' are brought whole, with what is known of them; a slab of long ones is brought at once. */
template <int kPlanes>
struct alignas(128) ColumnPlanes {
    uint4 planes[kPlanes][kTileCols];
};
template <int kPlanes>
struct alignas(128) RowPlanes {
    uint4 planes[kPlanes][kGroupRows];
};
template <int kSteps>
struct Columns : ColumnPlanes<2 * kSteps> {
    ColumnFacts facts;
};
template <int kSteps>
using Rows = RowPlanes<2 * kSteps>;
constexpr int kSlabPlanes = 8, kSlabDims = 8 * kSlabPlanes;
using ColumnSlab = ColumnPlanes<kSlabPlanes>;
using RowSlab = RowPlanes<kSlabPlanes>;

/* What the product lets through: eight v of a row, with columns at `place` + 0, 1, 8, 9, 16, 17,
 * 24, 25, of which one or more may be near. Warps take the log in chunks, one after the other. */
struct Place {
    int row, place;
};
struct alignas(16) Eight {
    float v[8];
};
constexpr int kChunk = 256;
struct Chunk {
    Eight eights[kChunk];
    Place places[kChunk];
    unsigned count;
};

/* A row's candidate. */
struct Candidate {
    int place;
    float v;
};

/* What is found out of a sample of B, and how many columns and rows there are to be done otherwise.
 */
struct Found {
    float scale;
    float quantum;
    unsigned odd;    /* columns that are not in the images, but may be neighbours */
    unsigned failed; /* rows */
    unsigned left;   /* rows whose candidates are too many for a warp */
    unsigned chunks; /* of the log that were asked for: there may be fewer */
    unsigned listed; /* of these, whose hits are in the lists */
    unsigned worst;  /* bits of the largest share of its bound that an error took, if checked */
};

/* Everything of a call, as its kernels see it. */
struct Plan {
    Points<float> a, b;
    ptrdiff_t d;
    bool words_a, words_b; /* rows are read by 16-byte words */
    int rows;              /* of A; some at a time, if there are many */
    int strips, tiles;     /* tiles down and across */
    int stride, sampled;   /* of these tiles every such one is looked at for the guess */
    int wanted;            /* neighbours */
    int nth;               /* of the sample's least is the guess */
    ptrdiff_t self;        /* the column that is row 0, or -1 */

    float *centre;
    Found *found;
    int planes;                /* of an image */
    unsigned char *columns;    /* images of tiles: Columns<kSteps>, or ColumnSlabs */
    ColumnFacts *column_facts; /* of long rows: beside their images */
    float2 *squares;           /* of long rows' columns: half of |b|^2, and |bl|^2 */
    TileFacts *tile_facts;
    int *column_of;   /* the row of B at a place, or -1 */
    int *odd_columns; /* kMostOdd */

    unsigned char *images; /* of 128 rows each */
    RowFacts *row_facts;
    float *minima; /* a row: 8 for each sampled tile */
    Chunk *log;
    unsigned chunks;
    unsigned *counts; /* of candidates, of each row; bit 31: some were lost */
    Candidate *lists;
    int list_room;
    int *failed_rows, *left_rows;

    float *distances; /* rows x wanted */
    int64_t *indices;
};
constexpr unsigned kLost = 1u << 31;

/* The candidate for a place of the result as a number that sorts: smaller is nearer. */
using Key = unsigned long long;
constexpr Key kNoKey = ~0ull;
__device__ __forceinline__ Key key_of(float distance, int column)
{
    return distance != distance ? kNoKey : (Key)__float_as_uint(distance) << 32 | (unsigned)column;
}

/* Writes the n-th neighbour of a row. */
__device__ __forceinline__ void write_neighbor(const Plan &plan, int row, int nth, Key key)
{
    const ptrdiff_t at = (ptrdiff_t)row * plan.wanted + nth;
    plan.distances[at] = key == kNoKey ? __int_as_float(0x7fc00000) : __uint_as_float(key >> 32);
    plan.indices[at] = key == kNoKey ? -1 : (int64_t)(unsigned)key;
}

/* Sorts `count` numbers in shared memory, a power of two, by all threads of a scope, which is the
 * block or a warp. They are together before and after. */
struct Block {
    static __device__ __forceinline__ int thread() { return (int)threadIdx.x; }
    static __device__ __forceinline__ int threads() { return (int)blockDim.x; }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
};
struct Warp {
    static __device__ __forceinline__ int thread() { return (int)threadIdx.x % kLanes; }
    static __device__ __forceinline__ int threads() { return kLanes; }
    static __device__ __forceinline__ void sync() { __syncwarp(); }
};
template <typename Scope, typename T>
__device__ __forceinline__ void sort(T *numbers, int count)
{
    for (int size = 2; size <= count; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            Scope::sync();
            for (int i = Scope::thread(); i < count / 2; i += Scope::threads()) {
                const int low = 2 * i - (i & (step - 1)), high = low + step;
                const T x = numbers[low], y = numbers[high];
                if ((x > y) == ((low & size) == 0)) {
                    numbers[low] = y;
                    numbers[high] = x;
                }
            }
        }
    }
    Scope::sync();
}

/* A number that orders as x does, and back. */
__device__ __forceinline__ unsigned ordered(float x)
{
    const unsigned bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(unsigned bits)
{
    return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

/* The nth least of a warp's numbers, or a little more, by at most `steps` of a float: halves what
 * lies between `low` and `high`, which is not below it. */
template <int kCount>
__device__ __forceinline__ unsigned nth_least(const unsigned (&numbers)[kCount], int nth,
                                              unsigned low, unsigned high, unsigned steps)
{
    while (high - low > steps) {
        const unsigned middle = low + (high - low) / 2;
        unsigned below = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            below += numbers[i] <= middle;
        }
        below = __reduce_add_sync(~0u, below);
        if ((int)below >= nth) {
            high = middle;
        }
        else {
            low = middle;
        }
        if ((int)below == nth) {
            break;
        }
    }
    return high;
}

/* Sums and maxima over kWidth neighbouring lanes. */
template <int kWidth = kLanes>
__device__ __forceinline__ float sum_lanes(float x)
{
#pragma unroll
    for (int step = kWidth / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(~0u, x, step);
    }
    return x;
}
__device__ __forceinline__ float max_lanes(float x)
{
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    }
    return x;
}

/* Four dimensions of a row from dim on, zeros beyond d. */
__device__ __forceinline__ float4 load_dims(const Points<float> &x, bool words, ptrdiff_t row,
                                            ptrdiff_t dim, ptrdiff_t d)
{
    const float *const from = x.data + row * x.row_stride + dim * x.col_stride;
    if (words) {
        return dim < d ? __ldg(reinterpret_cast<const float4 *>(from)) : float4{};
    }
    float4 four = {};
    if (dim < d) {
        four.x = __ldg(from);
    }
    if (dim + 1 < d) {
        four.y = __ldg(from + x.col_stride);
    }
    if (dim + 2 < d) {
        four.z = __ldg(from + 2 * x.col_stride);
    }
    if (dim + 3 < d) {
        four.w = __ldg(from + 3 * x.col_stride);
    }
    return four;
}

}  // namespace filter
}  // namespace gd
#endif
