/* swift.cuh: swift forms of four kinds of sums, for float32.
 *
 * Each takes a quarter to two thirds of the time of the careful form in terms.cuh, and answers
 * for most data: a result that it cannot vouch for is left to the careful form. That decision, like
 * the result, depends on the two rows (and on B as a whole) alone, lest results differ with what
 * else is in a call.
 *
 * - Bray and Curtis: |a + b| is a + b where no element is negative, as counts are not. The second
 *   sum is then a sum of two rows' own sums.
 * - Canberra: two quotients share a reciprocal, x / y + u / v = (x v + u y) / (y v), where the
 *   product of the denominators can neither overflow nor take digits from what it divides.
 * - Jensen and Shannon: x log x + y log y - (x + y) log((x + y) / 2), of which only the last part
 *   belongs to the pair. The difference cancels where rows are alike.
 * - Powers: 2^(p log2 x) with the instructions for either, whose error grows with the logarithm:
 *   good to the contract where the terms that matter are not far from 1. A power of two that brings
 *   the data there is guessed from a few rows of B. */
#ifndef GPUDIST_CDIST_SUMS_SWIFT_CUH
#define GPUDIST_CDIST_SUMS_SWIFT_CUH

#include "cdist/sums/call.cuh"

namespace gd {
namespace sums {

/* The form that is tried first; the kind itself, if there is no other. */
template <int kSum, bool kWeighted, typename T>
constexpr int kSwiftOf = sizeof(T) != sizeof(float)            ? kSum
                         : kSum == GD_SUM_DIFFERENCE_AND_SUM   ? (int)kSwiftMagnitudes
                         : kSum == GD_SUM_RATIOS               ? (int)kSwiftRatios
                         : kSum == GD_SUM_ENTROPY              ? (int)kSwiftEntropy
                         : kSum == GD_SUM_POWERS && !kWeighted ? (int)kSwiftPowers
                                                               : kSum;

/* The fewest dimensions for a swift form: of shorter rows, some pairs are too much alike for it in
 * about every tile. */
constexpr int kFewestDims = 16;
template <int kForm>
constexpr bool kNeedsDims = kForm == kSwiftEntropy || kForm == kSwiftPowers;

template <int kForm>
constexpr bool kHasRowTerms = kForm == kSwiftMagnitudes || kForm == kSwiftEntropy;

/* ---------------------------------------------------------------- Canberra */

/* Zeros are a number too small to be seen in a sum with any other, so that no denominator is 0, and
 * two of the least make a normal number with a normal reciprocal. A numerator that is no zero is
 * 2**-24 of its denominator at least, so its product with the other denominator is normal as well.
 */
constexpr float kAsZero = 0x1p-63f, kLeastElement = 0x1p-38f, kMostOfElement = 0x1p60f;

template <bool kOfA>
struct Element<kSwiftRatios, float, kOfA> {
    static constexpr int parts = 1;
    static constexpr bool changes = true;

    static __device__ __forceinline__ void split(float x, float, float *to)
    {
        const float size = fabsf(x);
        to[0] = size >= kLeastElement && size <= kMostOfElement ? x : size == 0 ? kAsZero : NAN;
    }
    static __device__ __forceinline__ float join(const float *part, int) { return part[0]; }
};

/* Adds two dimensions' ratios; the cell of b is swapped. */
template <bool kWeighted>
__device__ __forceinline__ void add_two_ratios(float &sum, const float *a, const float *b,
                                               const float *weights)
{
    const float x = weigh<kWeighted>(fabsf(a[0] - b[1]), weights[0]);
    const float u = weigh<kWeighted>(fabsf(a[1] - b[0]), weights[1]);
    const float y = fabsf(a[0]) + fabsf(b[1]);
    const float v = fabsf(a[1]) + fabsf(b[0]);
    sum = __fmaf_rn(__fmaf_rn(x, v, u * y), reciprocal(y * v), sum);
}

/* ---------------------------------------------------------------- Jensen and Shannon */

/* What makes a typical sum of two elements 1, where the logarithm is best: half the number of
 * dimensions, or less, a power of two. */
inline float unit_for(ptrdiff_t d)
{
    float unit = 0.5f;
    for (; d > 1; d /= 2) {
        unit *= 2;
    }
    return unit;
}

/* The logarithm's error is 2**-22, relative or absolute, whichever is more: of all terms together
 * it is 2**-22 (|sum| + 3 unit) at most, and hardly ever half as much. From this times as much on,
 * the difference is good to 2e-5, and its root to 1e-5. */
constexpr float kLeastOfEntropy = 0.0125f;

template <bool kOfA>
struct Element<kSwiftEntropy, float, kOfA> {
    static constexpr int parts = 1;
    static constexpr bool changes = true;

