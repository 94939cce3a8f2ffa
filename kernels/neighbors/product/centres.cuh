/* centres.cuh: several centres, for points in clusters.
 *
 * Idea: the bound of operands.cuh grows with the lengths of rows that are moved by a centre. In
 * clusters far from each other it is wide beside the distances that are to be told apart. So each
 * cluster has a centre of its own. Columns are sorted by the centre that they are near, a tile has
 * one, and each row of A has an image by every centre, with half of its square there, its `shift`:
 * half of a squared distance is v and the shift, whatever the centre. Rows are sorted by their
 * centres as well, so that a strip has few: strips are multiplied with tiles that may be near, and
 * others are passed over, for |b|^2 / 2 - |a| |b| is a lower bound of v.
 *
 * Whether there are clusters, a sample says: its rows' nearest mates are then much nearer than its
 * rows are to each other. Centres are rows of the sample, each the furthest from those before it,
 * and then the means of the rows around them. Any centres are right, and any points may be theirs:
 * they decide how long it takes. All is decided on the device; where there are no clusters the
 * kernels of this file end at once, and the others have one centre.
 *
 * Floor: B is read twice more than its images are written, 0.2 ms for 1,000,000 x 128 on an H100;
 * products are those of a strip with the clusters that it has, a twentieth of all where there
 * are 64. What was reached stands in product_sm90a.cu. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_CENTRES_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_CENTRES_CUH

#include "arch/mma.cuh"
#include "neighbors/product/copies.cuh"
#include "neighbors/product/lists.cuh"
#include "neighbors/product/prepare.cuh"

namespace gd {
namespace filter {

/* ---------------------------------------------------------------- which centres */

constexpr int kMatesAtOnce = 64, kMateThreads = 256;

/* Squared distances between rows of a sample, each one's nearest, and the first at no distance.
 * Rows that halves do not hold are infinitely far away. A block has 64 rows and 64 columns, a
 * thread 4 and 4. */
template <typename T>
__global__ void __launch_bounds__(kMateThreads)
    measure_mates(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    __shared__ __align__(16) float rows[2][GD_FOLD][kMatesAtOnce + 4];
    constexpr int kAcross = kMates / kMatesAtOnce;
    const int first[2] = {(int)blockIdx.x / kAcross * kMatesAtOnce,
                          (int)blockIdx.x % kAcross * kMatesAtOnce};
    const int down = (int)threadIdx.x / 16, across = (int)threadIdx.x % 16;
    const T scale = (T)plan.found->scale;
    /* A thread brings a dimension of some rows, while the ones before are multiplied. */
    constexpr int kRowsAtOnce = kMateThreads / GD_FOLD;
    constexpr int kBrought = 2 * kMatesAtOnce / kRowsAtOnce;
    const int k_brought = (int)threadIdx.x % GD_FOLD, row_brought = (int)threadIdx.x / GD_FOLD;
    T brought[kBrought], centre;
    const auto bring = [&](ptrdiff_t group) {
        const ptrdiff_t dim = min(group + k_brought, plan.d - 1);
        centre = plan.centre[dim];
#pragma unroll
        for (int i = 0; i < kBrought; ++i) {
            const int row = row_brought + i * kRowsAtOnce;
            brought[i] =
                plan.b.at(row_of_mate(plan, first[row / kMatesAtOnce] + row % kMatesAtOnce), dim);
        }
    };
    float sums[4][4] = {};
    bring(0);
    for (ptrdiff_t group = 0; group < plan.d; group += GD_FOLD) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kBrought; ++i) {
            const int row = row_brought + i * kRowsAtOnce;
            const float x =
                group + k_brought < plan.d ? (float)((brought[i] - centre) * scale) : 0.0f;
            rows[row / kMatesAtOnce][k_brought][row % kMatesAtOnce] = fabsf(x) < kLargest ? x : NAN;
        }
        __syncthreads();
        bring(group + GD_FOLD);
