/* centre.cuh: where the rows move before norms and products are taken of them, and whether
 * that helps at all: both found from a sample of B's rows.
 *
 * Distances do not change when all rows move together, but norms do: near 0 they are small, and
 * less of d^2 = |a|^2 + |b|^2 - 2ab cancels. Any centre is right, but it should be where most rows
 * are: so of the sample the row is taken that has the least sum of distances to the others, which
 * up to half of them being elsewhere does not lead astray, and the centre is the mean of those
 * nearer to it than 1.5 times half of them are. It is kept in two numbers: rows that differ in
 * their last bits have a middle between these.
 *
 * Unit rows, which have no outliers, are scattered more often than they are near each other. Then
 * they do not move at all: rows on the other side would get up to twice as long, which the errors
 * of their products, that of a cosine being absolute, become four times as large by.
 *
 * The sample also tells how many of its pairs would be suspect. Where they are so many that
 * suspects cost more than tensor cores gain, everything is computed in direct form.
 *
 * All depends on the whole of B alone, and is added up in an order that depends on nothing else: so
 * a row's results depend neither on other rows of A nor on the part of B that a call computes.
 *
 * These two steps stand before all others, so what counts is how long they take, whatever d is:
 * loads that need nothing are under way from the start, and warps find out for themselves what they
 * would otherwise wait for each other to know. Reached on an H200, with the launch and from cold
 * memory: 8.5 us at d = 64, 10 at d = 512. */
#ifndef GPUDIST_CDIST_PRODUCT_CENTRE_CUH
#define GPUDIST_CDIST_PRODUCT_CENTRE_CUH

#include "cdist/product/recompute/suspects.cuh"

namespace gd {
namespace product_form {

/* Rows of the sample. The first kMiddle of them may be the one in the middle. */
constexpr int kSample = GD_SAMPLE, kMiddle = GD_SAMPLE_MIDDLE, kLaneRows = kSample / kMiddle;
constexpr int kMeasureThreads = 1024;
constexpr int kCentreDims = 32, kCentreWarps = 16, kCentreRows = kSample / kCentreWarps;

template <typename T>
struct alignas(2 * sizeof(T)) Shift {
    T high, low;

    /* The difference to `high` is exact for rows near the centre. */
    __device__ __forceinline__ T move(T x) const { return (x - high) - low; }
};

/* Which results are suspect: those with d^2 < share * N, N being both rows' norms, or with N - d^2,
 * twice a product, above `product`, and all of rows whose norm is neither 0 nor from `least` to
 * `most`. spread: what the mean of d^2 may be at most for rows to move; infinity where they always
 * do, else rows are of length sqrt(1/2). */
struct Bounds {
    double share, least, most;
    double product = __builtin_huge_val(), spread = __builtin_huge_val();
};

/* Distances within the sample. Always float64: what overflows there overflows in results, too. */
struct Sample {
    double distances[kMiddle][kSample];
};

__device__ __forceinline__ int sample_size(ptrdiff_t count)
{
    return (int)min(count, (ptrdiff_t)kSample);
}

/* Adds up over a warp; every lane gets the sum. */
__device__ __forceinline__ double add_lanes(double x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        x += __shfl_xor_sync(~0u, x, step);
    }
    return x;
}

/* A block measures from one row to a quarter of the sample, each warp to one row. */
template <typename T>
__global__ void __launch_bounds__(kMeasureThreads)
    measure(const __grid_constant__ Points<T> whole_b, ptrdiff_t d, const double *weights,
            Sample *sample)
{
    static_assert(kMeasureThreads / 32 * kLaneRows == kSample, "a row a warp");
    follow();
    const int from = (int)blockIdx.x / kLaneRows, lane = threadIdx.x % 32;
    const int to = (int)blockIdx.x % kLaneRows * 32 + (int)threadIdx.x / 32;
    const ptrdiff_t from_row = gd_sample_row(whole_b.count, from);
    const ptrdiff_t to_row = gd_sample_row(whole_b.count, to);
    double sum = 0;
#pragma unroll 8
    for (ptrdiff_t k = lane; k < d; k += 32) {
        const double t = (double)whole_b.at(from_row, k) - (double)whole_b.at(to_row, k);
        sum = gd_add_product(sum, weights ? t * __ldg(weights + k) : t, t);
    }
    sum = add_lanes(sum);
    if (lane == 0) {
        /* NaN, too, becomes infinity. */
        sample->distances[from][to] = sum <= 0x1p1023 ? sqrt(sum) : __builtin_huge_val();
    }
}

/* The choice that a warp made of the sample. Its rows are 0 to kSample, 32 i + lane for i below
 * kLaneRows. */
struct Choice {
    int middle;
    bool moves;
    unsigned near[kLaneRows]; /* a bit a row: whether it is near the middle */

