/* look.cu: what perron asks of a device beside rounds: where a matrix has zeros and flaws, the
 * vector to begin with, and the last one in the caller's type.
 *
 * Looking takes one read of A, and only matrices that are not positive are looked at. A warp a row:
 * 32 lanes look at 32 neighbours, and a vote makes a word of the pattern of their answers. The host
 * searches the pattern for ways through the graph (perron_pattern.c), which is a matter of bits and
 * of one thing after another. */
#include <float.h>

#include "common/launch.cuh"
#include "perron/write.cuh"

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr char kLook[] = "looking at A on the device", kWrite[] = "writing the Perron vector";
constexpr char kBegin[] = "the first vector of perron";

/* Positions as unsigned numbers, so that -1 is later than any and the first is the least. */
struct Found {
    unsigned long long flaw_at, empty_row;
};
static_assert(sizeof(Found) <= GD_PERRON_LOOK_BYTES, "it stands before the pattern");

template <typename T>
__global__ void __launch_bounds__(kThreads)
    look(const T *a, ptrdiff_t n, ptrdiff_t row_stride, ptrdiff_t col_stride, uint32_t *pattern,
         ptrdiff_t words, Found *found)
{
    const ptrdiff_t row = (ptrdiff_t)blockIdx.x * kWarps + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= n) {
        return;
    }
    const T largest = sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX;
    unsigned any = 0;
    for (ptrdiff_t word = 0; word < words; ++word) {
        const ptrdiff_t col = word * 32 + lane;
        const T element = col < n ? a[row * row_stride + col * col_stride] : (T)0;
        if (!(element >= 0 && element <= largest)) { /* which NaN is not */
            atomicMin(&found->flaw_at, (unsigned long long)(row * n + col));
        }
        const unsigned bits = __ballot_sync(~0u, element != 0);
        any |= bits;
        if (lane == 0) {
            pattern[row * words + word] = bits;
        }
    }
    if (lane == 0 && any == 0) {
        atomicMin(&found->empty_row, (unsigned long long)row);
    }
}

__global__ void __launch_bounds__(kThreads)
    begin(double *x, ptrdiff_t n, ptrdiff_t padded, gd_perron_state *state,
          const __grid_constant__ gd_perron_state first)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i < padded) {
        x[i] = i < n ? 1 : 0;
    }
    if (i == 0) {
        *state = first;
    }
}

__global__ void __launch_bounds__(kThreads) write(const double *x, double top, gd::Written written)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i < written.n) {
        written(x, top, i);
    }
}

template <typename T>
gd_status look_at(const gd_matrix &a, cudaStream_t stream, char *scratch, uint64_t *pattern,
                  gd_perron_facts *facts, gd_error *err)
{
    const ptrdiff_t n = a.rows, words = gd::ceil_div(n, 64) * 2;
    const size_t bytes = (size_t)(n * words) * sizeof(uint32_t);
    gd_launch launch = {};
    launch.stream = stream;
    Found found = {};
    T flaw = 0;
    GD_CUDA_TRY(err, kLook, cudaMemsetAsync(scratch, 0xff, sizeof(Found), stream));
    GD_CUDA_TRY(err, kLook,
                gd::enqueue(launch, look<T>, gd::ceil_div(n, kWarps), kThreads, 0,
                            static_cast<const T *>(a.data), n, a.row_stride, a.col_stride,
                            reinterpret_cast<uint32_t *>(scratch + GD_PERRON_LOOK_BYTES), words,
                            reinterpret_cast<Found *>(scratch)));
    GD_CUDA_TRY(err, kLook,
                cudaMemcpyAsync(&found, scratch, sizeof(Found), cudaMemcpyDeviceToHost, stream));
    GD_CUDA_TRY(err, kLook,
                cudaMemcpyAsync(pattern, scratch + GD_PERRON_LOOK_BYTES, bytes,
                                cudaMemcpyDeviceToHost, stream));
    GD_CUDA_TRY(err, kLook, cudaStreamSynchronize(stream));
    facts->flaw_at = (ptrdiff_t)found.flaw_at;
    facts->empty_row = (ptrdiff_t)found.empty_row;
    if (facts->flaw_at >= 0) {
        GD_CUDA_TRY(
            err, kLook,
            cudaMemcpyAsync(&flaw,
                            static_cast<const T *>(a.data) + facts->flaw_at / n * a.row_stride +
                                facts->flaw_at % n * a.col_stride,
                            sizeof(T), cudaMemcpyDeviceToHost, stream));
        GD_CUDA_TRY(err, kLook, cudaStreamSynchronize(stream));
    }
    facts->flaw = (double)flaw;
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_perron_look(const gd_matrix *a, void *stream, void *scratch,
                                         uint64_t *pattern, gd_perron_facts *facts, gd_error *err)
{
    return gd::with_float_type(a->dtype, [&](auto type) {
        return look_at<decltype(type)>(*a, (cudaStream_t)stream, static_cast<char *>(scratch),
                                       pattern, facts, err);
    });
}

extern "C" gd_status gd_cuda_perron_begin(const gd_perron *call, const gd_perron_state *first,
                                          gd_error *err)
{
    GD_CUDA_TRY(err, kBegin,
                gd::enqueue(call->launch, begin, gd::ceil_div(call->padded, kThreads), kThreads, 0,
                            call->vectors, call->a.rows, call->padded, call->state, *first));
    return GD_OK;
}

extern "C" gd_status gd_cuda_perron_write(const double *x, double top, const gd_matrix *out,
                                          void *stream, gd_error *err)
{
    gd_launch launch = {};
    launch.stream = stream;
    GD_CUDA_TRY(err, kWrite,
                gd::enqueue(launch, write, gd::ceil_div(out->cols, kThreads), kThreads, 0, x, top,
                            gd::written_to(*out)));
    return GD_OK;
}