#pragma unroll
        for (int k = 0; k < GD_FOLD; ++k) {
            float x[4], y[4];
            load_word(&rows[0][k][4 * down], x);
            load_word(&rows[1][k][4 * across], y);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sums[i][j] = fmaf(x[i] - y[j], x[i] - y[j], sums[i][j]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = first[0] + 4 * down + i;
        float nearest = INFINITY;
        int equal = kMates;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int column = first[1] + 4 * across + j;
            sums[i][j] = sums[i][j] < kFar ? sums[i][j] : INFINITY;
            nearest = column != row ? fminf(nearest, sums[i][j]) : nearest;
            equal = sums[i][j] == 0 ? min(equal, column) : equal;
        }
        store_word(plan.mates + (ptrdiff_t)row * kMates + first[1] + 4 * across, sums[i]);
#pragma unroll
        for (int step = 8; step > 0; step /= 2) {
            nearest = fminf(nearest, __shfl_xor_sync(~0u, nearest, step));
        }
        if (across == 0) {
            atomicMin(plan.nearest_mates + row, __float_as_uint(nearest));
        }
        if (equal < kMates) {
            atomicMin(plan.first_mates + row, equal);
        }
    }
}

/* Where the largest of a block's numbers is, or -1 if all are 0. `turn`: of calls that follow each
 * other, every other one. */
struct Largest {
    unsigned most[2][kLanes];
    int where[2][kLanes];
};
__device__ __forceinline__ int find_largest(Largest &shared, int turn, unsigned x)
{
    const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
    const unsigned of_warp = __reduce_max_sync(~0u, x);
    const int first = __ffs(__ballot_sync(~0u, x == of_warp)) - 1;
    if (lane == first) {
        shared.most[turn][warp] = of_warp;
        shared.where[turn][warp] = (int)threadIdx.x;
    }
    __syncthreads();
    const unsigned mine = shared.most[turn][lane], all = __reduce_max_sync(~0u, mine);
    const int from = __ffs(__ballot_sync(~0u, mine == all)) - 1;
    return all == 0 ? -1 : shared.where[turn][from];
}

/* How many times nearer, squared, a row's nearest mate is than most of the others if there are
 * clusters; within so much of that, squared, rows are of one cluster; and so many rows may have no
 * centre though they have mates. In a cluster that has to share a centre with others, neighbours
 * would be in so few tiles that a guess from some of them fails. */
constexpr float kClustered = 16, kOneCluster = 16;
constexpr int kMostWithout = kMates / 32;
constexpr int kMostAlone = kMates / 8; /* rows without mates, for those to have centres as well */

/* One block, a thread a row of the sample. */
static __global__ void __launch_bounds__(kMates) find_centres(const __grid_constant__ Plan plan)
{
    follow();
    __shared__ Largest largest;
    const int i = threadIdx.x;
    count_copies(plan);
    if (i < kMostCentres) {
        plan.of_columns.counts[i] = plan.of_columns.taken[i] = 0;
        plan.of_rows.counts[i] = plan.of_rows.taken[i] = 0;
        plan.reaches[i] = INFINITY;
        plan.spans[i] = 0;
    }
    const float near = __uint_as_float(plan.nearest_mates[i]);
    const float between = plan.mates[(ptrdiff_t)i * kMates + (i + kMates / 2) % kMates];
    const float nearest = __uint_as_float(number_above(__float_as_uint(near), kMates / 2));
    const float most = __uint_as_float(number_above(__float_as_uint(between), kMates / 4 * 3));
    if (!(kClustered * nearest <= most && most > 0 && most < kFar)) {
        return;
    }
    const float apart = fminf(kOneCluster * nearest, most / 4);
    const bool has_mates = near <= apart, is_alone = !has_mates && near < kFar;
    const bool few_alone = __syncthreads_count(is_alone) <= kMostAlone;
    float away = INFINITY;
    int own = -1, count = 0;
    bool alone = false; /* those that are have a centre after the others, if they are few */
    for (int turn = 0; count < plan.most_centres; turn ^= 1) {
        const bool may = (has_mates || (alone && is_alone)) && away > apart;
        const int next = find_largest(largest, turn, may ? __float_as_uint(away) : 0u);
        if (next < 0) {
            if (alone || !few_alone) {
                break;
            }
            alone = true;
            continue;
        }
        const float x = plan.mates[(ptrdiff_t)next * kMates + i];
        if (x < away) {
            away = x;
            own = count;
        }
        ++count;
    }
    plan.centre_of_mate[i] = away <= apart ? own : -1;
    const bool are_many = __syncthreads_count(has_mates && away > apart) > kMostWithout;
    if (i == 0 && count > 1 && !are_many) {
        plan.found->centres = (unsigned)count;
    }
}

