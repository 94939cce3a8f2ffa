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
 * v + e <= G; and all that are within a radius r, if G is (r^2 - |a|^2) / 2 at least, whose own
 * rounding the fourth term bounds as well.
 *
 * Where there are several centres (centres.cuh), G is in units of half a squared distance, and a
 * row's limit by each centre is G less its shift, |a|^2 / 2 by that centre. A shift has a relative
 * error of 2^-20 at most, as sums of 128 squares in 14 steps have, and of 2^-17.8 as those of 1024
 * in 70 steps; so the row's share of the fourth term is doubled, which adds five times that.
 *
 * Points of float64 are moved in float64 and rounded to float32, which is less than float32 itself
 * loses; their distances are computed without roundings that count here. Cosine distances are
 * squared ones of rows whose squares are a half; those beyond 2, which only rounding makes, become
 * 2, which is nearer to what they are. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_OPERANDS_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_OPERANDS_CUH

#include <cuda_fp16.h>

#include <type_traits>

#include "arch/dependent.cuh"
#include "common/metrics.cuh"
#include "neighbors/keys.cuh"

namespace gd {
namespace filter {

constexpr int kTileRows = 256, kTileCols = 256;
constexpr int kGroupRows = 128; /* of a group of four warps */
constexpr int kStepDims = 16;   /* of one instruction */
constexpr int kLanes = 32;
constexpr int kStrides = 33; /* between sampled tiles of one centre */

constexpr int kMostNeighbors = GD_PRODUCT_NEIGHBORS;
constexpr int kFewWanted = 128; /* neighbours of a row that are few */
constexpr int kMostOdd = 128; /* columns that halves do not hold, which each row is held against */

/* In units of v. */
constexpr float kLeast = 0x1p-40f;
constexpr float kLargest = 6e4f;    /* of an element that a half holds */
constexpr float kFar = 1e38f;       /* beyond any v */
constexpr float kUp = 1 + 0x1p-14f; /* more than norms are rounded by */
/* Of elements, beyond what they have where sums of them do not overflow. */
template <typename T>
constexpr T kFarAway = (T)(sizeof(T) == sizeof(float) ? 1e38 : 1e300);

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
/* A tile of B: the largest |bl|, |b| and what is the column's alone; and which centre it is moved
 * by. */
struct alignas(16) TileFacts {
    float low, norm, rest;
    int centre;
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

/* What is let through: eight v of a row, with columns at `place` + 0, 1, 8, 9, 16, 17, 24, 25 (or
 * pairs as far apart as Plan says), of which one or more may be near. Warps take the log in chunks,
 * one after the other. */
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

/* Tiles that a strip of rows is multiplied with, all of one centre: the i-th, from `first` to
 * before `end`, is tile from + (i - first) * apart. */
struct Unit {
    int strip, centre, first, end, from, apart;
};

/* Points by the centre that they are near: columns or rows. */
constexpr int kMostCentres = 256, kMates = 1024; /* rows of a sample, in which clusters show */
constexpr int kCentresAtOnce = 64;               /* that points are multiplied with */
__host__ __device__ constexpr int whole_centres(int centres)
{
    return (centres + kCentresAtOnce - 1) / kCentresAtOnce * kCentresAtOnce;
}
/* Halves of a centre's image of so many dimensions, and some more, so that those of eight centres
 * are in different banks. */
__host__ __device__ constexpr int pitch_of_centre(int dims)
{
    return (dims < GD_GROUP ? GD_GROUP : dims) + 16;
}
struct Members {
    unsigned char *nearest;   /* a point's centre */
    int *order;               /* points, those of one centre after those of another; -1 is none */
    int *starts;              /* kMostCentres + 1: the place of a centre's first in this order */
    unsigned *counts, *taken; /* points of a centre, and how many of them have a place by now */
    int whole;                /* starts are so many times a whole number */
};

/* Equal rows of B (copies.cuh): some of a group that follow each other in it; a group's first and
 * last, -1 where there is none. */
struct alignas(16) Run {
    int group, first, last, count;
};
struct alignas(8) Group {
    int first, last;
};
constexpr int kSlotsOfRow = 2;

/* What is found out of a sample of B, and how many columns and rows there are to be done otherwise.
 */
struct Found {
    double scale; /* a power of two that the points' type has */
    float quantum;
    unsigned odd;       /* columns that are not in the images, but may be neighbours */
    unsigned failed;    /* rows */
    unsigned left;      /* rows whose candidates are too many for a warp */
    unsigned left_long; /* and of many neighbours, those with too many for most blocks */
    unsigned many;      /* rows that seem to have more within their radius than are wanted */
    unsigned chunks;    /* of the log that were asked for: there may be fewer */
    unsigned worst;     /* bits of the largest share of its bound that an error took, if checked */
    unsigned way;       /* to bounds that is taken, where a row of the table has two */
    unsigned centres;   /* one, unless points lie in clusters */
    unsigned copies;    /* rows of the sample that are there before */
    unsigned grouped;   /* blocks that have looked for them */
    unsigned groups;    /* of equal rows of B, where they have been looked for */
    unsigned units[4];  /* in the lists of units; the last shares its list with the one before */
};

/* What kernels see of a call whatever the points' type is. */
struct Plan {
    ptrdiff_t d;
    bool words_a, words_b;   /* rows are read by 16-byte words */
    int rows;                /* of A; some at a time, if there are many */
    int strips, tiles;       /* tiles down and across */
    int stride, sampled;     /* of these tiles every such one is looked at for the guess */
    int wanted;              /* neighbours */
    int nth;                 /* of the sample's least is the guess */
    int crowd, enough;       /* see before_crowd() */
    ptrdiff_t first_sampled; /* a place from which on there are images of the sample as it was */
    bool tightens;           /* limits are lowered after the first tiles */
    unsigned way;            /* to bounds that the kernels are of */
    int apart;               /* columns of pairs of an eight in the log */
    float most;              /* that a limit can be */
    ptrdiff_t self;          /* the column that is row 0, or -1 */