    __device__ __forceinline__ bool is_near(int row) const
    {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < kLaneRows; ++i) {
            bits = row / 32 == i ? near[i] : bits;
        }
        return bits >> row % 32 & 1;
    }
    __device__ __forceinline__ int count() const
    {
        int sum = 0;
#pragma unroll
        for (int i = 0; i < kLaneRows; ++i) {
            sum += __popc(near[i]);
        }
        return sum;
    }
};

/* The sample in shared memory, and of each row that may be the middle: how many rows are infinitely
 * far away, as all are from rows with NaN or infinity, and the sums of the other distances and of
 * their squares. */
struct Known {
    double distances[kMiddle][kSample];
    double sums[kMiddle], squares[kMiddle];
    int distant[kMiddle];
};

/* Brings the sample to shared memory, each warp two rows, and adds these up. */
__device__ __forceinline__ void sum_distances(const Sample *sample, int rows, Known &known)
{
    constexpr int kOwn = kMiddle / kCentreWarps;
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kOwn;
    double distances[kOwn][kLaneRows];
#pragma unroll
    for (int i = 0; i < kOwn * kLaneRows; ++i) {
        distances[i / kLaneRows][i % kLaneRows] =
            sample->distances[first + i / kLaneRows][i % kLaneRows * 32 + lane];
    }
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
        double sum = 0, squares = 0;
        unsigned distant = 0;
#pragma unroll
        for (int i = 0; i < kLaneRows; ++i) {
            const double x = distances[r][i];
            const bool there = i * 32 + lane < rows, finite = x < __builtin_huge_val();
            known.distances[first + r][i * 32 + lane] = x;
            sum += there && finite ? x : 0.0;
            squares += there && finite ? x * x : 0.0;
            distant += there && !finite;
        }
        sum = add_lanes(sum);
        squares = add_lanes(squares);
        distant = sum_of_warp(distant);
        if (lane == 0) {
            known.sums[first + r] = sum;
            known.squares[first + r] = squares;
            known.distant[first + r] = (int)distant;
        }
    }
}

/* Finds the row in the middle, which rows are near it, and whether rows move there. Doubles that
 * are not negative are in the order of their upper halves, which is good enough to choose by. */
__device__ __forceinline__ Choice choose(const Known &known, int rows, double spread)
{
    const int lane = threadIdx.x % 32, candidates = min(rows, kMiddle);
    const unsigned distant = lane < candidates ? (unsigned)known.distant[lane] : ~0u;
    const bool least = distant == least_of_warp(distant);
    const unsigned key = least ? (unsigned)__double2hiint(known.sums[lane]) : ~0u;
    const unsigned least_key = least_of_warp(key);
    Choice choice;
    choice.middle = __ffs((int)__ballot_sync(~0u, least && key == least_key)) - 1;
    const double *const distances = known.distances[choice.middle];
    /* Half of the candidates are nearer than this. */
    const double own = distances[lane];
    int nearer = 0;
    for (int i = 0; i < candidates; ++i) {
        const double other = distances[i];
        nearer += other < own || (other == own && i < lane);
    }
    const double squares = add_lanes(lane < candidates ? known.squares[lane] : 0.0);
    const unsigned finite = sum_of_warp(lane < candidates ? rows - distant : 0u);
    choice.moves = squares <= spread * (double)finite;
    const unsigned half = __ballot_sync(~0u, lane < candidates && nearer == candidates / 2);
    const double cut = 1.5 * distances[__ffs((int)half) - 1];
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) {
        choice.near[i] =
            __ballot_sync(~0u, i * 32 + lane < rows && distances[i * 32 + lane] <= cut);
    }
    return choice;
}

/* The share of the candidates' pairs that would be suspect. A norm is |x - mean|^2 = the mean of
 * |x - y|^2 over the rows y near the middle, less half the mean of that. */