/* A block a centre: the mean of its rows of the sample, and its image beside the others. Blocks
 * beyond those of centres make room for those who look for copies of rows. */
constexpr int kCentreThreads = 128;
template <typename T>
__global__ void __launch_bounds__(kCentreThreads)
    place_centres(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    __shared__ int mates[kMates], count;
    __shared__ float squares[kCentreThreads / kLanes];
    const int own = (int)blockIdx.x, thread = (int)threadIdx.x, lane = thread % kLanes;
    if (own >= plan.most_centres) {
        empty_slots(plan, plan.b.count, own - plan.most_centres,
                    (int)gridDim.x - plan.most_centres);
        return;
    }
    if (!plan.has_several() || own >= (int)plan.found->centres) {
        return;
    }
    if (thread < kLanes) {
        int found = 0;
        for (int first = 0; first < kMates; first += kLanes) {
            const bool mine = plan.centre_of_mate[first + lane] == own;
            const unsigned some = __ballot_sync(~0u, mine);
            if (mine) {
                mates[found + __popc(some & ((1u << lane) - 1))] = first + lane;
            }
            found += __popc(some);
        }
        count = found;
    }
    __syncthreads();
    float square = 0;
    for (int dim = thread; dim < plan.planes * 8; dim += kCentreThreads) {
        T sum = 0;
        for (int i = 0; i < count && dim < plan.d; ++i) {
            sum += plan.b.at(row_of_mate(plan, mates[i]), dim);
        }
        const T mean = count == 0 ? T(0) : sum / (T)count;
        plan.centres[own * plan.centre_pitch() + dim] = mean;
        const float moved = (float)((mean - plan.centre[dim]) * (T)plan.found->scale);
        plan.centre_images[own * plan.centre_image_pitch() + dim] = __float2half(moved);
        square += moved * moved;
    }
    square = sum_lanes(square);
    if (lane == 0) {
        squares[thread / kLanes] = square;
    }
    __syncthreads();
    if (thread == 0) {
        plan.centre_squares[own] = 0.5f * (squares[0] + squares[1] + squares[2] + squares[3]);
    }
}

/* ---------------------------------------------------------------- whose centre is which */

constexpr int kMemberThreads = 256, kMemberRows = 16; /* points that a warp looks at at once */
/* Threads of a block of find_members: of long rows centres leave room for one of a multiprocessor.
 */
template <int kSteps>
constexpr int kFindingThreads = kSteps == 0 ? 512 : 256;

/* What a block has in shared memory; the centres' images follow. */
struct alignas(16) Finding {
    float squares[kMostCentres];
    unsigned counts[kMostCentres];

    __device__ __forceinline__ __half *images() { return reinterpret_cast<__half *>(this + 1); }
};
inline size_t finding_bytes(const Plan &plan)
{
    return sizeof(Finding) + (size_t)whole_centres(plan.most_centres) *
                                 (size_t)plan.centre_image_pitch() * sizeof(__half);
}

/* Brings the images and squares of the centres, `whole` of them with what stands behind the last,
 * and begins to count. */
