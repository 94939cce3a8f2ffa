/* near.cuh: pairs that the product left out, by differences; and the parts of sums made one.
 *
 * A warp has eight rows of a, four columns a lane, and walks over the slabs where a product left
 * some of their pairs out. Lanes make factors of 32 rows of b at a time, and tell them to all. A
 * pair that the product has adds nothing, so that the bits do not tell who was looked at.
 *
 * Three blocks a multiprocessor, in 168 registers, spill 232 bytes, most of them for the addresses
 * of what is loaded at once; two would not, and hide less of what loads take. */
#ifndef GPUDIST_GRADIENT_PRODUCT_SM90_NEAR_CUH
#define GPUDIST_GRADIENT_PRODUCT_SM90_NEAR_CUH

#include "gradient/product_sm90/plan.cuh"

namespace gd {
namespace gradient_product {

constexpr int kNearThreads = 128, kNearRows = kNearThreads / 32 * kGroup, kLaneDims = kDims / 32;
constexpr int kJoinThreads = 256;

/* Four columns of a row; zeros beyond the last. */
__device__ __forceinline__ void fetch(const float *from, ptrdiff_t left, float (&to)[kLaneDims])
{
#pragma unroll
    for (int k = 0; k < kLaneDims; ++k) {
        to[k] = k < left ? __ldg(from + k) : 0.0f;
    }
}

/* Where a warp is. */
struct Place {
    ptrdiff_t number, part, row, column; /* the lane's first column */
    const float *a, *b;                  /* the matrices', at the lane's column */
};

/* What the pairs of a lane's row of b add, a bit for each row of a: whether by its factor, and
 * whether alone, as the factor's digits are not safe. */
struct NearFactors {
    float factor[kGroup];
    unsigned whose; /* from kGroup on those that are alone */
};

template <gd_metric kMetric>
__device__ __forceinline__ NearFactors factors_of(const Gradient<float> &call, const Place &place,
                                                  const PairsOfOne<float> &asked,
                                                  const PairsOfOne<float> &away, const float *norms,
                                                  ptrdiff_t j, float norm)
{
    NearFactors all = {};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
        const ptrdiff_t row = place.row + i;
        if (row < call.a.count && j < call.b.count) {
            const float g = __ldg(asked.at(row, j)), x = __ldg(away.at(row, j));
            const float both = __ldg(norms + row) + norm;
            /* What is not asked for is NaN all the same where points are. */
            const bool endless = !(both <= FLT_MAX);
            float factor;
            if ((g != 0 || endless) && !is_safe<kMetric>(g, x, both, factor)) {
                bool apart = false;
                all.factor[i] = Term<kMetric>::factor(g, x, &apart);
                all.whose |= (apart ? 1u << kGroup : all.factor[i] != 0 || endless ? 1u : 0u) << i;
            }
        }
    }
    return all;
}

/* What a lane has of the warp's rows. */
using Lanes = float[kGroup][kLaneDims];

/* Adds what lanes have factors of, row by row of b, the next of which is under way meanwhile. */
__device__ __forceinline__ void add_by_factors(Lanes &sum, const Lanes &a, const NearFactors &own,
                                               const float *b, ptrdiff_t stride, ptrdiff_t left)
{
    constexpr unsigned kByFactor = (1u << kGroup) - 1;
    unsigned rows = __ballot_sync(~0u, (own.whose & kByFactor) != 0);
    float next[kLaneDims];
    if (rows != 0) {
        fetch(b + (__ffs((int)rows) - 1) * stride, left, next);
    }
    while (rows != 0) {
        const int at = __ffs((int)rows) - 1;
        float point[kLaneDims];
#pragma unroll
        for (int k = 0; k < kLaneDims; ++k) {
            point[k] = next[k];
        }
        rows &= rows - 1;
        if (rows != 0) {
            fetch(b + (__ffs((int)rows) - 1) * stride, left, next);
        }
        const unsigned whose = __shfl_sync(~0u, own.whose, at);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            const float factor = __shfl_sync(~0u, own.factor[i], at);
            if (whose >> i & 1) {
#pragma unroll
                for (int k = 0; k < kLaneDims; ++k) {
                    sum[i][k] = __fmaf_rn(factor, a[i][k] - point[k], sum[i][k]);
                }
            }
        }
    }
}

/* Adds what is alone, of which there is hardly any. */
template <gd_metric kMetric>
__device__ __forceinline__ void add_alone(Lanes &sum, const Lanes &a, const NearFactors &own,
                                          const float *b, ptrdiff_t stride, ptrdiff_t left,
                                          const PairsOfOne<float> &asked,
                                          const PairsOfOne<float> &away, ptrdiff_t row, ptrdiff_t j)
{
    unsigned rows = __ballot_sync(~0u, own.whose >> kGroup != 0);
    for (; rows != 0; rows &= rows - 1) {
        const int at = __ffs((int)rows) - 1;
        const unsigned whose = __shfl_sync(~0u, own.whose, at) >> kGroup;
        float point[kLaneDims];
        fetch(b + at * stride, left, point);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            if (whose >> i & 1) {
                const float g = __ldg(asked.at(row + i, j + at)),
                            x = __ldg(away.at(row + i, j + at));
#pragma unroll
                for (int k = 0; k < kLaneDims; ++k) {
                    sum[i][k] += Term<kMetric>::alone(g, x, a[i][k] - point[k]);
                }
            }
        }
    }
}