    Found *found;
    int most_centres;               /* 1 where others are not looked for */
    int sorted_tiles;               /* tiles that are sorted together are of one centre */
    Members of_columns, of_rows;    /* where there are several centres */
    float *mates;                   /* of several centres, until there are lists: see centres.cuh */
    unsigned *nearest_mates;        /* bits of floats */
    int *centre_of_mate;            /* or -1 */
    int *first_mates;               /* the first of the sample that a row of it is equal to */
    int *copies;                    /* how often a row of B is there, 0 if one before is equal */
    int *next_copy;                 /* the next that is equal, or -1 */
    unsigned long long *hash_slots; /* kSlotsOfRow for each row of B */
    Group *groups;                  /* and what follows is where images of B will be */
    Run *runs;
    int *run_counts;
    __half *centre_images;           /* whole_centres() rows of centre_image_pitch() */
    float *centre_squares, *reaches; /* half of a centre's square; see guess() */
    float *spans;                    /* how far from a centre its columns are at most */
    Unit *units[3];                  /* for the sample, and for the first and the other tiles */
    int *slots, *most_own;           /* of a strip: sampled tiles, and of one centre at most */
    int *first_slots;                /* of a strip and centre: where its sampled tiles begin */
    int nth_of[kStrides];            /* the guess, where every such tile is sampled */

    int planes;                /* of an image */
    unsigned char *columns;    /* images of tiles: Columns<kSteps>, or ColumnSlabs */
    ColumnFacts *column_facts; /* of long rows: beside their images */
    float2 *squares;           /* of long rows' columns: half of |b|^2, and |bl|^2 */
    TileFacts *tile_facts;
    int *column_of;   /* the row of B at a place, or -1 */
    int *odd_columns; /* kMostOdd */

