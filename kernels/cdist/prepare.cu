/* prepare.cu: what is done to rows before a kernel of cdist runs, and after it for pdist.
 *
 * Idea: a warp a row. Its lanes go through the row side by side, each adding up every 32nd element
 * in float64, and the 32 sums meet in a butterfly: so a row's bits depend on that row and its
 * length alone. A row is looked at two to five times; if it is not long, and has no weights, each
 * lane keeps its elements in registers, else they come from the cache. Rows times a factor are a
 * matrix product instead, on FP64 tensor cores.
 *
 * Cost: 16384 rows of 128 float32 are 8 MB read and written, 4 us of the H200's memory. They take 9
 * us to be made unit, 13 if they are centred as well (17 and 23 when every look was at the cache),
 * rows of 512 25 and 40. Held rows of 512 that are centred, or rows of 1024, need too many
 * registers: no gain. 16384 rows times a 128 x 128 factor are 0.27e9 multiply-adds of float64, of
 * which its zeros spare a quarter, and as many for the size of what is added up: 12 us at 33e12 a
 * second. They take 24 in float32 and 27 in float64, d = 32 6 and 7, d = 256 70 and 79, one operand
 * after the other; without tensor cores and with zeros it was 57 and 62, 10 and 11, 213 and 223.
 * The bits of 1,000,000 rows of 1024 truths, 1 GB, take an H100 0.43 ms, in votes 1.33.
 * Condensing reads and writes half of the result: 0.25 ms for 16384 x 16384 float32 at 4.27 TB/s.
 *
 * Launch: 256 threads. The eight warps of a block have neighbouring rows, so that they share cache
 * lines where it is the columns that lie close together. Rows times a factor are made by blocks of
 * 128 threads, whose sums leave room for two of a multiprocessor. */
#include <math.h>

#include "arch/dependent.cuh"
#include "arch/mma.cuh"
#include "cdist/matrices.cuh"

namespace {

constexpr int kThreads = 256, kLanes = 32, kWarps = kThreads / kLanes;
constexpr unsigned kAll = ~0u;
constexpr const char *kPrepareId = "preparing rows on the device";
constexpr const char *kCondenseId = "condensing distances on the device";
constexpr double kInfinity = HUGE_VAL, kLargest = 0x1.fffffffffffffp+1023;

/* A gd_prepare as its kernels see it, but for the rows themselves; S is the type of the prepared
 * ones. */
template <typename S>
struct Job {
    ptrdiff_t d;
    S *to;
    ptrdiff_t to_cols, to_stride;
    double *terms;
    const double *weights;
};

/* ---------------------------------------------------------------- a warp and its row */

/* Every lane gets the same: the two operands of a step are exchanged between lanes, and combining
 * them must not depend on their order. */
template <int kOver = kLanes, typename F>
__device__ __forceinline__ double combine(double x, F both)
{
#pragma unroll
    for (int step = kOver / 2; step > 0; step /= 2) {
        x = both(x, __shfl_xor_sync(kAll, x, step));
    }
    return x;
}

/* A lane's share of a row, every 32nd element. kHeld: as many as it keeps in registers, so that a
 * row of up to 32 times as many is read once; 0: any number, each read when it is needed, and 0
 * where its column has no weight, lest a scale that is others' makes it infinite. NaN and infinity
 * are NaN there. */
template <typename T, int kHeld>
struct Row {
    const gd::Points<T> &x;
    ptrdiff_t row, d;
    unsigned lane;
    const double *weights; /* NULL: none, as for rows that are held */
    T held[kHeld > 0 ? kHeld : 1];