template <gd_metric kMetric>
__global__ void __launch_bounds__(kNearThreads, 3)
    add_near(const __grid_constant__ Gradient<float> call, const __grid_constant__ Plan plan)
{
    follow();
    const ptrdiff_t groups = plan.rows() / kNearRows;
    const int lane = threadIdx.x % 32;
    ptrdiff_t item = blockIdx.x;
    Place place;
    place.row = item % groups * kNearRows + threadIdx.x / 32 * kGroup, item /= groups;
    place.column = item % plan.blocks * kDims + lane * kLaneDims, item /= plan.blocks;
    place.part = item % plan.parts, place.number = item / plan.parts;
    if (plan.direct[place.number] != 0) {
        return;
    }
    place.a = call.a.data + call.batch.offset(call.a.apart, place.number) + place.column;
    place.b = call.b.data + call.batch.offset(call.b.apart, place.number) + place.column;
    const PairsOfOne<float> asked(call.asked, call.batch, place.number, false, call.b.count);
    const PairsOfOne<float> away(call.away, call.batch, place.number, false, call.b.count);
    const float *const norms = plan.norms + place.number * plan.rows();
    const uint8_t *const near = plan.near_of(place.number, place.row / kUnit);
    const ptrdiff_t left = call.d - place.column;
    Lanes a, total = {};
    bool found = false;
    const ptrdiff_t last = min((place.part + 1) * plan.part_slabs, plan.slabs);
    for (ptrdiff_t first = place.part * plan.part_slabs; first < last; first += 32) {
        unsigned slabs = __ballot_sync(~0u, first + lane < last && near[first + lane] != 0);
        for (; slabs != 0; slabs &= slabs - 1) {
            const ptrdiff_t slab = first + __ffs((int)slabs) - 1;
            if (!found) {
                found = true;
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    const bool there = place.row + i < call.a.count;
                    fetch(place.a + (place.row + i) * call.a.stride, there ? left : 0, a[i]);
                }
            }
            Lanes sum = {};
            for (int half = 0; half < kSlab; half += 32) {
                const ptrdiff_t j = slab * kSlab + half;
                const float norm = plan.image(place.number, 0, slab).norm[half + lane];
                const NearFactors own =
                    factors_of<kMetric>(call, place, asked, away, norms, j + lane, norm);
                const float *const rows = place.b + j * call.b.stride;
                add_by_factors(sum, a, own, rows, call.b.stride, left);
                add_alone<kMetric>(sum, a, own, rows, call.b.stride, left, asked, away, place.row,
                                   j);
            }
#pragma unroll
            for (int i = 0; i < kGroup; ++i) {
#pragma unroll
                for (int k = 0; k < kLaneDims; ++k) {
                    total[i][k] += sum[i][k];
                }
            }
        }
    }
    if (lane == 0) {
        plan.found_of(place.number, place.part, place.row / kGroup) = found;
    }
    if (!found) {
        return;
    }
    float *to = plan.near_sums +
                ((place.number * plan.parts + place.part) * call.a.count + place.row) * call.d +
                place.column;
#pragma unroll
    for (int i = 0; i < kGroup; ++i, to += call.d) {
#pragma unroll
        for (int k = 0; k < kLaneDims; ++k) {
            if (place.row + i < call.a.count && k < left) {
                to[k] = total[i][k];
            }
        }
    }
}

/* Adds a part's numbers, a warp's width apart. */
__device__ __forceinline__ void add_part(float (&sum)[kLaneDims], float (&lost)[kLaneDims],
                                         const float *part, ptrdiff_t left)
{
    float x[kLaneDims];
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) {
        x[i] = i * 32 < left ? __ldg(part + i * 32) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) {
        add_exactly(sum[i], lost[i], x[i]);
    }
}

/* Adds up the parts of the product, and of the pairs that it left out: a row a warp. */
static __global__ void __launch_bounds__(kJoinThreads)
    join_with_near(const __grid_constant__ Gradient<float> call, const __grid_constant__ Plan plan,
                   ptrdiff_t all)
{
    follow();
    const ptrdiff_t item = blockIdx.x * (ptrdiff_t)(kJoinThreads / 32) + threadIdx.x / 32;
    if (item >= all) {
        return;
    }
    const ptrdiff_t number = item / call.a.count, row = item % call.a.count;
    if (plan.direct[number] != 0) {
        return;
    }
    const ptrdiff_t size = call.a.count * call.d;
    const ptrdiff_t first = (number * plan.parts * call.a.count + row) * call.d;
    const int lane = threadIdx.x % 32;
    float *const to =
        call.out.data + call.batch.offset(call.out.apart, number) + row * call.out.stride;
    bool found = false;
    for (ptrdiff_t part = lane; part < plan.parts; part += 32) {
        found |= plan.found_of(number, part, row / kGroup) != 0;
    }
    found = __any_sync(~0u, found);
    for (ptrdiff_t block = 0; block < call.d; block += kDims) {
        const ptrdiff_t at = first + block + lane, left = call.d - block - lane;
        float sum[kLaneDims] = {}, lost[kLaneDims] = {};
#pragma unroll 4
        for (ptrdiff_t part = 0; !found && part < plan.parts; ++part) {
            add_part(sum, lost, plan.sums + at + part * size, left);
        }
        for (ptrdiff_t part = 0; found && part < plan.parts; ++part) {
            add_part(sum, lost, plan.sums + at + part * size, left);
            if (plan.found_of(number, part, row / kGroup) != 0) {
                add_part(sum, lost, plan.near_sums + at + part * size, left);
            }
        }
#pragma unroll
        for (int i = 0; i < kLaneDims; ++i) {
            if (i * 32 < left) {
                to[block + lane + i * 32] = both_parts(sum[i], lost[i]);
            }
        }
    }
}

}  // namespace gradient_product
}  // namespace gd
#endif
