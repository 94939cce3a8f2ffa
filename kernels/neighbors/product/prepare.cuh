/* prepare.cuh: the steps before the product: centre and scale, and the images of rows of A. Those
 * of columns, which are sorted, stand in prepare_columns.cuh.
 *
 * The centre is, dimension by dimension, the median of 32 means of 16 rows of a sample, and the
 * scale takes the length that an eighth of the sample's rows exceed in their largest element to
 * 2^8: so single rows far away, or with infinity and NaN, spoil neither. Where the longest of the
 * sample is much longer, as where most rows are zeros, that goes to 2^13, beyond which halves have
 * room for rows that are longer still. Any centre and scale are right; they decide how many
 * candidates there are.
 */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_PREPARE_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_PREPARE_CUH

#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

constexpr int kSampleParts = 32, kSampleEach = 16;
constexpr int kSampleRows = kSampleParts * kSampleEach;

template <typename T>
__device__ __forceinline__ ptrdiff_t sample_row(const PlanOf<T> &plan, int i)
{
    return plan.b.count * i / kSampleRows;
}

/* A block finds 32 dimensions of the centre; those beyond d are 0. */
template <typename T>
__global__ void __launch_bounds__(kLanes *kSampleParts)
    find_centre(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    __shared__ T means[kSampleParts][kLanes + 1];
    const int lane = threadIdx.x % kLanes, part = threadIdx.x / kLanes;
    const ptrdiff_t dim = (ptrdiff_t)blockIdx.x * kLanes + lane;
    T sum = 0, least = kFarAway<T>, most = -kFarAway<T>;
    int count = 0;
    if (dim < plan.d) {
#pragma unroll
        for (int i = 0; i < kSampleEach; ++i) {
            const T x = plan.b.at(sample_row(plan, i * kSampleParts + part), dim);
            if (fabs(x) < kFarAway<T> / kSampleEach) {
                sum += x;
                least = fmin(least, x);
                most = fmax(most, x);
                ++count;
            }
        }
    }
    /* Of equal ones just that: rows that are equal to the centre fit any scale. */
    const T mean = count == 0 ? T(0) : fmin(fmax(sum / (T)count, least), most);
    means[part][lane] = mean;
    __syncthreads();
    int rank = 0;
    for (int i = 0; i < kSampleParts; ++i) {
        const T other = means[i][lane];
        rank += other < mean || (other == mean && i < part);
    }
    if (rank == kSampleParts / 2) {
        plan.centre[dim] = plan.centres[dim] = mean;
    }
}

/* The largest element of each row of the sample, a warp a row. */
constexpr int kSampleWarps = 8;
template <typename T>
__global__ void __launch_bounds__(kSampleWarps *kLanes)
    measure_sample(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    const int lane = threadIdx.x % kLanes;
    const int i = (int)blockIdx.x * kSampleWarps + (int)threadIdx.x / kLanes;
    const ptrdiff_t row = sample_row(plan, i);
    T most = 0;
#pragma unroll 4
    for (ptrdiff_t dim = lane; dim < plan.d; dim += kLanes) {
        const T x = fabs(plan.b.at(row, dim) - plan.centre[dim]);
        /* NaN, too, becomes far. */
        most = x <= most ? most : x <= kFarAway<T> ? x : kFarAway<T>;
    }
    most = max_lanes(most);
    if (lane == 0) {
        plan.largest[i] = most;
    }
}

/* The largest of a block's numbers, which are not below 0. All threads get it. */
template <typename T>
__device__ __forceinline__ T max_of_block(T x)
{
    __shared__ T all[kLanes];
    const int lane = (int)threadIdx.x % kLanes, warps = (int)blockDim.x / kLanes;
    x = max_lanes(x);
    __syncthreads();
    if (lane == 0) {
        all[threadIdx.x / kLanes] = x;
    }
    __syncthreads();
    return max_lanes(lane < warps ? all[lane] : T(0));
}

/* The length that the scale goes by: that which most rows of the sample have, or a part of that of
 * the longest, if it is not beyond all measure; if all are as the centre is, the centre's. own: the
 * length of a thread's. */
template <typename T>
__device__ __forceinline__ T length_for_all(const PlanOf<T> &plan, T own, T of_most)
{
    constexpr T kPart = T(1) / 32, kBeyond = T(1 << 20);
    const T longest = max_of_block(own < kFarAway<T> ? own : T(0));
    if (longest == 0) {
        T most = 0;
        for (ptrdiff_t dim = threadIdx.x; dim < plan.d; dim += kSampleRows) {
            most = fmax(most, fabs(plan.centre[dim]));
        }
        most = max_of_block(most);
        return most > 0 ? most : T(1);
    }
    return of_most > 0 && longest / kBeyond > of_most ? of_most : fmax(of_most, longest * kPart);
}

/* One block. least: the square of this, times half of a squared length, is what reported distances
 * may lose where their squares underflow. kInBytes: the scale takes that length to half of 255, and
 * is no power of two. */
