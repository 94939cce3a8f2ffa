/* operands.cuh: what the search among truths keeps in memory, and how near two rows are.
 *
 * Of two rows the tensor cores give the number of columns that are true in both, exactly. With the
 * rows' own numbers of ones it says their distance, which falls as more columns are true in both,
 * and grows with the ones of B's row while the others stay. So a row of A has, for each number of
 * ones, a least count that makes a column of B near enough; the function of the metric itself says
 * which (refine.cuh), and it holds for columns with more ones as well.
 *
 * A nearness is a distance, or what turns a similarity round: the smaller, the nearer. */
#ifndef GPUDIST_NEIGHBORS_TRUTHS_OPERANDS_CUH
#define GPUDIST_NEIGHBORS_TRUTHS_OPERANDS_CUH

#include "common/counts.cuh"
#include "neighbors/product/multiply.cuh"

namespace gd {
namespace truths {

using filter::kChunk;
using filter::KeyOf;
using filter::kGroupRows;
using filter::kLanes;
using filter::kLost;
using filter::kRun;
using filter::kRuns;
using filter::kTileCols;
using filter::kTileRows;

constexpr int kStepTruths = 256, kPlaneTruths = 128;
constexpr int kSpan = 4096; /* columns that are sorted together, by their ones */
constexpr int kSpanTiles = kSpan / kTileCols;
constexpr int kMostTruths = 2048;
constexpr unsigned kNever = 0xffff; /* a count that no pair has */
static_assert(kMostTruths < (int)kNever, "counts and limits are of 16 bits");

/* The image of a tile of B: see ColumnPlanes; a plane has 128 truths. least: the fewest ones of
 * each 32 columns. */
template <int kSteps>
struct Columns : filter::ColumnPlanes<2 * kSteps> {
    int least[kRuns];
};

/* Eight counts of a row, as filter::Place says, of which one or more may be near enough. */
struct Chunk {
    uint4 counts[kChunk];
    filter::Place places[kChunk];
    unsigned count;
};

/* A column that is near enough, by its place, and the number of columns that are true in both. */
struct Hit {
    int place, both;
};

struct Found {
    unsigned chunks; /* of the log that were asked for: there may be fewer */
    unsigned failed; /* rows */
    unsigned many;   /* rows that seem to have more within their radius than are wanted */
    int least, most; /* ones of a row of B */
};

/* What kernels see of a call whatever the type of distances is. */
struct Plan {
    ptrdiff_t d;
    int groups; /* of 16 bytes, of a row */
    int planes; /* of an image */
    gd_metric metric;
    bool larger;
    Points<int32_t> a, b;
    int rows;          /* of A; some at a time, if there are many */
    int strips, tiles; /* down and across */
    int first;         /* columns that are looked at directly, before all others */
    int wanted;        /* neighbours */
    ptrdiff_t self;    /* the column that is row 0, or -1 */

    Found *found;
    unsigned char *columns;  /* images of tiles: Columns<kSteps> */
    uint16_t *ones_of_b;     /* of each row of B, */
    uint16_t *ones_of_place; /* and of each place of the images */
    int *column_of;          /* the row of B at a place, or -1 */
    unsigned char *images;   /* of 128 rows of A each */
    uint16_t *ones_of_a;
    uint16_t *limits; /* for each number of ones of B's row, the least counts of A's, see above */
    ptrdiff_t pitch;  /* rows of these */
    Chunk *log;
    unsigned chunks;
    unsigned *counts; /* of hits, of each row; with kLost some were lost, with kFailed it has failed
                       */
    Hit *lists;
    int list_room;
    int *failed_rows;
    int64_t *indices; /* rows x wanted */

    /* Neighbours within a radius: the keys that rows' are at most, or NULL. */
    const double *radii;
    bool one_radius; /* all rows have the first */
    int *tallies;    /* of all rows of the call */
};
constexpr unsigned kFailed = 1u << 30;

/* A nearness of a similarity, which is not below 0, or back. */
__device__ __forceinline__ float turned(float x)
{
    return __int_as_float(0x7f800000 - __float_as_int(x));
}
__device__ __forceinline__ double turned(double x)
{
    return __longlong_as_double(0x7ff0000000000000ll - __double_as_longlong(x));
}

/* Everything of a call. */
template <typename T>
struct PlanOf : Plan {
    T *distances;        /* rows x wanted */
    T *listed_distances; /* of all rows, where there is no other place for what is listed */
    int64_t *listed_indices;

    __device__ __forceinline__ T nearness_of(T distance) const
    {
        return larger ? turned(distance) : distance;
    }
    __device__ __forceinline__ T nearness(int both, int ones_a, int ones_b) const
    {
        return nearness_of(
            distance_of_counts<Count<T>>(metric, T(both), T(ones_a), T(ones_b), T(d)).value);
    }
    /* The nearness that a row's neighbours have at most; -1 for none. */
    __device__ __forceinline__ T radius(int row) const
    {
        if (radii == NULL) {
            return (T)INFINITY;
        }
        const T key = (T)radii[one_radius ? 0 : row];
        if (larger) {
            return key > 0 ? (T)INFINITY : key <= 0 ? turned(-key + T(0)) : T(-1);
        }
        return key >= 0 ? key : T(-1);
    }
};

/* What a row's neighbours are nearer than, as its list is by now, or no further than. NaN, which is
 * no neighbour, comes through: it may stand between numbers. */
template <typename T>
struct Limit {
    T most;
    bool below;

    __device__ __forceinline__ Limit(const PlanOf<T> &plan, int row)
    {
        const ptrdiff_t last = (ptrdiff_t)row * plan.wanted + plan.wanted - 1;
        below = plan.indices[last] >= 0;
        most = below ? plan.nearness_of(plan.distances[last]) : plan.radius(row);
    }
    __device__ __forceinline__ bool passes(T nearness) const
    {
        return below ? !(nearness >= most) : !(nearness > most);
    }
};

template <typename T>
__device__ __forceinline__ KeyOf<T> key_of(const PlanOf<T> &plan, int row, T nearness, int column)
{
    return nearness <= plan.radius(row) ? filter::key_of(nearness, (unsigned)column)
                                        : filter::no_key<T>();
}

/* Writes the n-th neighbour of a row. */
template <typename T>
__device__ __forceinline__ void write_neighbor(const PlanOf<T> &plan, int row, int nth,
                                               const KeyOf<T> &key)
{
    const ptrdiff_t at = (ptrdiff_t)row * plan.wanted + nth;
    const bool none = filter::is_none(key);
    plan.distances[at] = none ? no_distance(T{}) : plan.nearness_of(filter::distance_of(key));
    plan.indices[at] = none ? -1 : (int64_t)filter::index_of(key);
}

}  // namespace truths
}  // namespace gd
#endif