    unsigned char *images; /* of 128 rows each, and facts, by the only centre: see by_centre() */
    RowFacts *row_facts;
    float *minima; /* a row: kMinima for each sampled tile, or kFineMinima */
    int minima_pitch;
    float *limits; /* G of each row in units of half a squared distance, but for its own square
                      where there is one centre */
    Chunk *log;
    unsigned chunks;
    unsigned *counts; /* of candidates, of each row; bit 31: some were lost */
    Candidate *lists;
    int list_room;
    int *failed_rows, *left_rows;
    int64_t *indices; /* rows x wanted */

    /* Neighbours within a radius: what a row's distances are at most, or NULL; and what its limit
     * is at most, as beyond that there are none. */
    const double *radii;
    float *bounds;
    bool one_radius;  /* all rows have the first */
    int *tallies;     /* of all rows of the call */
    gd_metric metric; /* how sums end */

    __device__ __forceinline__ bool is_taken() const { return found->way == way; }
    __device__ __forceinline__ double radius_of(int row) const
    {
        return radii[one_radius ? 0 : row];
    }

    __host__ __device__ __forceinline__ int centre_image_pitch() const
    {
        return pitch_of_centre(8 * planes);
    }
    /* Rows are in the order of their centres where there are several: so they have places, as
     * columns do. */
    __device__ __forceinline__ bool has_several() const
    {
        return most_centres > 1 && found->centres > 1;
    }
    /* Whether all minima of the sample are of a row's own centre, and each of few columns: runs
     * would hardly differ by how many of many neighbours they have. */
    __device__ __forceinline__ bool samples_finely() const
    {
        return wanted > kFewWanted && has_several();
    }
    /* Whether units of work are listed, or only those of the sample. */
    __device__ __forceinline__ bool lists_units(bool of_sample) const
    {
        return has_several() || (of_sample && has_copies());
    }
    /* Whether rows of B that are equal have been looked for. */
    __device__ __forceinline__ bool has_copies() const
    {
        return most_centres > 1 && found->copies > 0;
    }
    /* Whether a row of B is equal to one before it, which stands for it. */
    __device__ __forceinline__ bool is_copy(int column) const
    {
        return has_copies() && copies[column] == 0;
    }
    /* A column, or if that is the row itself the next one that is equal; -1 if there is none, or
     * was none. */
    __device__ __forceinline__ int other_than(ptrdiff_t self, int column) const
    {
        return column != self || column < 0 ? column : has_copies() ? next_copy[column] : -1;
    }
    /* How many rows of B a column stands for at least, but for the row itself, or as many as are
     * wanted. */
    __device__ __forceinline__ int rows_behind(ptrdiff_t self, int column) const
    {
        return min(max(copies[column] - (self >= 0), 1), wanted);
    }
    __device__ __forceinline__ int row_at(int place) const
    {
        return has_several() ? of_rows.order[place] : place;
    }
    /* What rows are by a centre. Where there are several, that is where the log would end. */
    struct ByCentre {
        unsigned char *images;
        RowFacts *facts;
        float *shifts; /* half of each row's square, if there are several centres */
    };
    __host__ __device__ __forceinline__ ptrdiff_t bytes_of_centre(ptrdiff_t rows) const
    {
        return rows * (planes * (ptrdiff_t)sizeof(uint4) + (ptrdiff_t)sizeof(RowFacts) +
                       (ptrdiff_t)sizeof(float));
    }
    __device__ __forceinline__ ByCentre by_centre(int centre) const
    {
        if (!has_several()) {
            return {images, row_facts, NULL};
        }
        const ptrdiff_t rows = (ptrdiff_t)strips * kTileRows;
        unsigned char *const at = reinterpret_cast<unsigned char *>(log + chunks) -
                                  ((int)found->centres - centre) * bytes_of_centre(rows);
        auto *const facts = reinterpret_cast<RowFacts *>(at + rows * planes * sizeof(uint4));
        return {at, facts, reinterpret_cast<float *>(facts + rows)};
    }
    /* Chunks that the log has room for. */
    __device__ __forceinline__ unsigned log_room() const
    {
        const ptrdiff_t used =
            has_several() ? found->centres * bytes_of_centre((ptrdiff_t)strips * kTileRows) : 0;
        return chunks -
               (unsigned)((used + (ptrdiff_t)sizeof(Chunk) - 1) / (ptrdiff_t)sizeof(Chunk));
    }
};
constexpr unsigned kLost = 1u << 31;

/* Everything of a call. */
template <typename T>
struct PlanOf : Plan {
    Points<T> a, b;
    T *centre, *centres; /* of all, and those that points are moved by */
    T *largest;          /* elements of a sample's rows */
    T *distances;        /* rows x wanted */
    T *listed_distances; /* of all rows, where there is no other place for what is listed */
    int64_t *listed_indices;

