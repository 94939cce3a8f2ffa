/* 02_coalesced.cu: distances between points of the plane, a block's threads walk along its rows.
 *
 * Idea: neighbouring threads should write neighbouring elements. A block still owns `block` rows,
 * but its threads share them: the block's rows x n elements are numbered through, and thread t
 * computes elements t, t + block, t + 2 block, ... A warp's 32 stores then fall into one line of
 * 128 bytes ("coalesced": one access), where step 1 needed 32.
 *
 * What changed: which thread computes what. The price is that a thread no longer knows its row and
 * column: they are the quotient and the remainder of the element's number by n, and GPUs have no
 * instruction for integer division. Some twenty instructions make one, in a chain that takes about
 * 200 cycles.
 *
 * What to expect: the stores are as good as they get, so now the division binds, and with it the
 * latency: 119 blocks of 256 threads are 8 warps on a multiprocessor, each of which waits most
 * of the time. The study reports 359 GB/s of 896; its code takes 10.8 ms on an H200.
 *
 * Reached: 8.8 ms, 417 GB/s. The study's code promotes the root to float64, this one does not.
 * Launch: m / block blocks of `block` threads.
 * Source: the study edm2d (RTX 5070 Ti, n = 30336), step 2. */
#include "common/launch.cuh"

namespace {

__device__ __forceinline__ float distance(float2 p, float2 q)
{
    const float x = p.x - q.x, y = p.y - q.y;
    return sqrtf(fmaf(x, x, y * y));
}

/* Count numbers the elements of a block: 32 bits where they suffice, since a division of 64 bits
 * is a call of a function of about 100 instructions. */
template <typename Count>
__global__ void coalesced(const float2 *a, ptrdiff_t m, const float2 *b, Count n, float *out,
                          ptrdiff_t out_stride)
{
    const ptrdiff_t first = blockIdx.x * (ptrdiff_t)blockDim.x;
    const Count rows = (Count)min(m - first, (ptrdiff_t)blockDim.x), elements = rows * n;
    for (Count element = threadIdx.x; element < elements; element += blockDim.x) {
        const Count row = element / n, col = element % n;
        out[(first + row) * out_stride + col] = distance(a[first + row], b[col]);
    }
}

template <typename Count>
cudaError_t launch(const gd_cdist &call, int block)
{
    return gd::enqueue(call.launch, coalesced<Count>, gd::ceil_div(call.out.rows, block),
                       dim3(block), 0, (const float2 *)call.a.data, call.a.rows,
                       (const float2 *)call.b.data, (Count)call.b.rows, (float *)call.out.data,
                       call.out.row_stride);
}

}  // namespace

extern "C" gd_status gd_cuda_edm2d_coalesced(gd_cdist *call, gd_error *err)
{
    const int block = call->launch.options.value[0];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    /* The last step of the loop goes up to `block` beyond the last element. */
    const bool small = call->b.rows <= UINT32_MAX / block - 1;
    GD_CUDA_TRY(err, "edm2d/2_coalesced",
                small ? launch<uint32_t>(*call, block) : launch<uint64_t>(*call, block));
    return GD_OK;
}
