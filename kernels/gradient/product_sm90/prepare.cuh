/* prepare.cuh: from points to what is multiplied: the centre, whether products are better than
 * differences, images of the rows of b, and the lengths of rows. */
#ifndef GPUDIST_GRADIENT_PRODUCT_SM90_PREPARE_CUH
#define GPUDIST_GRADIENT_PRODUCT_SM90_PREPARE_CUH

#include "gradient/product_sm90/plan.cuh"

namespace gd {
namespace gradient_product {

constexpr int kSample = 64, kCentreWarps = 16, kCentreRows = kSample / kCentreWarps;
constexpr int kPrepareThreads = 256, kPrepareWarps = kPrepareThreads / 32;
constexpr int kMeasured = 4 * kPrepareWarps; /* rows of a that a block measures */
/* If more of the sample's 2016 pairs are such as products may not have, differences are better:
 * from 1 in 64 pairs on near.cuh takes longer than they do, and from 1 in 1000 on it looks at all.
 */
constexpr unsigned kMostNear = 1;

/* A row of the sample, which lies in all of b. */
__device__ __forceinline__ ptrdiff_t sample_row(ptrdiff_t count, int row)
{
    return count >= GD_SAMPLE ? gd_sample_row(count, row * (GD_SAMPLE / kSample))
                              : row * count / kSample;
}

/* The centre is the median of a sample of b's rows, column by column: up to half of them may be
 * anywhere. A block has 32 columns, and each number is compared with all others of its column. */
static __global__ void __launch_bounds__(kCentreWarps * 32)
    find_centre(const __grid_constant__ Gradient<float> call, const __grid_constant__ Plan plan)
{
    __shared__ float values[kSample][32];
    follow();
    const ptrdiff_t across = plan.columns() / 32;
    const ptrdiff_t number = blockIdx.x / across, k = blockIdx.x % across * 32 + threadIdx.x % 32;
    const float *const b = call.b.data + call.batch.offset(call.b.apart, number);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float endless = __int_as_float(0x7f800000);
    if (threadIdx.x == 0 && blockIdx.x % across == 0) {
        plan.direct[number] = plan.near_pairs[number] = 0;
    }
#pragma unroll
    for (int i = 0; i < kCentreRows; ++i) {
        const int row = i * kCentreWarps + warp;
        const float x =
            k < call.d ? __ldg(b + sample_row(call.b.count, row) * call.b.stride + k) : 0.0f;
        values[row][lane] = x == x ? x : endless;
    }
    __syncthreads();
    float own[kCentreRows];
    int before[kCentreRows] = {};
#pragma unroll
    for (int i = 0; i < kCentreRows; ++i) {
        own[i] = values[i * kCentreWarps + warp][lane];
    }
    for (int row = 0; row < kSample; ++row) {
        const float other = values[row][lane];
#pragma unroll
        for (int i = 0; i < kCentreRows; ++i) {
            before[i] += other < own[i] || (other == own[i] && row < i * kCentreWarps + warp);
        }
    }
#pragma unroll
    for (int i = 0; i < kCentreRows; ++i) {
        if (before[i] == kSample / 2) {
            plan.centre[number * plan.columns() + k] = fabsf(own[i]) < endless ? own[i] : 0.0f;
        }
    }
}

/* The largest element of a row in each block of columns, and its length. */
struct Measures {
    float largest[kMostDims / kDims], norm;
};

/* A warp measures a row. */
__device__ __forceinline__ Measures measure(const float *x, bool there, ptrdiff_t d,
                                            const float *centre)
{
    Measures own = {};
    float sum = 0, most = 0;
#pragma unroll
    for (int block = 0; block < kMostDims / kDims; ++block) {
#pragma unroll
        for (int i = 0; i < kDims / 32; ++i) {
            const ptrdiff_t k = block * kDims + i * 32 + threadIdx.x % 32;
            const float moved = there && k < d ? __ldg(x + k) - __ldg(centre + k) : 0.0f;
            sum = __fmaf_rn(moved, moved, sum);
            own.largest[block] = fmaxf(own.largest[block], fabsf(moved));
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            own.largest[block] =
                fmaxf(own.largest[block], __shfl_xor_sync(~0u, own.largest[block], step));
        }
        most = fmaxf(most, own.largest[block]);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    const bool usual = most == 0 || (most >= 1 / kFar && most <= kFar);
    own.norm = usual && sum == sum ? kShare * sum : __int_as_float(0x7f800000);
    return own;
}

/* Notes the lengths of rows of a. */
__device__ __forceinline__ void measure_rows(const Gradient<float> &call, const Plan &plan,
                                             ptrdiff_t number, ptrdiff_t first)
{
    const float *const a = call.a.data + call.batch.offset(call.a.apart, number);
    for (int i = threadIdx.x / 32; i < kMeasured; i += kPrepareWarps) {
        const ptrdiff_t row = first + i;
        const Measures own = measure(a + row * call.a.stride, row < call.a.count, call.d,
                                     plan.centre + number * plan.columns());
        if (threadIdx.x % 32 == 0) {
            plan.norms[number * plan.rows() + row] = own.norm;
        }
    }
}

/* Finds out whether differences are better, from a sample of b alone, so that a row of a does not
 * feel those beside it: a warp measures pairs of one row with others. */
__device__ __forceinline__ void judge(const Gradient<float> &call, const Plan &plan,
                                      ptrdiff_t number, int row)
{
    const float *const b = call.b.data + call.batch.offset(call.b.apart, number);
    const float *const centre = plan.centre + number * plan.columns();
    const float *const x = b + sample_row(call.b.count, row) * call.b.stride;
    const int lane = threadIdx.x % 32;
    unsigned near = 0;
    for (int other = row + 1 + threadIdx.x / 32; other < kSample; other += kPrepareWarps) {
        const float *const y = b + sample_row(call.b.count, other) * call.b.stride;
        float guard = 0;
#pragma unroll
        for (int step = 0; step < kMostDims; step += 32) {
            const ptrdiff_t k = step + lane;
            if (k < call.d) {
                const float middle = __ldg(centre + k);
                const float s = __ldg(x + k) - middle, t = __ldg(y + k) - middle;
                guard += (s - t) * (s - t) - kShare * (s * s + t * t);
            }
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            guard += __shfl_xor_sync(~0u, guard, step);
        }
        near += !(guard > 0);
    }
    if (lane == 0 && near != 0 && call.b.count >= GD_SAMPLE &&
        atomicAdd(plan.near_pairs + number, near) + near > kMostNear) {
        plan.direct[number] = 1;
    }
}

/* Makes the images of a slab, of each block of columns one. */
__device__ __forceinline__ void make_images(const Gradient<float> &call, const Plan &plan,
                                            ptrdiff_t number, ptrdiff_t slab)
{
    __shared__ float inverses[kMostDims / kDims][kSlab];
    const float *const b =
        call.b.data + call.batch.offset(call.b.apart, number) + slab * kSlab * call.b.stride;
    const float *const centre = plan.centre + number * plan.columns();
    const ptrdiff_t left = call.b.count - slab * kSlab;
    bool endless = false;
    for (int row = threadIdx.x / 32; row < kSlab; row += kPrepareThreads / 32) {
        const Measures own = measure(b + row * call.b.stride, row < left, call.d, centre);
        const bool usual = own.norm < __int_as_float(0x7f800000);
        endless |= !usual;
        if (threadIdx.x % 32 < plan.blocks) {
            const int block = threadIdx.x % 32;
            const Scaling scaling =
                Scaling::of(fmaxf(block == 0 ? own.largest[0] : own.largest[1], 0x1p-60f));
            Image &image = plan.images[(number * plan.blocks + block) * plan.slabs + slab];
            image.scale[row] = usual ? scaling.up() : 1.0f;
            image.norm[row] = own.norm;
            inverses[block][row] = usual ? scaling.down() : 0.0f;
        }
    }
    endless = __syncthreads_or(endless);
    const int column = threadIdx.x % kDims;
    for (int block = 0; block < plan.blocks; ++block) {
        Image &image = plan.images[(number * plan.blocks + block) * plan.slabs + slab];
        if (threadIdx.x == 0) {
            image.endless = endless;
        }
        const ptrdiff_t k = block * kDims + column;
        const float middle = centre[k];
        for (int chunk = threadIdx.x / kDims; chunk < kChunks; chunk += kPrepareThreads / kDims) {
            float x[8];
            unsigned high[4], low[4];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int row = row_of_chunk(chunk, i);
                const float inverse = inverses[block][row];
                x[i] = inverse != 0 && row < left && k < call.d
                           ? (__ldg(b + row * call.b.stride + k) - middle) * inverse
                           : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                split(x[2 * i], x[2 * i + 1], high[i], low[i]);
            }
            image.high[chunk][column] = make_uint4(high[0], high[1], high[2], high[3]);
            image.low[chunk][column] = make_uint4(low[0], low[1], low[2], low[3]);
        }
    }
}

/* What the centre is known for: blocks for the slabs of b, for rows of a, and for the sample. */
static __global__ void __launch_bounds__(kPrepareThreads)
    prepare(const __grid_constant__ Gradient<float> call, const __grid_constant__ Plan plan)
{
    follow();
    const ptrdiff_t measuring = plan.rows() / kMeasured;
    const ptrdiff_t each = plan.slabs + measuring + kSample;
    const ptrdiff_t number = blockIdx.x / each, at = blockIdx.x % each;
    if (at < plan.slabs) {
        make_images(call, plan, number, at);
    }
    else if (at < plan.slabs + measuring) {
        measure_rows(call, plan, number, (at - plan.slabs) * kMeasured);
    }
    else {
        judge(call, plan, number, (int)(at - plan.slabs - measuring));
    }
}

}  // namespace gradient_product
}  // namespace gd
#endif