template <typename T, bool kInBytes = false>
__global__ void __launch_bounds__(kSampleRows)
    find_scale(const __grid_constant__ PlanOf<T> plan, double least)
{
    follow();
    constexpr T kTiny = (T)(sizeof(T) == sizeof(float) ? 0x1p-100 : 0x1p-900);
    constexpr int kShorter = kSampleRows / 8 * 7;
    const T own = plan.largest[threadIdx.x];
    T most;
    if constexpr (sizeof(T) == sizeof(float)) {
        most = __uint_as_float(number_above(__float_as_uint(own), kShorter));
    }
    else {
        const auto bits = (unsigned long long)__double_as_longlong(own);
        most = __longlong_as_double((long long)number_above(bits, kShorter));
    }
    if constexpr (!kInBytes) {
        most = length_for_all(plan, own, most);
    }
    if (threadIdx.x == 0) {
        const T length = most > kTiny ? most : kTiny;
        const double scale = kInBytes ? (double)(T(127) / length) : ldexp(1.0, 8 - ilogb(length));
        plan.found->scale = scale;
        plan.found->quantum = (float)(scale * least * (scale * least));
        plan.found->odd = 0;
        plan.found->worst = 0;
        plan.found->centres = 1;
        plan.found->copies = 0;
    }
    for (int i = threadIdx.x; plan.most_centres > 1 && i < kMates; i += kSampleRows) {
        plan.nearest_mates[i] = __float_as_uint(INFINITY);
        plan.first_mates[i] = kMates;
    }
}

/* Four dimensions of a row as they are multiplied, in halves and what these lose. */
struct Moved {
    float square, low_square;
    bool whole, number; /* halves hold it; it is not NaN */
    uint2 halves;

    template <typename T>
    __device__ __forceinline__ Moved(const Four<T> &x, const Four<T> &centre, T scale)
    {
        const float moved[4] = {
            (float)((x.x[0] - centre.x[0]) * scale), (float)((x.x[1] - centre.x[1]) * scale),
            (float)((x.x[2] - centre.x[2]) * scale), (float)((x.x[3] - centre.x[3]) * scale)};
        __half2 high[2];
        square = low_square = 0;
        whole = number = true;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float first = moved[2 * i], second = moved[2 * i + 1];
            high[i] = __floats2half2_rn(first, second);
            const float2 back = __half22float2(high[i]);
            square = fmaf(first, first, fmaf(second, second, square));
            const float low_first = first - back.x, low_second = second - back.y;
            low_square = fmaf(low_first, low_first, fmaf(low_second, low_second, low_square));
            whole = whole && fabsf(first) < kLargest && fabsf(second) < kLargest;
            number = number && first == first && second == second;
        }
        halves = make_uint2(*reinterpret_cast<unsigned *>(&high[0]),
                            *reinterpret_cast<unsigned *>(&high[1]));
    }
};

/* A warp walks along eight rows at once, each lane along every fourth plane of one; so it reads
 * whole sectors and writes eight words that follow each other. Calls f(plane, first, second) with
 * halves of a word. */
constexpr int kRowsOfWarp = 8, kPlanesAtOnce = kLanes / kRowsOfWarp;
__device__ __forceinline__ int row_of_lane() { return (int)threadIdx.x % kRowsOfWarp; }
template <typename T, typename F>
__device__ __forceinline__ void walk_planes(const PlanOf<T> &plan, const Points<T> &x, bool words,
                                            ptrdiff_t row, bool there, int centre, F &&f)
{
    const T scale = (T)plan.found->scale;
    const T *const middle = plan.centres + centre * plan.centre_pitch();
#pragma unroll 4
    for (int plane = (int)threadIdx.x % kLanes / kRowsOfWarp; plane < plan.planes;
         plane += kPlanesAtOnce) {
        Four<T> c[2];
#pragma unroll
        for (int i = 0; i < 8; i += kPerWord<T>) {
            load_word(middle + 8 * plane + i, c[i / 4].x + i % 4);
        }
        const Moved first(there ? load_dims(x, words, row, 8 * plane, plan.d) : c[0], c[0], scale);
        const Moved second(there ? load_dims(x, words, row, 8 * plane + 4, plan.d) : c[1], c[1],
                           scale);
        f(plane, first, second);
    }
}
__device__ __forceinline__ uint4 word_of(const Moved &first, const Moved &second)
{
    return make_uint4(first.halves.x, first.halves.y, second.halves.x, second.halves.y);
}

/* Sums over a row's planes. */
struct Measured {
    float square = 0, low_square = 0;
    bool whole = true, number = true;

    __device__ __forceinline__ void add(const Moved &x)
    {
        square += x.square;
        low_square += x.low_square;
        whole = whole && x.whole;
        number = number && x.number;
    }
    /* All lanes of a row get its sums. */
    __device__ __forceinline__ void join()
    {
#pragma unroll
        for (int step = kRowsOfWarp; step < kLanes; step *= 2) {
            square += __shfl_xor_sync(~0u, square, step);
            low_square += __shfl_xor_sync(~0u, low_square, step);
            whole = whole & __shfl_xor_sync(~0u, whole, step);
            number = number & __shfl_xor_sync(~0u, number, step);
        }
    }
};