    __host__ __device__ __forceinline__ ptrdiff_t centre_pitch() const
    {
        return planes * 8 + kLanes;
    }
    /* What a row's distances are at most. */
    __device__ __forceinline__ T radius(int row) const
    {
        return radii != NULL ? (T)radius_of(row) : (T)INFINITY;
    }
};

/* Whether a row's limit lets all through that are within its radius, however few they are. */
__device__ __forceinline__ bool has_all(const Plan &plan, int place, float limit)
{
    return plan.radii != NULL && limit == plan.bounds[place];
}

/* What the v of a row's candidate may be off by. facts: the row's by the first centre. */
__device__ __forceinline__ float error_of(const Plan &plan, int place, const RowFacts &facts,
                                          const Candidate &candidate)
{
    const TileFacts tile = plan.tile_facts[candidate.place / kTileCols];
    return bound(tile.centre == 0 ? facts : plan.by_centre(tile.centre).facts[place], tile);
}

/* The candidate for a place of the result as a number that sorts: smaller is nearer. Its upper part
 * are the bits of a distance, which is never below 0, the lower one a column. */
using Key = unsigned long long;
struct alignas(16) WideKey {
    unsigned long long bits, column;

    __device__ __forceinline__ bool operator<(const WideKey &other) const
    {
        return bits < other.bits || (bits == other.bits && column < other.column);
    }
    __device__ __forceinline__ bool operator>(const WideKey &other) const { return other < *this; }
};
template <typename T>
using KeyOf = std::conditional_t<sizeof(T) == sizeof(float), Key, WideKey>;

__device__ __forceinline__ unsigned bits_of(Key key) { return (unsigned)(key >> 32); }
__device__ __forceinline__ unsigned long long bits_of(const WideKey &key) { return key.bits; }
__device__ __forceinline__ unsigned index_of(Key key) { return (unsigned)key; }
__device__ __forceinline__ unsigned index_of(const WideKey &key) { return (unsigned)key.column; }
__device__ __forceinline__ float distance_of(Key key) { return __uint_as_float(bits_of(key)); }
__device__ __forceinline__ double distance_of(const WideKey &key)
{
    return __longlong_as_double((long long)key.bits);
}
/* Behind all others, which NaN, too, is. */
template <typename T>
__device__ __forceinline__ KeyOf<T> no_key()
{
    if constexpr (sizeof(T) == sizeof(float)) {
        return ~0ull;
    }
    else {
        return {~0ull, ~0ull};
    }
}
__device__ __forceinline__ bool is_none(Key key) { return key == ~0ull; }
__device__ __forceinline__ bool is_none(const WideKey &key) { return key.bits == ~0ull; }
__device__ __forceinline__ Key key_of(float distance, unsigned column)
{
    return distance != distance ? no_key<float>() : (Key)__float_as_uint(distance) << 32 | column;
}
__device__ __forceinline__ WideKey key_of(double distance, unsigned column)
{
    return distance != distance
               ? no_key<double>()
               : WideKey{(unsigned long long)__double_as_longlong(distance), column};
}

/* Writes the n-th neighbour of a row. */
template <typename T>
__device__ __forceinline__ void write_neighbor(const PlanOf<T> &plan, int row, int nth,
                                               const KeyOf<T> &key)
{
    const ptrdiff_t at = (ptrdiff_t)row * plan.wanted + nth;
    plan.distances[at] = is_none(key) ? no_distance(T{}) : distance_of(key);
    plan.indices[at] = is_none(key) ? -1 : (int64_t)index_of(key);
}

/* Threads that do something together: a block's or a warp's. */
struct Block {
    static __device__ __forceinline__ int thread() { return (int)threadIdx.x; }
    static __device__ __forceinline__ int threads() { return (int)blockDim.x; }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
    static __device__ __forceinline__ bool any(bool x) { return __syncthreads_or(x); }
};
struct Warp {
    static __device__ __forceinline__ int thread() { return (int)threadIdx.x % kLanes; }
    static __device__ __forceinline__ int threads() { return kLanes; }
    static __device__ __forceinline__ void sync() { __syncwarp(); }
    static __device__ __forceinline__ bool any(bool x) { return __any_sync(~0u, x); }
};

__device__ __forceinline__ Key from_lane(Key x, int step) { return __shfl_xor_sync(~0u, x, step); }
__device__ __forceinline__ WideKey from_lane(const WideKey &x, int step)
{
    return {__shfl_xor_sync(~0u, x.bits, step), __shfl_xor_sync(~0u, x.column, step)};
}

/* The last steps of merging `size` numbers, of which each lane has those at i and kLanes behind. */
template <typename T>
__device__ __forceinline__ void merge_lanes(T &x, T &y, int i, int size)
{
    if (size > kLanes && (y < x) == ((i & size) == 0)) {
        const T other = x;
        x = y;
        y = other;
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        if (step < size) {
            const T of_x = from_lane(x, step), of_y = from_lane(y, step);
            const bool is_first = (i & step) == 0;
            x = (of_x < x) == (is_first == ((i & size) == 0)) ? of_x : x;
            y = (of_y < y) == (is_first == ((i + kLanes & size) == 0)) ? of_y : y;
        }
    }
}

/* Sorts `count` numbers in shared memory, a power of two, by all threads of a scope. They are
 * together before and after. What is compared with numbers up to kLanes away is so in registers. */
template <typename Scope, typename T>
__device__ __forceinline__ void sort(T *numbers, int count)
{
    constexpr int kOfWarp = 2 * kLanes;
    const int lane = (int)threadIdx.x % kLanes;
    for (int from = 2, to = min(count, kOfWarp); to <= count; to *= 2, from = to) {
        for (int step = to / 2; step > kLanes; step /= 2) {
            Scope::sync();
            for (int i = Scope::thread(); i < count / 2; i += Scope::threads()) {
                const int low = 2 * i - (i & (step - 1)), high = low + step;
                const T x = numbers[low], y = numbers[high];
                if ((x > y) == ((low & to) == 0)) {
                    numbers[low] = y;
                    numbers[high] = x;
                }
            }
        }
        Scope::sync();
        for (int first = Scope::thread() / kLanes * kOfWarp; first < count;
             first += Scope::threads() / kLanes * kOfWarp) {
            const int i = first + lane;
            T x = {}, y = {};
            if (i < count) {
                x = numbers[i];
            }
            if (i + kLanes < count) {
                y = numbers[i + kLanes];
            }
            for (int size = from; size <= to; size *= 2) {
                merge_lanes(x, y, i, size);
            }
            if (i < count) {
                numbers[i] = x;
            }
            if (i + kLanes < count) {
                numbers[i + kLanes] = y;
            }
        }
    }
    Scope::sync();
}

/* Sums of magnitudes of more than kShortDims dimensions, in the order of additions of
 * cdist/cuda_direct, which is cdist's own with as many points: four dimensions are added to each
 * other before they join a sum, and folds and groups have four times as many. */
struct MagnitudesByFours : Metric<GD_CITYBLOCK> {
    static __device__ __forceinline__ float first(float a, float b, float) { return fabsf(a - b); }
};
template <typename M>
constexpr bool kByFours = std::is_same_v<M, MagnitudesByFours>;
template <typename M>
constexpr int kFoldOf = kByFours<M> ? 4 * GD_FOLD : GD_FOLD;
template <typename M>
constexpr int kGroupOf = kByFours<M> ? 4 * GD_GROUP : GD_GROUP;

/* The sum of four dimensions. */
template <typename M, typename T>
__device__ __forceinline__ T four_of(const T (&x)[4], const T *y)
{
    T four = M::first(x[0], y[0], 0);
#pragma unroll
    for (int i = 1; i < 4; ++i) {
        four = M::join(four, M::first(x[i], y[i], 0));
    }
    return four;
}

/* Places in a row's list for as many hits as each lane has, which are eight at most: lanes with the
 * same row, of which there are many, ask together. All lanes of a warp call this. */
__device__ __forceinline__ unsigned claim_places(unsigned *counts, int row, unsigned hits)
{
    const unsigned lane = threadIdx.x % kLanes, same = __match_any_sync(~0u, row);
    unsigned total = 0, before = 0, first = 0;
#pragma unroll
    for (int bit = 0; bit < 4; ++bit) {
        const unsigned set = __ballot_sync(~0u, hits >> bit & 1) & same;
        total += __popc(set) << bit;
        before += __popc(set & ((1u << lane) - 1)) << bit;
    }
    const unsigned leader = __ffs(same) - 1;
    if (lane == leader && total > 0) {
        first = atomicAdd(&counts[row], total);
    }
    return __shfl_sync(~0u, first, leader) + before;
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

/* Of numbers of a block's threads, one each, that which `below` others are below: finds it bit by
 * bit. All threads call this, and get it. */
template <typename Bits>
__device__ __forceinline__ Bits number_above(Bits x, int below)
{
    Bits found = 0;
#pragma unroll 1
    for (Bits bit = Bits(1) << (8 * sizeof(Bits) - 1); bit != 0; bit >>= 1) {
        if (__syncthreads_count(x < (found | bit)) <= below) {
            found |= bit;
        }
    }
    return found;
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
template <typename T>
__device__ __forceinline__ T max_lanes(T x)
{
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        x = fmax(x, __shfl_xor_sync(~0u, x, step));
    }
    return x;
}

/* Four dimensions of a row from dim on, zeros beyond d. */
template <typename T>
struct Four {
    T x[4];
};
template <typename T>
__device__ __forceinline__ Four<T> load_dims(const Points<T> &x, bool words, ptrdiff_t row,
                                             ptrdiff_t dim, ptrdiff_t d)
{
    const T *const from = x.data + row * x.row_stride + dim * x.col_stride;
    Four<T> four = {};
    if (words) {
#pragma unroll
        for (int i = 0; i < 4; i += kPerWord<T>) {
            if (dim + i < d) {
                load_word_const(from + i, four.x + i);
            }
        }
        return four;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (dim + i < d) {
            four.x[i] = __ldg(from + i * x.col_stride);
        }
    }
    return four;
}

/* How many rows of a call are searched for at once: as many as the others, of `most` at most. */
inline ptrdiff_t rows_of_part(ptrdiff_t rows, ptrdiff_t most)
{
    const ptrdiff_t parts = ceil_div(rows, most);
    return ceil_div(ceil_div(rows, parts), (ptrdiff_t)kTileRows) * kTileRows;
}

/* Has a plan search for rows of a call from `first` on, `each` at most, whose lists are in their
 * place among all. P: a PlanOf, or one of truths. */
template <typename P>
void search_for(P &plan, const gd_neighbors &call, const gd_ranked &lists, ptrdiff_t first,
                ptrdiff_t each)
{
    plan.rows = (int)min(call.a.rows - first, each);
    plan.strips = (int)ceil_div(plan.rows, kTileRows);
    plan.a.data = static_cast<decltype(plan.a.data)>(call.a.data) + first * call.a.row_stride;
    plan.a.count = plan.rows;
    plan.self = call.self < 0 ? -1 : call.self + first;
    plan.distances = static_cast<decltype(plan.distances)>(lists.distances) + first * plan.wanted;
    plan.indices = lists.indices + first * plan.wanted;
    plan.one_radius = call.one_limit;
    plan.radii = call.limits == NULL || call.one_limit ? call.limits : call.limits + first;
}

}  // namespace filter
}  // namespace gd
#endif
