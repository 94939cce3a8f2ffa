/* multiply.cuh: the products of tensor_f64.cu, and the results made of them.
 *
 * A block of four warps takes 128 x 64 results, each warp 32 x 64, whose sums fill half of its
 * registers. Slabs of 16 dimensions come through four buffers of asynchronous copies. Two blocks
 * share a multiprocessor: while one finishes its tile, the other keeps the tensor cores busy.
 *
 * What keeps cdist(X, X) symmetric to the last bit: a sum adds its dimensions in the same order
 * wherever it stands, and products and the norms' sum do not care which operand comes first. */
#ifndef GPUDIST_CDIST_PRODUCT_F64_MULTIPLY_CUH
#define GPUDIST_CDIST_PRODUCT_F64_MULTIPLY_CUH

#include "common/grid.cuh"
#include "cdist/product_f64/without_panels.cuh"
#include "cdist/product/lines.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kThreads = 128, kBuffers = 4, kBufferWords = 3 * kPanelWords;
/* The norms of a tile come with its first slab: registers have no room for them until its end. */
constexpr int kNormWords = (kTileRows + kPartCols) / 2;
constexpr size_t kShared = sizeof(double2) * (kBuffers * kBufferWords + kNormWords);

/* A warp's sums: 2 x 8 products of 16 rows by 8 columns; and its results, if they start anywhere,
 * for which the slabs make room. */
constexpr int kDown = 2, kAcross = 8;
using Sums = double[kDown][kAcross][2][2];
using Staged = Rows<double, kDown * kUnitRows, kPartCols>;
static_assert(sizeof(Staged) * (kThreads / 32) <= kShared, "shared memory of a block");

/* The panels that a block copies: two of rows and one of columns, slab after slab. */
struct Source {
    const double2 *upper, *lower, *columns;
    unsigned to; /* the thread's first word in the first buffer */

    __device__ __forceinline__ void bring(ptrdiff_t slab, unsigned buffer) const
    {
        constexpr int kEach = kPanelWords / kThreads, kBytes = sizeof(double2);
        const unsigned at = to + buffer * kBufferWords * kBytes;
        const ptrdiff_t from = slab * kPanelWords;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int word = i * kThreads;
            copy_word(at + word * kBytes, upper + from + word);
            copy_word(at + (word + kPanelWords) * kBytes, lower + from + word);
            copy_word(at + (word + 2 * kPanelWords) * kBytes, columns + from + word);
        }
    }
};

/* Adds a slab. from_a and from_b: the thread's first words of its warp's units. */
__device__ __forceinline__ void add_slab(Sums &sums, const double2 *from_a, const double2 *from_b)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        double2 a[kDown][2], b[kAcross];
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
            b[j] = from_b[j * kUnitWords / 2 + half * 32];
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
            a[i][0] = from_a[i * kUnitWords + half * 64];
            a[i][1] = from_a[i * kUnitWords + half * 64 + 32];
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
#pragma unroll
            for (int j = 0; j < kAcross; ++j) {
                multiply_add(sums[i][j], a[i], b[j]);
            }
        }
    }
}

/* Calls f(i, j, h, run, at, start) for a thread's words of results, the first of which is at (row,
 * col), as far as there are such rows. */
template <Form kForm, typename F>
__device__ __forceinline__ void for_words(const Cdist<double, kForm> &call, ptrdiff_t row,
                                          ptrdiff_t col, F f)
{
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
        const Run<double> run(call, col + j * 8, 1);
        double *at = call.row(row) + run.first;
        const int start = run.start(call, row);
#pragma unroll
        for (int i = 0; i < kDown * 2; at += call.step(row + i * 8, 8), ++i) {
            if (row + i * 8 < call.a.count) {
                f(i / 2, j, i % 2, run, at, start + i * 8);
            }
        }
    }
}

/* Joins sums with what the results' places hold, unless `first`, and puts them there if `put`. */
template <Form kForm>
__device__ __forceinline__ void join_group(const Cdist<double, kForm> &call, Sums &sums,
                                           ptrdiff_t row, ptrdiff_t col, bool first, bool put)
{
    const auto join = [&](int i, int j, int h, const Run<double> &run, double *at, int start) {
        double (&sum)[2] = sums[i][j][h];
        double before[2] = {};
        if (!first) {
            run.load(at, before, start);
        }
        sum[0] += before[0];
        sum[1] += before[1];
        if (put) {
            run.store<true>(at, sum, start);
            sum[0] = sum[1] = 0;
        }
    };
    for_words(call, row, col, join);
}

/* Finishes and stores a warp's results and notes which are to be computed again. whole: all of the
 * tile is there. kWords: and can be stored by words. */