/* What belongs to a tile, of the largest squares. */
__device__ __forceinline__ TileFacts facts_of_tile(const Plan &plan, float half_square,
                                                   float low_square, int centre)
{
    return {sqrtf(low_square) * kUp, sqrtf(2 * half_square) * kUp,
            rest_error(plan.d) * 2 * half_square * kUp, centre};
}

/* A column that halves do not hold may be a neighbour all the same, unless it has NaN. */
__device__ __forceinline__ void list_odd(const Plan &plan, ptrdiff_t column)
{
    const unsigned at = atomicAdd(&plan.found->odd, 1);
    if (at < kMostOdd) {
        plan.odd_columns[at] = (int)column;
    }
}

/* The limit of a row within whose radius v - e <= limit lets all through: of half of that squared,
 * less half of the row's own square, in units of v; that is left out where there are several
 * centres, and `square` 0. */
__device__ __forceinline__ float bound_of_radius(const Plan &plan, double radius, float square)
{
    const double scale = plan.found->scale, scaled = radius * scale;
    const double most = plan.metric == GD_EUCLIDEAN ? scaled * scaled : scaled * scale;
    const double limit = 0.5 * (most - square) + rest_error(plan.d) * square;
    return radius >= 0 ? fminf(__double2float_ru(limit), kFar / 2) : -kFar;
}

/* Nothing is found of some rows yet. One thread. */
__device__ __forceinline__ void begin_rows(Found &found)
{
    found.failed = found.left = found.left_long = found.many = found.chunks = found.way = 0;
    for (unsigned &units : found.units) {
        units = 0;
    }
}

/* The image of a row by a centre, and what belongs to it. Where there are several, the error of the
 * row's half square counts beside that of its products. */
template <typename T>
__device__ __forceinline__ void prepare_row(const PlanOf<T> &plan, int place, int row, bool there,
                                            int centre, bool several)
{
    const Plan::ByCentre rows = plan.by_centre(centre);
    uint4 *const image = reinterpret_cast<uint4 *>(rows.images) +
                         (ptrdiff_t)(place / kGroupRows) * plan.planes * kGroupRows +
                         place % kGroupRows;
    Measured of_row;
    walk_planes(plan, plan.a, plan.words_a, row, there, centre,
                [&](int plane, const Moved &first, const Moved &second) {
                    of_row.add(first);
                    of_row.add(second);
                    image[plane * kGroupRows] = word_of(first, second);
                });
    of_row.join();
    const int plane = (int)threadIdx.x % kLanes / kRowsOfWarp;
    for (int i = plane; !of_row.whole && i < plan.planes; i += kPlanesAtOnce) {
        image[i * kGroupRows] = uint4{};
    }
    if (plane != 0) {
        return;
    }
    const bool good = there && of_row.whole;
    /* |ah| is |a| and |al| at most. */
    const float low = sqrtf(of_row.low_square), high = sqrtf(of_row.square) + low;
    const float shift = several ? 0.5f * of_row.square : 0.0f;
    if (good && plan.radii != NULL && centre == 0) {
        plan.bounds[place] =
            bound_of_radius(plan, plan.radius_of(row), several ? 0.0f : of_row.square);
    }
    const float rest = rest_error(plan.d) * of_row.square * kUp;
    rows.facts[place] = {high * kUp, (low + products_error(plan.planes / 2) * high) * kUp,
                         (several ? 2 * rest : rest) + kLeast + plan.found->quantum,
                         good ? shift : -INFINITY};
    if (several) {
        rows.shifts[place] = shift;
        if (!good) {
            atomicOr(&plan.counts[place], kLost);
        }
    }
    else {
        plan.counts[place] = good ? 0 : kLost;
    }
}

/* The images of rows, by every centre: blocks of different parts have different ones. */
constexpr int kRowWarps = 4, kCentreParts = 8;
template <typename T>
__global__ void __launch_bounds__(kRowWarps *kLanes)
    prepare_rows(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    const int blocks = plan.strips * kTileRows / (kRowWarps * kRowsOfWarp);
    const int part = (int)blockIdx.x / blocks;
    const int place =
        ((int)blockIdx.x % blocks * kRowWarps + (int)threadIdx.x / kLanes) * kRowsOfWarp +
        row_of_lane();
    const bool there = place < plan.rows, several = plan.has_several();
    const int centres = several ? (int)plan.found->centres : 1;
    const int row = there ? plan.row_at(place) : 0;
    for (int centre = part; centre < centres; centre += kCentreParts) {
        prepare_row(plan, place, row, there, centre, several);
    }
    if (part == 0 && place == 0 && (int)threadIdx.x % kLanes == 0) {
        begin_rows(*plan.found);
    }
    for (int i = threadIdx.x; several && blockIdx.x == 0 && i < kMostCentres;
         i += kRowWarps * kLanes) { /* for the next rows */
        plan.of_rows.counts[i] = plan.of_rows.taken[i] = 0;
    }
}

}  // namespace filter
}  // namespace gd
#endif