    /* No zeros, which have no logarithm. */
    static __device__ __forceinline__ void split(float x, float unit, float *to)
    {
        to[0] = x < 0x1p-100f ? 0x1p-100f : x * unit;
    }
    static __device__ __forceinline__ float join(const float *part, int) { return part[0]; }
};

/* ---------------------------------------------------------------- powers
 *
 * The logarithm's error is 2**-22, relative or absolute, whichever is more, and so is that of a
 * term's root: 7e-7 at |log2 x| = 4. So the mean term's root has to be within 1/4 and 4, and
 * exponents are such that not even a sum of one term comes from beyond 2**7. */
inline bool takes_swift_powers(double p, ptrdiff_t d)
{
    return d >= kFewestDims && p > 1 && p <= 32 && log2((double)d) <= 5 * p;
}

template <bool kOfA>
struct Element<kSwiftPowers, float, kOfA> {
    static constexpr int parts = 1;
    static constexpr bool changes = true;

    static __device__ __forceinline__ void split(float x, float unit, float *to)
    {
        to[0] = x * unit;
    }
    static __device__ __forceinline__ float join(const float *part, int) { return part[0]; }
};

/* The power of two that brings the mean difference of some of the rows' elements near 1. A block of
 * kGuessers threads a matrix. */
constexpr int kGuessers = 256, kGuessPairs = 16;
static __global__ void guess_unit(const __grid_constant__ Own<float> own, ptrdiff_t d, float *units)
{
    const Points<float> x = own.matrix(blockIdx.x);
    __shared__ double sums[kGuessers], counts[kGuessers];
    const int dims = (int)min(d, (ptrdiff_t)kGuessers);
    const int rows = (int)min(x.count, (ptrdiff_t)GD_SAMPLE); /* what any part of B is known by */
    double sum = 0, count = 0;
    for (int i = threadIdx.x; i < kGuessPairs * dims; i += kGuessers) {
        const ptrdiff_t k = i % dims * (d / dims);
        const int row = i / dims * rows / kGuessPairs, other = (row + rows / 2 + 1) % rows;
        const float size =
            fabsf(x.at(gd_sample_row(x.count, row), k) - x.at(gd_sample_row(x.count, other), k));
        if (size > 0 && size <= FLT_MAX) {
            sum += (double)size, count += 1;
        }
    }
    sums[threadIdx.x] = sum, counts[threadIdx.x] = count;
    for (int half = kGuessers / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            counts[threadIdx.x] += counts[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        const double mean = sums[0] / counts[0]; /* NaN if there are no differences */
        units[blockIdx.x] =
            mean >= 0x1p-60 && mean <= 0x1p60 ? exp2f(-rintf(log2f((float)mean))) : 1.0f;
    }
}

/* ---------------------------------------------------------------- terms of rows */

/* Their type: what is taken from a sum that may cancel needs more digits than a sum has. */
template <int kForm>
struct RowTermOf {
    using type = double;
};
template <>
struct RowTermOf<kSwiftMagnitudes> {
    using type = float;
};
template <int kForm>
using RowTerm = typename RowTermOf<kForm>::type;

template <int kForm>
__device__ __forceinline__ RowTerm<kForm> row_term(const void *terms, ptrdiff_t row)
{
    return __ldg((const RowTerm<kForm> *)terms + row);
}

/* A row's own part of the sums, NaN where the swift form does not hold for it. A warp a row. */
template <int kForm>
__global__ void row_terms(const __grid_constant__ Own<float> own, ptrdiff_t d,
                          const double *weights, float unit, RowTerm<kForm> *terms)
{
    const ptrdiff_t row = ((ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= own.rows()) {
        return;
    }
    const Points<float> x = own.around(row);
    double sum = 0;
    for (ptrdiff_t k = threadIdx.x % 32; k < d; k += 32) {
        const float at = x.at(row, k);
        if constexpr (kForm == kSwiftMagnitudes) {
            sum += at >= 0 ? (weights ? weights[k] : 1) * (double)at : NAN;
        }
        else {
            const double y = (double)at * (double)unit;
            sum += at == 0 ? 0 : y * (log2(y) + 1);
        }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        terms[row] = (RowTerm<kForm>)sum;
    }
}

/* Finds out what a swift form has to know before. */
template <int kForm>
size_t workspace_for(const gd_cdist &call)
{
    const bool many = call.many.count > 0;
    const ptrdiff_t of_a = many ? call.many.own_a->count : 1;
    const ptrdiff_t of_b = many ? call.many.own_b->count : 1;
    const ptrdiff_t rows = call.a.rows * of_a + call.b.rows * of_b;
    return kHasRowTerms<kForm>     ? (size_t)rows * sizeof(RowTerm<kForm>)
           : kForm == kSwiftPowers ? (size_t)of_b * sizeof(float)
                                   : 0;
}

template <int kForm, typename T>
cudaError_t prepare_swift(const gd_cdist &given, [[maybe_unused]] Call<T> &call)
{
    if constexpr (kForm == kSwiftPowers) {
        const float d = (float)given.a.cols, bound = (float)exp2(2 * fmin(given.p, 32.0));
        const bool takes = takes_swift_powers(given.p, given.a.cols);
        call.least_mean = takes ? d / bound : (float)HUGE_VAL, call.most_mean = d * bound;
        call.unit_at = (const float *)given.launch.workspace;
        const auto own = own_of<float>(given.whole_b, given.many.own_b);
        return enqueue(given.launch, guess_unit, own.count, dim3(kGuessers), 0, own, call.d,
                       (float *)given.launch.workspace);
    }
    else if constexpr (kHasRowTerms<kForm>) {
        constexpr unsigned kThreads = 256;
        auto *const terms = (RowTerm<kForm> *)given.launch.workspace;
        const auto own_a = own_of<float>(given.a, given.many.own_a);
        const auto own_b = own_of<float>(given.b, given.many.own_b);
        const auto find = [&](const Own<float> &own, RowTerm<kForm> *to) {
            return enqueue(given.launch, row_terms<kForm>, ceil_div(own.rows(), kThreads / 32),
                           dim3(kThreads), 0, own, call.d, call.weights, call.unit, to);
        };
        call.unit = unit_for(given.a.cols);
        call.a_rows = terms, call.b_rows = terms + own_a.rows();
        const cudaError_t code = find(own_a, terms);
        return code == cudaSuccess ? find(own_b, terms + own_a.rows()) : code;
    }
    return cudaSuccess;
}

/* Whether the swift form can answer for any result of a tile; asked by a whole block, which has no
 * fewer threads than the tile rows or columns. */
template <int kForm>
__device__ __forceinline__ bool answers(const Call<float> &call, const Begin &begin, ptrdiff_t row,
                                        int rows, ptrdiff_t col, int cols)
{
    if (kNeedsDims<kForm> && call.d < kFewestDims) {
        return false;
    }
    if constexpr (kHasRowTerms<kForm>) {
        const int at = (int)threadIdx.x;
        return __syncthreads_or(
                   at < rows &&
                   !isnan(row_term<kForm>(call.a_rows, begin.rows_a + call.a.clamp(row + at)))) &&
               __syncthreads_or(
                   at < cols &&
                   !isnan(row_term<kForm>(call.b_rows, begin.rows_b + call.b.clamp(col + at))));
    }
    return kForm != kSwiftPowers || call.least_mean <= call.most_mean;
}

/* ---------------------------------------------------------------- results */

/* From a pair's sums its result, NaN if the form does not answer; whether it does. */
template <int kForm, bool kWeighted, typename R, typename T>
__device__ __forceinline__ bool result(const Call<T> &call, const Begin &begin, const R *s,
                                       ptrdiff_t row, ptrdiff_t col, T *to)
{
    bool fine;
    if constexpr (kForm == kSwiftRatios) {
        fine = s[0] <= FLT_MAX;
        *to = s[0];
    }
    else if constexpr (kForm == kSwiftMagnitudes) {
        const float both = row_term<kForm>(call.a_rows, begin.rows_a + row) +
                           row_term<kForm>(call.b_rows, begin.rows_b + col);
        fine = s[0] <= FLT_MAX && both >= call.least && both <= 0x1p125f;
        *to = quotient(s[0], both);
    }
    else if constexpr (kForm == kSwiftEntropy) {
        constexpr float kLog2 = 0.693147182f;
        const float bits = (float)(row_term<kForm>(call.a_rows, begin.rows_a + row) +
                                   row_term<kForm>(call.b_rows, begin.rows_b + col) - (double)s[0]);
        fine = bits >= kLeastOfEntropy * (fabsf(s[0]) + 3 * call.unit);
        const float nats = bits * (kLog2 / call.unit);
        *to = distance(GD_JENSENSHANNON, &nats, 0.0f, 0.0f, (float)call.scale,
                       call.template terms<float>(begin, row, col));
    }
    else if constexpr (kForm == kSwiftPowers) {
        fine = s[0] >= call.least_mean && s[0] <= call.most_mean;
        *to = power(s[0], call.root) * (1 / call.unit_at[begin.matrices_b]);
    }
    else if constexpr (kForm == GD_SUM_UNEQUAL && !kWeighted && sizeof(R) == sizeof(float)) {
        fine = true;
        *to = quotient(s[0], (float)call.weight_sum); /* the number of columns */
    }
    else {
        fine = good<kForm, kWeighted, R>(call, s);
        *to = (T)finish<kForm, R>(call, begin, s, row, col);
    }
    *to = fine ? *to : T(NAN);
    return fine;
}

/* The result of the careful form of a kind that has a swift one, by a call: being rarely used, it
 * should not make the code of a tile longer. */
template <int kSum, bool kWeighted>
__device__ __noinline__ float careful_result(const Call<float> &call, Begin begin, float first,
                                             float last, ptrdiff_t row, ptrdiff_t col)
{
    const float s[2] = {first, last};
    float to;
    result<kSum, kWeighted, float>(call, begin, s, row, col, &to);
    return to;
}

}  // namespace sums
}  // namespace gd
#endif