template <gd_metric kMetric, bool kWords, Form kForm>
__device__ __forceinline__ void store_tile(const Cdist<double, kForm> &call, const Plan &plan,
                                           const Sums &sums, ptrdiff_t row, ptrdiff_t col,
                                           ptrdiff_t unit, const double *tile_norms, Staged &staged,
                                           bool whole)
{
    const int lane = threadIdx.x % 32;
    const ptrdiff_t first_row = row - lane / 4, first_col = col - lane % 4 * 2;
    double *rooms[kDown * 2] = {};
    if constexpr (!kWords) {
        staged.aim(call, first_row, first_col);
#pragma unroll
        for (int i = 0; i < kDown * 2; ++i) {
            rooms[i] = staged.room(lane / 4 + i * 8) + lane % 4 * 2;
        }
    }
    uint32_t suspects[kDown] = {};
    unsigned some = 0;
    double norms[kDown * 2];
#pragma unroll
    for (int i = 0; i < kDown * 2; ++i) {
        norms[i] = tile_norms[threadIdx.x / 32 * kDown * kUnitRows + lane / 4 + i * 8];
    }
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
        double across[2];
        load_word(tile_norms + kTileRows + j * 8 + lane % 4 * 2, across);
        double *to = call.out + row * call.out_stride + col + j * 8;
#pragma unroll
        for (int i = 0; i < kDown * 2; ++i, to += 8 * call.out_stride) {
            double results[2];
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                int guard;
                results[s] = Rules<kMetric>::result(sums[i / 2][j][i % 2][s], norms[i], across[s],
                                                    plan.below, guard);
                suspects[i / 2] = __funnelshift_l((unsigned)guard, suspects[i / 2], 1);
            }
            if constexpr (kWords) {
                stream_word(to, results);
            }
            else {
                rooms[i][j * 8] = results[0];
                rooms[i][j * 8 + 1] = results[1];
            }
        }
    }
    if constexpr (!kWords) {
        staged.send(call, first_row, first_col, whole);
    }
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
        if (call.packed()) {
            suspects[i] =
                right_of_diagonal<double>(suspects[i], first_row + i * kUnitRows, first_col);
        }
        some |= plan.suspects.note<double>(unit + i, suspects[i]);
    }
    if (some != 0 && lane == 0) {
        note_some(plan.suspects);
    }
}

template <gd_metric kMetric, Form kForm>
__global__ void __launch_bounds__(kThreads, 2)
    multiply(const __grid_constant__ Cdist<double, kForm> call, const __grid_constant__ Plan plan,
             const __grid_constant__ Grid grid)
{
    extern __shared__ __align__(128) double2 buffers[];
    follow();
    unsigned found_row, found_col;
    if (plan.suspects.direct() || !grid.find<kForm>(&found_row, &found_col) ||
        !call.has((ptrdiff_t)found_row * kTileRows, (ptrdiff_t)(found_col + 1) * kPartCols)) {
        return;
    }
    const ptrdiff_t tile_row = found_row, tile_col = found_col;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const ptrdiff_t slabs = plan.slabs;
    Source source;
    source.upper = plan.panels_a + tile_row * 2 * slabs * kPanelWords + thread;
    source.lower = source.upper + slabs * kPanelWords;
    source.columns = plan.panels_b + tile_col * slabs * kPanelWords + thread;
    source.to = shared_address(buffers + thread);
    double *const tile_norms = (double *)(buffers + kBuffers * kBufferWords);
    if (thread < kNormWords) {
        const double *const from = thread < kTileRows / 2
                                       ? plan.norms_a + tile_row * kTileRows
                                       : plan.norms_b + tile_col * kPartCols - kTileRows;
        copy_word(shared_address(tile_norms + thread * 2), (const double2 *)(from + thread * 2));
    }
#pragma unroll
    for (int s = 0; s < kBuffers - 1; ++s) {
        if (s < slabs) {
            source.bring(s, s);
        }
        end_copies();
    }

    const ptrdiff_t row = tile_row * kTileRows + warp * kDown * kUnitRows + lane / 4;
    const ptrdiff_t col = tile_col * kPartCols + lane % 4 * 2;
    const double2 *const from_a = buffers + warp * kDown * kUnitWords + lane;
    const double2 *const from_b = buffers + 2 * kPanelWords + lane;
    Sums sums = {};
    unsigned buffer = 0;
    ptrdiff_t slab = 0;
#pragma unroll 1
    while (true) {
        const ptrdiff_t end = min(slab + kGroupSlabs, slabs);
#pragma unroll 1
        for (; slab < end; ++slab) {
            await_copies<kBuffers - 2>();
            __syncthreads(); /* the slab is there, and nobody reads the last one any more */
            if (slab + kBuffers - 1 < slabs) {
                source.bring(slab + kBuffers - 1, (buffer + kBuffers - 1) % kBuffers);
            }
            end_copies();
            add_slab(sums, from_a + buffer * kBufferWords, from_b + buffer * kBufferWords);
            buffer = (buffer + 1) % kBuffers;
        }
        if (slab == slabs) {
            break;
        }
        join_group(call, sums, row, col, slab == kGroupSlabs, true);
    }
    if (slabs > kGroupSlabs) {
        join_group(call, sums, row, col, false, false);
    }
    const bool whole = (tile_row + 1) * kTileRows <= call.a.count &&
                       (tile_col + 1) * kPartCols <= call.b.count &&
                       (!call.packed() || (tile_row + 1) * kTileRows <= tile_col * kPartCols);
    const ptrdiff_t unit =
        (tile_row * plan.suspects.parts_across + tile_col) * kUnits + warp * kDown;
    Staged &staged = reinterpret_cast<Staged *>(buffers)[warp];
    if (whole && call.words) {
        store_tile<kMetric, true>(call, plan, sums, row, col, unit, tile_norms, staged, whole);
    }
    else {
        __syncthreads(); /* nobody reads the last slab any more */
        store_tile<kMetric, false>(call, plan, sums, row, col, unit, tile_norms, staged, whole);
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