template <typename T>
__device__ __forceinline__ void take_centres(Finding &shared, const PlanOf<T> &plan, int whole)
{
    const int words = plan.centre_image_pitch() / 8;
    for (int i = (int)threadIdx.x; i < whole * words; i += (int)blockDim.x) {
        reinterpret_cast<uint4 *>(shared.images())[i] =
            reinterpret_cast<const uint4 *>(plan.centre_images)[i];
    }
    for (int i = (int)threadIdx.x; i < whole; i += (int)blockDim.x) {
        shared.squares[i] = plan.centre_squares[i];
        shared.counts[i] = 0;
    }
}

/* Keeps the nearest of the centres from `from` on for two points, whose products with them are
 * here: how near it is, with its number in the last bits. */
__device__ __forceinline__ void keep_nearest(unsigned (&best)[2],
                                             const float (&products)[kCentresAtOnce / 8][4],
                                             const Finding &shared, int from, int centres, int t)
{
#pragma unroll
    for (int n = 0; n < kCentresAtOnce / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned centre = from + n * 8 + 2 * t + i % 2;
            const unsigned near = ordered(products[n][i] - shared.squares[centre]);
            if (centre < (unsigned)centres) { /* what stands behind them is not known */
                best[i / 2] = max(best[i / 2], (near & ~(kMostCentres - 1u)) | centre);
            }
        }
    }
}

/* Joins what four lanes have kept for two points, rows g and g + 8 from `first` on, and notes and
 * counts their centres. */
template <typename T>
__device__ __forceinline__ void note_nearest(const Members &members, Finding &shared,
                                             unsigned (&best)[2], const Points<T> &points,
                                             ptrdiff_t first, int centres, int g, int t)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        best[r] = max(best[r], __shfl_xor_sync(~0u, best[r], 1));
        best[r] = max(best[r], __shfl_xor_sync(~0u, best[r], 2));
        const int centre = min((int)(best[r] % kMostCentres), centres - 1);
        if (t == 0 && first + g + 8 * r < points.count) {
            members.nearest[first + g + 8 * r] = (unsigned char)centre;
            atomicAdd(&shared.counts[centre], 1);
        }
    }
}

/* Brings some steps of two points, moved and in halves, as products take them. */
template <int kHeld, typename T>
__device__ __forceinline__ void bring_steps(unsigned (&a)[kHeld][4], const PlanOf<T> &plan,
                                            const Points<T> &points, bool words,
                                            const ptrdiff_t (&row)[2], int from, int t)
{
    constexpr int kAtOnce = kHeld * (int)sizeof(T) <= 16 ? kHeld : 16 / (int)sizeof(T);
    const T scale = (T)plan.found->scale;
#pragma unroll
    for (int step = 0; step < kHeld; step += kAtOnce) {
        Four<T> x[kAtOnce][2];
#pragma unroll
        for (int s = 0; s < kAtOnce; ++s) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                x[s][r] =
                    load_dims(points, words, row[r], (from + step + s) * kStepDims + 4 * t, plan.d);
            }
        }
#pragma unroll
        for (int s = 0; s < kAtOnce; ++s) {
            Four<T> c;
#pragma unroll
            for (int i = 0; i < 4; i += kPerWord<T>) {
                load_word(plan.centre + (from + step + s) * kStepDims + 4 * t + i, c.x + i);
            }
            /* Dimensions of a step in any order, if it is the same for both. */
            const Moved one(x[s][0], c, scale), other(x[s][1], c, scale);
            a[step + s][0] = one.halves.x, a[step + s][1] = other.halves.x;
            a[step + s][2] = one.halves.y, a[step + s][3] = other.halves.y;
        }
    }
}

/* Multiplies some steps of two points with 64 centres, whose images begin with that step. */
template <int kHeld>
__device__ __forceinline__ void multiply_centres(float (&acc)[kCentresAtOnce / 8][4],
                                                 const unsigned (&a)[kHeld][4],
                                                 const __half *images, int pitch, int g, int t)
{
#pragma unroll
    for (int step = 0; step < kHeld; ++step) {
#pragma unroll
        for (int n = 0; n < kCentresAtOnce / 8; ++n) {
            const uint2 b = *reinterpret_cast<const uint2 *>(images + (n * 8 + g) * pitch +
                                                             step * kStepDims + 4 * t);
            const unsigned of_centre[2] = {b.x, b.y};
            multiply_add(acc[n], a[step], of_centre);
        }
    }
}

