/* 03_pitched.cu: the tiles of step 2 from pitched memory.
 *
 * Idea: a warp that reads 32 neighbouring floats touches one line of 128 bytes if they start on
 * one, else two. With 1000 points dimension k starts at byte 4000 * k, mostly off a line. So let
 * each dimension start on a multiple of 512 bytes, which is what cudaMallocPitch gives.
 *
 * What changed: where the operands lie. This step copies them, unless they lie so already; the copy
 * is part of its time.
 *
 * What to expect: nothing to speak of, and that is the lesson. Only the copies to shared memory
 * gain, 1 load in 32, and the second line that they touch is the next warp's first, waiting in L1.
 * On cards without caches, for which the advice was written, it halved the traffic. An H200 takes
 * 1.12 ms as before; where the copy is of all points, as for 1000 x 1000 x 15000, it costs 4 %.
 * The study reports 21.0 ms after 20.8.
 *
 * Launch: two copies, then as step 2.
 * Source: the study euler (card not named; 16000 x 1000 x 200), step 3. */
#include "ladders/euler/tiled.cuh"

namespace {

constexpr const char *kId = "euler/3_pitched";
constexpr ptrdiff_t kPitch = 128; /* floats in 512 bytes */

bool is_pitched(const gd_matrix &x)
{
    const bool starts_aligned = (uintptr_t)x.data % (kPitch * sizeof(float)) == 0;
    return x.cols == 0 || (starts_aligned && x.col_stride % kPitch == 0);
}

gd_status count_bytes(const gd_matrix &x, size_t *bytes, gd_error *err)
{
    const ptrdiff_t pitch = gd::ceil_div(x.rows, kPitch) * kPitch;
    *bytes = 0;
    if (!is_pitched(x) && __builtin_mul_overflow((size_t)pitch * sizeof(float), x.cols, bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s: a pitched copy is larger than any memory", kId);
    }
    return GD_OK;
}

/* Fills *points with x itself, or with a copy of it in `memory`. */
gd_status pitch(const gd_launch &launch, const gd_matrix &x, void *memory, gd::Points *points,
                gd_error *err)
{
    *points = gd::points_of(x);
    if (is_pitched(x)) {
        return GD_OK;
    }
    const size_t row_bytes = x.rows * sizeof(float), from_bytes = x.col_stride * sizeof(float);
    points->data = static_cast<const float *>(memory);
    points->pitch = gd::ceil_div(x.rows, kPitch) * kPitch;
    GD_CUDA_TRY(
        err, kId,
        cudaMemcpy2DAsync(memory, points->pitch * sizeof(float), x.data, from_bytes, row_bytes,
                          x.cols, cudaMemcpyDeviceToDevice, (cudaStream_t)launch.stream));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_euler_pitched(gd_cdist *call, gd_error *err)
{
    size_t a_bytes, b_bytes;
    gd::Points a, b;
    gd_status status = count_bytes(call->a, &a_bytes, err);
    if (status == GD_OK) {
        status = count_bytes(call->b, &b_bytes, err);
    }
    if (status != GD_OK || call->launch.sizing) {
        call->launch.workspace_bytes = status == GD_OK ? a_bytes + b_bytes : 0;
        return status;
    }
    char *const memory = static_cast<char *>(call->launch.workspace);
    status = pitch(call->launch, call->a, memory, &a, err);
    if (status == GD_OK) {
        status = pitch(call->launch, call->b, memory + a_bytes, &b, err);
    }
    if (status == GD_OK) {
        GD_CUDA_TRY(err, kId, gd::enqueue_tiled(*call, a, b));
    }
    return status;
}