    __device__ __forceinline__ Row(const gd::Points<T> &x_, ptrdiff_t row_, ptrdiff_t d_,
                                   unsigned lane_, const double *weights_)
        : x(x_), row(row_), d(d_), lane(lane_), weights(weights_)
    {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            const ptrdiff_t k = i * kLanes + lane;
            held[i] = k < d ? x.at(row, k) : T(0);
        }
    }
    /* Calls f(k, element k). */
    template <typename F>
    __device__ __forceinline__ void each(F &&f) const
    {
        if constexpr (kHeld > 0) {
#pragma unroll
            for (int i = 0; i < kHeld; ++i) {
                const ptrdiff_t k = i * kLanes + lane;
                if (k < d) {
                    f(k, (double)held[i]);
                }
            }
        }
        else {
            for (ptrdiff_t k = lane; k < d; k += kLanes) {
                const double element = (double)x.at(row, k);
                f(k, weights != NULL && weights[k] == 0 ? element * 0 : element);
            }
        }
    }
    template <typename F>
    __device__ __forceinline__ double largest(F value) const
    {
        double most = -kInfinity;
        /* Passes over NaN, which the sums will find. */
        each([&](ptrdiff_t k, double element) { most = fmax(most, value(k, element)); });
        return combine(most, [](double x, double y) { return fmax(x, y); });
    }
    template <typename F>
    __device__ __forceinline__ double sum(F value) const
    {
        double all = 0;
        each([&](ptrdiff_t k, double element) { all += value(k, element); });
        return combine(all, [](double x, double y) { return x + y; });
    }
};

/* Multiplies by the power of two that brings `largest` near 1, so that no square leaves the range.
 * In two steps: subnormal numbers need a larger power than there is. Leaves 0 and infinity. */
struct Scale {
    double first = 1, second = 1;

    __device__ __forceinline__ explicit Scale(double largest)
    {
        if (largest > 0 && largest <= kLargest) {
            const int exponent = -ilogb(largest), half = exponent / 2;
            first = ldexp(1.0, half);
            second = ldexp(1.0, exponent - half);
        }
    }
    __device__ __forceinline__ double operator()(double x) const { return x * first * second; }
};

/* ---------------------------------------------------------------- rows by themselves */

/* Squares and sums of float32 numbers are normal float64 numbers: they need no scale, which changes
 * no bit, but takes another look at the row. Weights may be of any size. */
template <typename T>
__device__ __forceinline__ bool needs_scale(const double *weights)
{
    return sizeof(T) > sizeof(float) || weights != NULL;
}

/* What is subtracted from a scaled row: its mean, and the mean of what that left. The second makes
 * up for the rounding of the first, which is all there is to see in a row that is nearly constant.
 * none: the row is constant, so that nothing is left but rounding. */
struct Centre {
    Scale scale;
    double mean = 0, rest = 0;
    bool none;

    template <typename R>
    __device__ __forceinline__ Centre(const R &row, const double *weights, bool scales) : scale(0)
    {
        if (scales) {
            /* Columns without weight do not count. */
            const auto counts = [&](ptrdiff_t k) { return weights == NULL || weights[k] > 0; };
            const double most =
                row.largest([&](ptrdiff_t k, double x) { return counts(k) ? x : -kInfinity; });
            const double least =
                -row.largest([&](ptrdiff_t k, double x) { return counts(k) ? -x : -kInfinity; });
            scale = Scale(fmax(most, -least));
            none = most == least;
        }
        else { /* a vote is quicker than looking for both ends */
            const double first = row.d > 0 ? (double)row.x.at(row.row, 0) : 0.0;
            none = true;
            row.each([&](ptrdiff_t, double x) { none &= x == first; });
            none = __all_sync(kAll, none);
        }
        const double whole = weights == NULL
                                 ? (double)row.d
                                 : row.sum([&](ptrdiff_t k, double) { return weights[k]; });
        const auto average = [&](auto value) {
            return row.sum([&](ptrdiff_t k, double x) {
                return weights == NULL ? value(x) : value(x) * weights[k];
            }) / whole;
        };
        mean = average([&](double x) { return scale(x); });
        rest = average([&](double x) { return scale(x) - mean; });
    }
    __device__ __forceinline__ double operator()(double x) const { return scale(x) - mean - rest; }
};

/* Divides a row by its length times sqrt(2), after subtracting its mean if kCentred. Rows that are
 * held have no weights. */