/* Finds the centre that points of A or B are near, by products of halves with 64 centres at a time,
 * and counts those of each centre. Long rows, of which kSteps is 0, are brought again for each 64
 * of them, some steps at a time. */
template <int kSteps, bool kOfRows, typename T>
__global__ void __launch_bounds__(kFindingThreads<kSteps>,
                                  kSteps != 0 && sizeof(T) == sizeof(float) ? 2 : 1)
    find_members(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    constexpr int kThreads = kFindingThreads<kSteps>, kHeld = kSteps == 0 ? 4 : kSteps;
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<Finding *>(memory);
    if (!plan.has_several()) {
        return;
    }
    const Points<T> &points = kOfRows ? plan.a : plan.b;
    const bool words = kOfRows ? plan.words_a : plan.words_b;
    const Members &members = kOfRows ? plan.of_rows : plan.of_columns;
    const int thread = (int)threadIdx.x, lane = thread % kLanes, g = lane / 4, t = lane % 4;
    const int centres = (int)plan.found->centres, whole = whole_centres(centres);
    const int pitch = kSteps != 0 ? pitch_of_centre(kStepDims * kSteps) : plan.centre_image_pitch();
    take_centres(shared, plan, whole);
    if (kOfRows) {
        for (int i = (int)blockIdx.x * kThreads + thread; i < plan.strips * kTileRows;
             i += (int)gridDim.x * kThreads) {
            plan.counts[i] = 0;
        }
    }
    __syncthreads();
    constexpr ptrdiff_t kWarpsOfBlock = kThreads / kLanes;
    for (ptrdiff_t first = (blockIdx.x * kWarpsOfBlock + thread / kLanes) * kMemberRows;
         first < points.count; first += gridDim.x * kWarpsOfBlock * kMemberRows) {
        const ptrdiff_t row[2] = {points.clamp(first + g), points.clamp(first + g + 8)};
        unsigned a[kHeld][4], best[2] = {};
        if constexpr (kSteps != 0) {
            bring_steps(a, plan, points, words, row, 0, t);
        }
#pragma unroll 1
        for (int from = 0; from < whole; from += kCentresAtOnce) {
            float acc[kCentresAtOnce / 8][4] = {};
            const __half *const images = shared.images() + from * pitch;
            if constexpr (kSteps != 0) {
                multiply_centres(acc, a, images, pitch, g, t);
            }
            else {
#pragma unroll 1
                for (int step = 0; 2 * step < plan.planes; step += kHeld) {
                    bring_steps(a, plan, points, words, row, step, t);
                    multiply_centres(acc, a, images + step * kStepDims, pitch, g, t);
                }
            }
            keep_nearest(best, acc, shared, from, centres, t);
        }
        note_nearest(members, shared, best, points, first, centres, g, t);
    }
    __syncthreads();
    for (int i = thread; i < centres; i += kThreads) {
        if (shared.counts[i] > 0) {
            atomicAdd(&members.counts[i], shared.counts[i]);
        }
    }
}