__device__ __forceinline__ double share_of_suspects(const Known &known, const Choice &choice,
                                                    int rows, const Bounds &bounds)
{
    __shared__ double norms[kMiddle];
    __shared__ unsigned suspected;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = choice.count();
    const int candidates = min(rows, kMiddle);
    for (int i = warp; i < kMiddle; i += kCentreWarps) {
        double sum = 0;
#pragma unroll
        for (int p = 0; p < kLaneRows; ++p) {
            const double x = known.distances[i][p * 32 + lane];
            sum += choice.near[p] >> lane & 1 ? x * x : 0.0;
        }
        sum = add_lanes(sum);
        if (lane == 0) {
            norms[i] = sum / count;
            suspected = 0;
        }
    }
    __syncthreads();
    const double half = add_lanes(choice.near[0] >> lane & 1 ? norms[lane] : 0.0) /
                        max(__popc(choice.near[0]), 1) / 2;
    const double other = choice.moves                         ? fmax(norms[lane] - half, 0.0)
                         : norms[lane] < __builtin_huge_val() ? 0.5
                                                              : norms[lane];
    const bool usual = other == 0 || (other >= bounds.least && other <= bounds.most);
    for (int i = warp; i < candidates; i += kCentreWarps) {
        const double both = __shfl_sync(~0u, other, i) + other;
        const double square = known.distances[i][lane] * known.distances[i][lane];
        const bool safe = __shfl_sync(~0u, (int)usual, i) && usual &&
                          square >= bounds.share * both && both - square <= bounds.product;
        const unsigned pairs = __ballot_sync(~0u, lane < i && !safe);
        if (lane == 0) {
            atomicAdd(&suspected, (unsigned)__popc(pairs));
        }
    }
    __syncthreads();
    return candidates < 2 ? 0.0 : suspected / (0.5 * candidates * (candidates - 1));
}

/* Adds in two numbers: x + y = sum + the rest, exactly. */
template <typename T>
__device__ __forceinline__ Shift<T> split_sum(double x, double y)
{
    const double sum = x + y, taken = sum - x;
    const double rest = (x - (sum - taken)) + (y - taken);
    const T high = (T)sum;
    return {high, (T)((sum - (double)high) + rest)};
}

/* A block finds the centre in 32 dimensions, a lane one of them and a warp 8 rows; the last block,
 * whether direct form is better. */
template <typename T>
__global__ void __launch_bounds__(kCentreWarps * 32)
    find_centre(const __grid_constant__ Points<T> whole_b, ptrdiff_t d, const Sample *sample,
                const __grid_constant__ Bounds bounds, double limit,
                const __grid_constant__ Weights<T> weights, Shift<T> *shift, unsigned *all_direct)
{
    __shared__ Known known;
    __shared__ double sums[kCentreWarps][kCentreDims];
    const int rows = sample_size(whole_b.count), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool judges = blockIdx.x == gridDim.x - 1;
    const ptrdiff_t k = judges ? 0 : min((ptrdiff_t)blockIdx.x * kCentreDims + lane, d - 1);
    /* What does not depend on the step before. */
    double own[kCentreRows];
#pragma unroll
    for (int i = 0; i < kCentreRows; ++i) {
        const double x = whole_b.at(gd_sample_row(whole_b.count, i * kCentreWarps + warp), k);
        own[i] = isfinite(x) ? x : 0.0;
    }
    follow<true>();
    sum_distances(sample, rows, known);
    __syncthreads();
    const Choice choice = choose(known, rows, bounds.spread);
    if (judges) {
        const double suspected = share_of_suspects(known, choice, rows, bounds);
        if (threadIdx.x == 0) {
            *all_direct = suspected >= limit;
        }
        return;
    }
    const double x = whole_b.at(gd_sample_row(whole_b.count, choice.middle), k);
    const double middle = isfinite(x) ? x : 0.0;
    double sum = 0;
#pragma unroll
    for (int i = 0; i < kCentreRows; ++i) {
        const double difference = own[i] - middle;
        sum += choice.is_near(i * kCentreWarps + warp) && isfinite(difference) ? difference : 0.0;
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && (ptrdiff_t)blockIdx.x * kCentreDims + lane < d) {
        for (int i = 1; i < kCentreWarps; ++i) {
            sum += sums[i][lane];
        }
        shift[k] = choice.moves ? split_sum<T>(middle, sum / choice.count()) : Shift<T>{};
        if (weights.roots) {
            weights.write_root(k);
        }
    }
}

/* From this share of suspect elements on direct form is quicker, as measured on an H200: suspects
 * in clusters cost so much more than the elements themselves that at d = 32 a few per cent decide,
 * and from d = 128 on products hardly cost anything beside differences. */
template <typename T>
double direct_from(ptrdiff_t d)
{
    const double share =
        sizeof(T) == sizeof(float) ? 0.9 - 28.0 / (double)d : 0.75 - 16.0 / (double)d;
    return share < 0.03 ? 0.03 : share;
}

}  // namespace product_form
}  // namespace gd
#endif