template <bool kCentred, int kHeld, typename T>
__device__ __forceinline__ void make_unit(const Job<T> &job, const gd::Points<T> &x,
                                          ptrdiff_t number, unsigned lane)
{
    const double *const weights = kHeld > 0 ? NULL : job.weights;
    const Row<T, kHeld> row(x, number, job.d, lane, weights);
    const auto directed = [&](auto centred, bool none) {
        const auto value = [&](ptrdiff_t k, double x) {
            const double t = centred(x);
            return weights == NULL ? t : t * sqrt(weights[k]);
        };
        const Scale scale(needs_scale<T>(weights) ? row.largest([&](ptrdiff_t k, double x) {
            return fabs(value(k, x));
        })
                                                  : 0);
        const double square = row.sum([&](ptrdiff_t k, double x) {
            const double t = scale(value(k, x));
            return t * t;
        });
        /* Zeros, NaN and infinity have no direction. */
        const bool some = !none && square > 0 && square <= kLargest;
        const double inverse = some ? 1 / sqrt(2 * square) : (double)NAN;
        T *const to = job.to + number * job.to_stride;
        row.each([&](ptrdiff_t k, double x) { to[k] = (T)(scale(value(k, x)) * inverse); });
        if (job.d == 0 && lane == 0) { /* a row of no columns gets one */
            to[0] = (T)(0 * inverse);
        }
    };
    if constexpr (kCentred) {
        const Centre centre(row, weights, needs_scale<T>(weights));
        directed(centre, centre.none);
    }
    else {
        /* Weights must not meet subnormal numbers, whose product with them would lose digits. */
        const Scale scale(
            weights == NULL ? 0 : row.largest([&](ptrdiff_t, double x) { return fabs(x); }));
        directed(scale, false);
    }
}

/* x + y, and what the addition loses (Knuth's two-sum): spelled out, lest the compiler fuse it. */
__device__ __forceinline__ double2 two_sum(double x, double y)
{
    const double sum = __dadd_rn(x, y), taken = __dsub_rn(sum, x);
    return {sum, __dadd_rn(__dsub_rn(x, __dsub_rn(sum, taken)), __dsub_rn(y, taken))};
}

/* 1 - the row's sum, rounded once. It is nearly nothing for a distribution, and a distance of two
 * like ones is its root. */
template <typename T>
__device__ double rest_of_one(const gd::Points<T> &x, ptrdiff_t row, ptrdiff_t d, unsigned lane)
{
    double sum = lane == 0 ? -1 : 0, lost = 0;
    const auto add = [&](double element) {
        const double2 both = two_sum(sum, element);
        sum = both.x;
        lost += both.y;
    };
    for (ptrdiff_t k = lane; k < d; k += kLanes) {
        add((double)x.at(row, k));
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        lost += __shfl_xor_sync(kAll, lost, step);
        add(__shfl_xor_sync(kAll, sum, step));
    }
    return isfinite(sum) ? -(sum + lost) : -sum;
}

template <typename T>
__device__ void make_roots(const Job<T> &job, const gd::Points<T> &x, ptrdiff_t row, unsigned lane)
{
    const double rest = rest_of_one(x, row, job.d, lane);
    for (ptrdiff_t k = lane; k < job.d; k += kLanes) {
        job.to[row * job.to_stride + k] = (T)sqrt((double)x.at(row, k));
    }
    if (lane == 0) {
        job.terms[row] = rest / 2;
    }
}

template <typename T>
__device__ void make_distribution(const Job<T> &job, const gd::Points<T> &x, ptrdiff_t row,
                                  unsigned lane)
{
    const Row<T, 0> elements(x, row, job.d, lane, NULL);
    const double sum = elements.sum([](ptrdiff_t, double element) { return element; });
    const bool negative = elements.largest([](ptrdiff_t, double element) { return -element; }) > 0;
    const bool none = sum == 0 || negative;
    elements.each([&](ptrdiff_t k, double element) {
        job.to[row * job.to_stride + k] = none ? T(0) : (T)(element / sum);
    });
    if (lane == 0) {
        job.terms[row] = none ? kInfinity : 0;
    }
}