/* Puts points in the order of their centres, 2048 of them a block. */
constexpr int kPlacedOfThread = 8, kPlaced = kPlacedOfThread * kMemberThreads;
static __global__ void __launch_bounds__(kMemberThreads)
    place_members(const __grid_constant__ Plan plan, const __grid_constant__ Members members,
                  int points)
{
    follow();
    __shared__ int starts[kMostCentres + 1], bases[kMostCentres];
    __shared__ unsigned counts[kMostCentres];
    if (!plan.has_several()) {
        return;
    }
    const int centres = (int)plan.found->centres, thread = (int)threadIdx.x;
    if (thread < kLanes) {
        int before = 0;
        for (int first = 0; first < kMostCentres; first += kLanes) {
            const int centre = first + thread;
            const int own = centre < centres ? ((int)members.counts[centre] + members.whole - 1) /
                                                   members.whole * members.whole
                                             : 0;
            int sum = own;
#pragma unroll
            for (int step = 1; step < kLanes; step *= 2) {
                const int other = __shfl_up_sync(~0u, sum, step);
                sum += thread >= step ? other : 0;
            }
            starts[centre] = before + sum - own;
            before += __shfl_sync(~0u, sum, kLanes - 1);
        }
        starts[kMostCentres] = before;
    }
    if (thread < kMostCentres) {
        counts[thread] = 0;
    }
    __syncthreads();
    const int first = (int)blockIdx.x * kPlaced + thread;
    int centre[kPlacedOfThread], at[kPlacedOfThread];
#pragma unroll
    for (int i = 0; i < kPlacedOfThread; ++i) {
        const int point = first + i * kMemberThreads;
        centre[i] = point < points ? members.nearest[point] : -1;
    }
#pragma unroll
    for (int i = 0; i < kPlacedOfThread; ++i) {
        at[i] = centre[i] >= 0 ? (int)atomicAdd(&counts[centre[i]], 1) : 0;
    }
    __syncthreads();
    if (thread < kMostCentres && counts[thread] > 0) {
        bases[thread] = starts[thread] + (int)atomicAdd(&members.taken[thread], counts[thread]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPlacedOfThread; ++i) {
        if (centre[i] >= 0) {
            members.order[bases[centre[i]] + at[i]] = first + i * kMemberThreads;
        }
    }
    for (int own = (int)blockIdx.x; own < centres; own += (int)gridDim.x) {
        for (int i = starts[own] + (int)members.counts[own] + thread; i < starts[own + 1];
             i += kMemberThreads) {
            members.order[i] = -1;
        }
    }
    for (int i = thread; blockIdx.x == 0 && i <= kMostCentres; i += kMemberThreads) {
        members.starts[i] = starts[i];
    }
}

/* ---------------------------------------------------------------- which tiles */

/* Lists all sampled tiles for a strip, with the images of copies, if there are any. */
__device__ __forceinline__ void list_whole_sample(const Plan &plan, int strip)
{
    const int first = (int)threadIdx.x * kSampledAtOnce;
    if (plan.has_copies() && first < plan.sampled) {
        plan.units[0][atomicAdd(&plan.found->units[0], 1)] = {
            strip,
            0,
            first,
            min(first + kSampledAtOnce, plan.sampled),
            (int)(plan.first_sampled / kTileCols) + first,
            1};
    }
}

/* A block a strip. */
static __global__ void __launch_bounds__(kTileRows) list_samples(const __grid_constant__ Plan plan)
{
    follow();
    __shared__ bool own[kMostCentres];
    const int strip = (int)blockIdx.x, thread = (int)threadIdx.x;
    if (!plan.has_several()) {
        list_whole_sample(plan, strip);
        return;
    }
    const int centres = (int)plan.found->centres, place = strip * kTileRows + thread;
    if (thread < kMostCentres) {
        own[thread] = false;
    }
    __syncthreads();
    if (place < plan.rows) {
        own[plan.of_rows.nearest[plan.of_rows.order[place]]] = true;
    }
    __syncthreads();
    if (thread >= kLanes) {
        return;
    }
    int owned = 0;
    for (int first = 0; first < kMostCentres; first += kLanes) {
        owned += __popc(__ballot_sync(~0u, own[first + thread]));
    }
    const int most = most_of_own(plan, owned), other = stride_of_others(plan);
    int slots = 0;
    for (int first = 0; first < kMostCentres; first += kLanes) {
        const int centre = first + thread;
        const int tiles = centre < centres ? tiles_of_centre(plan, centre) : 0;
        const int start = plan.of_columns.starts[centre] / kTileCols;
        const int apart = own[centre] ? stride_of(plan, tiles, most) : other;
        const int before_first = own[centre] ? 0 : (apart - start % apart) % apart;
        const bool is_sampled = own[centre] || !plan.samples_finely();
        int count = is_sampled ? max((tiles - before_first + apart - 1) / apart, 0) : 0;
        int sum = count;
#pragma unroll
        for (int step = 1; step < kLanes; step *= 2) {
            const int before = __shfl_up_sync(~0u, sum, step);
            sum += thread >= step ? before : 0;
        }
        const int from = slots + sum - count;
        slots += __shfl_sync(~0u, sum, kLanes - 1);
        count = min(count, kMostSlots - from);
        plan.first_slots[strip * kMostCentres + centre] = from;
        for (int i = 0; i < count; i += kSampledAtOnce) {
            plan.units[0][atomicAdd(&plan.found->units[0], 1)] = {
                strip,
                centre,
                from + i,
                from + min(i + kSampledAtOnce, count),
                start + before_first + i * apart,
                apart};
        }
    }
    if (thread == 0) {
        plan.slots[strip] = min(slots, kMostSlots);
        plan.most_own[strip] = most;
    }
}

/* Lists the tiles that a strip has to be multiplied with: first, those of the first half of a
 * centre's columns, or of all if they are few; then, with limits that are tighter, of the others;
 * for a check, all. A warp a strip and tiles that were sorted together. */
constexpr int kUnitThreads = 256, kFewColumns = 8192;
static __global__ void __launch_bounds__(kUnitThreads)
    list_units(const __grid_constant__ Plan plan, Part part)
{
    follow();
    if (!plan.has_several()) {
        return;
    }
    const int lane = (int)threadIdx.x % kLanes;
    const int together = plan.sorted_tiles * kTileCols;
    const bool has_copies = plan.has_copies();
    const int blocks = plan.of_columns.starts[plan.found->centres] / together;
    constexpr int kWarpsOfBlock = kUnitThreads / kLanes;
    for (int item = (int)blockIdx.x * kWarpsOfBlock + (int)threadIdx.x / kLanes;
         item < blocks * plan.strips; item += (int)gridDim.x * kWarpsOfBlock) {
        const int strip = item % plan.strips, block = item / plan.strips;
        const int tile = block * plan.sorted_tiles, centre = plan.tile_facts[tile].centre;
        const int columns = (int)plan.of_columns.counts[centre];
        const int before = tile * kTileCols - plan.of_columns.starts[centre];
        const bool first = plan.tightens && (columns <= kFewColumns || 2 * before < columns);
        if (part != Part::kAll && first != (part == Part::kFirst)) {
            continue;
        }
        int tiles = min(plan.sorted_tiles, every_nth(columns - before, kTileCols));
        while (tiles > 0 && has_copies &&
               plan.column_of[(ptrdiff_t)(tile + tiles - 1) * kTileCols] < 0) {
            --tiles; /* copies have no images */
        }
        if (tiles == 0) {
            continue;
        }
        TileFacts all = {};
        for (int i = 0; i < tiles; ++i) {
            const TileFacts one = plan.tile_facts[tile + i];
            all.low = fmaxf(all.low, one.low);
            all.norm = fmaxf(all.norm, one.norm);
            all.rest = fmaxf(all.rest, one.rest);
        }
        const RowFacts *const rows = plan.by_centre(centre).facts + strip * kTileRows;
        bool near = part == Part::kAll;
        for (int i = lane; i < kTileRows; i += kLanes) {
            const RowFacts row = rows[i];
            const float limit = row.limit + bound(row, all);
            const float least = (0.5f * all.norm - row.high) * all.norm;
            near = near || (row.limit > -INFINITY && (all.norm >= row.high || least <= limit));
        }
        if (__any_sync(~0u, near) && lane == 0) {
            const unsigned at = atomicAdd(&plan.found->units[(int)part], 1);
            plan.units[list_of(part)][at] = {strip, centre, tile, tile + tiles, tile, 1};
        }
    }
}

}  // namespace filter
}  // namespace gd
#endif
