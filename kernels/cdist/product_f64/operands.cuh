/* operands.cuh: what the parts of tensor_f64.cu share: how operands lie in memory, which results
 * are trusted, and the instruction of the FP64 tensor cores. */
#ifndef GPUDIST_CDIST_PRODUCT_F64_OPERANDS_CUH
#define GPUDIST_CDIST_PRODUCT_F64_OPERANDS_CUH

#include "arch/mma.cuh"
#include "cdist/product/centre.cuh"

namespace gd {
namespace tensor_f64 {

using namespace product_form;

/* ---------------------------------------------------------------- shapes */

/* A block of the main kernel takes a part, 128 rows by 64 columns of the result, a warp 32 of these
 * rows: two units of suspects. */
constexpr unsigned kBand = 16; /* tiles below each other that are done together, see grid.cuh */

/* Copies of the operands stand in panels of 64 rows, cut into slabs of 16 dimensions, and slabs in
 * units of 16 rows, a product's share. A unit is in the order in which the threads of a warp hold
 * it, a word of 16 bytes each: so reading it meets no bank twice, and a slab of a panel is one run
 * of memory. A thread's words are two dimensions of a column, but two rows of `a`, eight apart, in
 * one dimension: those are what the instruction wants in neighbouring registers. */
constexpr int kPanel = 64, kDims = 16, kUnitWords = kUnitRows * kDims / 2;
constexpr int kPanelUnits = kPanel / kUnitRows, kPanelWords = kPanelUnits * kUnitWords;
static_assert(kPartCols == kPanel && kTileRows == 2 * kPanel, "the panels of a tile");

/* Sums of products go on for so many slabs, 1024 dimensions, before they start afresh. */
constexpr int kGroupSlabs = 64;

/* The workspace. */
struct Plan {
    ptrdiff_t slabs;
    bool prepared;  /* prepare.cuh stands before the products, and panels are laid out */
    bool by_itself; /* blocks compute suspect elements again by themselves, and suspects are not */
    int below; /* log2(1 / share), see Rules, where the upper half of a double has its exponent */
    Sample *sample;
    unsigned *all_direct;
    Shift<double> *shift; /* one a dimension */
    Weights<double> weights;
    RowTerms terms;
    double *norms_a, *norms_b;
    double2 *panels_a, *panels_b;
    Suspects suspects;

    /* Rows are put in order to become neighbours in groups of so many. */
    __host__ __device__ bool one_group() const { return suspects.tiles_down == 1; }
};

/* ---------------------------------------------------------------- metrics */

/* d^2 = N - 2ab, N = |a|^2 + |b|^2, cancels where d^2 is small beside N. With u = 2^-53 a sum of
 * up to 1024 products errs by some d/4 u N if all its roundings point the same way, as they may
 * for rows of one number each, so d^2 by d/2 u N; norms, of which four squares at a time are added
 * up by plain sums, and what else is rounded make 7 u N. An element is computed again directly
 * where d^2 < share * N. With share = d/1024, but at least 1/32, the others are then good to 9e-14
 * of d^2; measured were 3e-14 for such rows and 1e-14 for all others. From d = 512 on the share is
 * 1/2, which does for the 1024 dimensions of a group: there the sum ends below N/4. The cosine
 * distance, for which N <= 4, is held to an absolute error of 1e-12, and needs the guard only next
 * to zero.
 *
 * The share is the next power of two: then the upper halves of d^2 and N tell by their difference,
 * to six digits, which is enough, and integers do not wait for the pipe that tensor cores share
 * with float64. An addition more there took 3 % of the time at d = 128 and 7 % at d = 64.
 *
 * A row's norm is |a|^2, or -infinity for a row of which all elements are computed directly: one
 * whose squares' sum is not between `least` and `most`, unless it is 0. Inner products have 0 or
 * -infinity. */
template <gd_metric kMetric>
struct Rules {
    static constexpr bool product = kMetric == GD_INNER_PRODUCT;
    static constexpr bool shifts = !product, scalable = shifts && kMetric != GD_COSINE;
    /* Between these no square or product leaves the range of float64. */
    static constexpr double least = 0x1p-900, most = 0x1p1000;

    /* The logarithm of 1 / share. */
    static int log_inverse_share(ptrdiff_t d)
    {
        int log = kMetric == GD_COSINE ? 12 : 5;
        while (kMetric != GD_COSINE && log > 1 && d > 1024 >> log) {
            --log;
        }
        return log;
    }

    /* The sign bit of `guard` says that the element is to be computed again. Where a norm is
     * -infinity so is the sum of both, and the square may be NaN. */
    static __device__ __forceinline__ double result(double acc, double norm_a, double norm_b,
                                                    int below, int &guard)
    {
        const double norms = norm_a + norm_b, square = fma(-2.0, acc, norms);
        const int high = __double2hiint(square);
        const int high_norms = __double2hiint(norms);
        guard = product ? high_norms : (high - high_norms + below) | high | high_norms;
        return product ? acc : finish(square);
    }

    /* sqrt() tests for arguments that do not come here, being guarded, and rounds correctly; this
     * takes half the time and is good to 2 ulp. The approximation has 20 bits, so what the series
     * of (1 - e)^(-1/2) leaves out is 2^-57. It sees only the upper half of its argument, kept from
     * 0 here: 0 times infinity would be NaN. */
    static __device__ __forceinline__ double finish(double square)
    {
        if constexpr (kMetric == GD_EUCLIDEAN) {
            const int high = max(__double2hiint(square), 0x00100000);
            const double reciprocal =
                approximate_rsqrt_ftz(__hiloint2double(high, __double2loint(square)));
            const double root = square * reciprocal;
            const double e = fma(-root, reciprocal, 1.0);
            return fma(root * e, fma(e, 0.375, 0.5), root);
        }
        return Metric<kMetric>::finish(square);
    }
};

/* ---------------------------------------------------------------- tensor cores */

/* acc += a * b for 16 rows, 8 columns and 8 dimensions. Thread (g, t) = (lane / 4, lane % 4) holds
 * two dimensions, of a in rows g and g + 8, x and y, and of b in column g; of the sums columns 2t
 * and 2t + 1 of both rows. Which dimensions those are is the caller's choice, as long as it is the
 * same for a and b: every sum adds them in the same order. */
__device__ __forceinline__ void multiply_add(double (&acc)[2][2], const double2 (&a)[2],
                                             const double2 &b)
{
    gd::multiply_add(acc[0][0], acc[0][1], acc[1][0], acc[1][1], a[0].x, a[0].y, a[1].x, a[1].y,
                     b.x, b.y);
}

}  // namespace tensor_f64
}  // namespace gd
#endif
