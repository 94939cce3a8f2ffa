/* relay.cu: a matrix on the device, copied to another layout.
 *
 * Idea: an element a thread, in the order in which the copy lies in memory: stores are side by
 * side, loads wherever they have to be. That takes a transposition 3 to 4 times as long as turning
 * tiles in shared memory would, but operands are as nothing beside the result they lead to: 16000
 * rows of 200 float32 are 12.8 MB and take some 20 us, before a kernel of a millisecond.
 *
 * Launch: 256 threads a block. */
#include "common/launch.cuh"

namespace {

constexpr int kThreads = 256;

/* `lines` are the rows of the copy, or its columns where those lie together. */
template <typename T>
__global__ void relay(const T *from, ptrdiff_t from_line, ptrdiff_t from_step, T *to,
                      ptrdiff_t to_line, ptrdiff_t to_step, ptrdiff_t count, ptrdiff_t length)
{
    const ptrdiff_t number = blockIdx.x * (ptrdiff_t)kThreads + threadIdx.x;
    if (number < count) {
        const ptrdiff_t line = number / length, k = number % length;
        to[line * to_line + k * to_step] = from[line * from_line + k * from_step];
    }
}

}  // namespace

extern "C" gd_status gd_cuda_relay(const gd_matrix *x, const gd_matrix *to, void *stream,
                                   gd_error *err)
{
    const bool by_rows = to->col_stride <= to->row_stride;
    const ptrdiff_t count = x->rows * x->cols;
    gd_launch launch = {};
    launch.stream = stream;
    if (count == 0) {
        return GD_OK;
    }
    return gd::with_float_type(x->dtype, [&](auto type) {
        using T = decltype(type);
        GD_CUDA_TRY(err, "laying out an operand on the device",
                    gd::enqueue(launch, relay<T>, gd::ceil_div(count, kThreads), dim3(kThreads), 0,
                                (const T *)x->data, by_rows ? x->row_stride : x->col_stride,
                                by_rows ? x->col_stride : x->row_stride, (T *)to->data,
                                by_rows ? to->row_stride : to->col_stride,
                                by_rows ? to->col_stride : to->row_stride, count,
                                by_rows ? x->cols : x->rows));
        return GD_OK;
    });
}