/* A bit for each byte of four that is not 0. One sets a bit of its own of the product's upper byte,
 * and what else it sets is below that. */
__device__ __forceinline__ unsigned bits_of_bytes(unsigned bytes)
{
    return __vsetne4(bytes, 0) * 0x01020408u >> 24;
}

/* Truths as they lie, sixteen a lane, if rows are of whole words: reading them binds. */
__device__ __forceinline__ bool has_words(const gd::Points<uint8_t> &x)
{
    return x.col_stride == 1 && x.row_stride % sizeof(uint4) == 0 &&
           (uintptr_t)x.data % sizeof(uint4) == 0;
}
__device__ int make_bits_of_words(const Job<int32_t> &job, const gd::Points<uint8_t> &x,
                                  ptrdiff_t row, unsigned lane)
{
    constexpr int kEach = sizeof(uint4);
    const uint8_t *const from = x.data + row * x.row_stride;
    auto *const to = reinterpret_cast<uint16_t *>(job.to + row * job.to_stride);
    int set = 0;
#pragma unroll 4
    for (ptrdiff_t i = lane; i < 2 * job.to_cols; i += kLanes) {
        const ptrdiff_t left = job.d - i * kEach;
        unsigned bits = 0;
        if (left >= kEach) {
            const uint4 own = __ldcs(reinterpret_cast<const uint4 *>(from) + i);
            bits = bits_of_bytes(own.x) | bits_of_bytes(own.y) << 4 | bits_of_bytes(own.z) << 8 |
                   bits_of_bytes(own.w) << 12;
        }
        else {
            for (ptrdiff_t k = 0; k < left; ++k) {
                bits |= (unsigned)(__ldg(from + i * kEach + k) != 0) << k;
            }
        }
        to[i] = (uint16_t)bits;
        set += __popc(bits);
    }
    return set;
}

/* A vote of the warp makes a word. Each lane keeps one of 32 words, so that these leave together.
 */
template <typename T>
__device__ void make_bits(const Job<int32_t> &job, const gd::Points<T> &x, ptrdiff_t row,
                          unsigned lane)
{
    double set = 0;
    if constexpr (sizeof(T) == sizeof(uint8_t)) {
        if (has_words(x)) {
            set = make_bits_of_words(job, x, row, lane);
            set = combine(set, [](double x, double y) { return x + y; });
            if (lane == 0) {
                job.terms[row] = set;
            }
            return;
        }
    }
    for (ptrdiff_t word = 0; word < job.to_cols; word += kLanes) {
        const int words = (int)min(job.to_cols - word, (ptrdiff_t)kLanes);
        unsigned own = 0;
#pragma unroll 4
        for (int i = 0; i < words; ++i) {
            const ptrdiff_t k = (word + i) * 32 + lane;
            const unsigned votes = __ballot_sync(kAll, k < job.d && x.at(row, k) != 0);
            own = lane == i ? votes : own;
        }
        if (lane < words) {
            job.to[row * job.to_stride + word + lane] = (int32_t)own;
        }
        set += __popc(own);
    }
    set = combine(set, [](double x, double y) { return x + y; });
    if (lane == 0) {
        job.terms[row] = set;
    }
}

template <gd_preparation kWhat, int kHeld, typename T, typename S>
__global__ void __launch_bounds__(kThreads)
    prepare_rows(const __grid_constant__ Job<S> job, const __grid_constant__ gd::Own<T> all)
{
    const ptrdiff_t row = (ptrdiff_t)blockIdx.x * kWarps + threadIdx.x / kLanes;
    const unsigned lane = threadIdx.x % kLanes;
    gd::follow<true>(); /* the other operand comes next, then mostly many launches */
    if (row >= all.rows()) {
        return;
    }
    const gd::Points<T> x = all.around(row);
    if constexpr (kWhat == GD_UNIT || kWhat == GD_CENTRED_UNIT) {
        make_unit<kWhat == GD_CENTRED_UNIT, kHeld>(job, x, row, lane);
    }
    else if constexpr (kWhat == GD_ROOTS) {
        make_roots(job, x, row, lane);
    }
    else if constexpr (kWhat == GD_DISTRIBUTION) {
        make_distribution(job, x, row, lane);
    }
    else {
        make_bits(job, x, row, lane);
    }
}

/* ---------------------------------------------------------------- rows times a factor */

/* A block makes 64 rows, 64 columns at a time, each warp 16 of the rows, from 16 dimensions of both
 * operands in shared memory; the next ones are on their way meanwhile. The factor is 0 right of its
 * diagonal, so columns begin with the dimensions of the first. FP64 tensor cores add up products,
 * and their sizes in another sum. */
constexpr int kSide = 64, kDeep = 16, kMultiplyThreads = 128, kTiles = kSide / 8;
constexpr int kBrought = kSide * kDeep / kMultiplyThreads; /* by a thread */
constexpr int kGap = 4; /* between rows in shared memory: no two threads meet in a bank */
static_assert(kMultiplyThreads / kLanes * 16 == kSide, "sixteen rows a warp");

/* What a thread (g, t) = (lane / 4, lane % 4) has of a warp's sixteen rows by 64 columns: of each
 * eight columns 2t and 2t + 1, in rows g and g + 8. */
using Sums = double[kTiles][2][2];

/* Adds eight dimensions. rows: the warp's rows, from the first of them on. */
__device__ __forceinline__ void add_products(const double (*rows)[kDeep + kGap],
                                             const double (*part)[kSide + kGap], int first,
                                             Sums &value, Sums &size)
{
    const int lane = (int)threadIdx.x % kLanes, g = lane / 4, t = lane % 4;
    const double x[4] = {rows[g][first + t], rows[g + 8][first + t], rows[g][first + t + 4],
                         rows[g + 8][first + t + 4]};
    const double sizes[4] = {fabs(x[0]), fabs(x[1]), fabs(x[2]), fabs(x[3])};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
        const double f[2] = {part[first + t][j * 8 + g], part[first + t + 4][j * 8 + g]};
        gd::multiply_add_anywhere(value[j], x, f);
        gd::multiply_add_anywhere(size[j], sizes, {fabs(f[0]), fabs(f[1])});
    }
}

template <typename T>
__global__ void __launch_bounds__(kMultiplyThreads, 2)
    multiply(const __grid_constant__ Job<T> given, const __grid_constant__ gd::Own<T> all,
             const __grid_constant__ gd::Own<T> shifts, const double *__restrict__ factor,
             unsigned each)
{
    __shared__ double rows[kSide][kDeep + kGap], part[kDeep][kSide + kGap];
    const ptrdiff_t top = (ptrdiff_t)(blockIdx.x % each) * kSide, number = blockIdx.x / each;
    const gd::Points<T> x = all.matrix(number), shift = shifts.matrix(number);
    Job<T> job = given;
    job.to += number * x.count * job.to_stride;
    job.terms += number * x.count;
    constexpr bool kRounded = sizeof(T) == sizeof(float);
    constexpr double kSums = kRounded ? GD_F32_FACTORED_SUMS : GD_F64_FACTORED_SUMS;
    constexpr double kFloor = kRounded ? GD_F32_FACTORED_FLOOR : GD_F64_FACTORED_FLOOR;
    const int thread = (int)threadIdx.x, lane = thread % kLanes;
    const int first = thread / kLanes * 16, own = first + lane / 4; /* rows of the warp, the lane */
    double squares[2] = {}, own_part[kBrought];
    T own_rows[kBrought], own_shift; /* all of one dimension */
    const auto fetch = [&](ptrdiff_t left, ptrdiff_t dim) {
        const ptrdiff_t k = dim + thread % kDeep, col = left + thread % kSide;
        own_shift = k < job.d ? shift.at(0, k) : T(0);
#pragma unroll
        for (int i = 0; i < kBrought; ++i) {
            const int at = thread + i * kMultiplyThreads;
            const ptrdiff_t from = dim + at / kSide;
            own_rows[i] = k < job.d ? x.at(x.clamp(top + at / kDeep), k) : T(0);
            own_part[i] = from < job.d && col < job.d ? factor[from * job.d + col] : 0;
        }
    };
    gd::follow<true>(); /* as rows that are prepared by themselves do */
    fetch(0, 0);
    for (ptrdiff_t left = 0; left < job.d; left += kSide) {
        Sums value = {}, size = {};
        for (ptrdiff_t dim = left; dim < job.d; dim += kDeep) {
            __syncthreads(); /* nobody reads the last dimensions any more */
#pragma unroll
            for (int i = 0; i < kBrought; ++i) {
                const int at = thread + i * kMultiplyThreads;
                rows[at / kDeep][thread % kDeep] = (double)own_rows[i] - (double)own_shift;
                part[at / kSide][at % kSide] = own_part[i];
            }
            __syncthreads();
            const bool ends = dim + kDeep >= job.d;
            fetch(ends ? left + kSide : left, ends ? left + kSide : dim + kDeep);
#pragma unroll
            for (int k = 0; k < kDeep; k += 8) {
                add_products(rows + first, part, k, value, size);
            }
        }
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const ptrdiff_t row = top + own + h * 8;
#pragma unroll
                for (int s = 0; s < 2; ++s) {
                    const ptrdiff_t col = left + j * 8 + lane % 4 * 2 + s;
                    const double y = value[j][h][s];
                    if (row < x.count && col < job.d) {
                        job.to[row * job.to_stride + col] = (T)y;
                    }
                    squares[h] += kSums * size[j][h][s] * size[j][h][s];
                    if constexpr (kRounded) {
                        squares[h] += GD_F32_FACTORED_ROWS * y * y;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const ptrdiff_t row = top + own + h * 8;
        const double term = combine<4>(squares[h], [](double x, double y) { return x + y; });
        if (lane % 4 == 0 && row < x.count) {
            job.terms[row] = term + kFloor;
        }
    }
}

/* ---------------------------------------------------------------- launches */

template <typename S>
Job<S> job_of(const gd_prepare &job)
{
    return {job.x.cols, (S *)job.to.data, job.to.cols, job.to.row_stride, job.terms, job.weights};
}

template <gd_preparation kWhat, typename T, typename S = T, int kHeld = 0>
cudaError_t launch_rows(const gd_launch &launch, const gd_prepare &job)
{
    const gd::Own<T> all = gd::own_of<T>(job.x, job.many);
    return gd::enqueue<gd::Start::kEarly>(launch, prepare_rows<kWhat, kHeld, T, S>,
                                          gd::ceil_div(all.rows(), kWarps), dim3(kThreads), 0,
                                          job_of<S>(job), all);
}

/* Rows are looked at several times: those that are not too long are held. */
template <gd_preparation kWhat, typename T>
cudaError_t launch_units(const gd_launch &launch, const gd_prepare &job)
{
    constexpr int kSome = 4, kMany = kWhat == GD_UNIT ? 16 : 8;
    return job.weights != NULL || job.x.cols > kMany * kLanes ? launch_rows<kWhat, T>(launch, job)
           : job.x.cols > kSome * kLanes ? launch_rows<kWhat, T, T, kMany>(launch, job)
                                         : launch_rows<kWhat, T, T, kSome>(launch, job);
}

template <typename T>
cudaError_t launch_numbers(const gd_launch &launch, const gd_prepare &job)
{
    switch (job.what) {
        case GD_UNIT:
            return launch_units<GD_UNIT, T>(launch, job);
        case GD_CENTRED_UNIT:
            return launch_units<GD_CENTRED_UNIT, T>(launch, job);
        case GD_ROOTS:
            return launch_rows<GD_ROOTS, T>(launch, job);
        case GD_DISTRIBUTION:
            return launch_rows<GD_DISTRIBUTION, T>(launch, job);
        case GD_BITS:
            return launch_rows<GD_BITS, T, int32_t>(launch, job);
        default: {
            const gd::Own<T> all = gd::own_of<T>(job.x, job.many);
            const ptrdiff_t each = gd::ceil_div(job.x.rows, kSide);
            return gd::enqueue<gd::Start::kEarly>(
                launch, multiply<T>, all.count * each, dim3(kMultiplyThreads), 0, job_of<T>(job),
                all, gd::own_of<T>(job.origin, job.origins), job.factor, (unsigned)each);
        }
    }
}

/* ---------------------------------------------------------------- condensing */

constexpr int kCopies = 8; /* of a thread: all are asked for before the first is stored */

/* E is an unsigned integer of the elements' size. Rows start anywhere, in the block as in the
 * vector, so elements move one by one; a warp's make whole lines all the same. */
template <typename E>
__global__ void __launch_bounds__(kThreads)
    condense(const E *__restrict__ block, ptrdiff_t cols, ptrdiff_t stride, ptrdiff_t first,
             ptrdiff_t n, E *__restrict__ out, unsigned blocks_across)
{
    const ptrdiff_t row = blockIdx.x / blocks_across, i = first + row;
    const ptrdiff_t at = (ptrdiff_t)(blockIdx.x % blocks_across) * kThreads * kCopies + threadIdx.x;
    /* Counted from the first element right of the diagonal. */
    const ptrdiff_t count = cols - row - 1;
    const E *const from = block + row * stride + row + 1;
    E *const to = out + (i * (n - 1) - i * (i - 1) / 2);
    E own[kCopies];
#pragma unroll
    for (int c = 0; c < kCopies; ++c) {
        const ptrdiff_t k = at + c * kThreads;
        own[c] = k < count ? __ldcs(from + k) : E(0);
    }
#pragma unroll
    for (int c = 0; c < kCopies; ++c) {
        const ptrdiff_t k = at + c * kThreads;
        if (k < count) {
            __stcs(to + k, own[c]);
        }
    }
}

template <typename E>
cudaError_t launch_condense(const gd_launch &launch, const gd_matrix &block, ptrdiff_t first,
                            ptrdiff_t n, void *out)
{
    const ptrdiff_t across = gd::ceil_div(block.cols, kThreads * kCopies);
    return gd::enqueue(launch, condense<E>, across * block.rows, dim3(kThreads), 0,
                       (const E *)block.data, block.cols, block.row_stride, first, n, (E *)out,
                       (unsigned)across);
}

}  // namespace

extern "C" gd_status gd_cuda_prepare(const gd_prepare *job, gd_error *err)
{
    gd_launch launch = {};
    launch.stream = job->stream;
    if (job->what == GD_AS_GIVEN || job->x.rows == 0) {
        return GD_OK;
    }
    if (job->x.dtype == GD_BOOL) {
        const cudaError_t code = launch_rows<GD_BITS, uint8_t, int32_t>(launch, *job);
        GD_CUDA_TRY(err, kPrepareId, code);
        return GD_OK;
    }
    return gd::with_float_type(job->x.dtype, [&](auto type) {
        GD_CUDA_TRY(err, kPrepareId, launch_numbers<decltype(type)>(launch, *job));
        return GD_OK;
    });
}

extern "C" gd_status gd_cuda_condense(const gd_matrix *block, ptrdiff_t first, ptrdiff_t n,
                                      void *out, void *stream, gd_error *err)
{
    gd_launch launch = {};
    launch.stream = stream;
    if (block->rows == 0 || block->cols == 0) {
        return GD_OK;
    }
    GD_CUDA_TRY(err, kCondenseId,
                block->dtype == GD_F32
                    ? launch_condense<unsigned>(launch, *block, first, n, out)
                    : launch_condense<unsigned long long>(launch, *block, first, n, out));
    return GD_OK;
}
