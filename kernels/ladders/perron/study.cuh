/* study.cuh: the parts of the study's loop (study.cu), each in some versions, a file each.
 *
 * The study replaces A by inv(S) A S, S the diagonal matrix of A's row sums, until neighbouring row
 * sums agree; the products of the S, divided by their largest element, become the eigenvector. */
#ifndef GPUDIST_LADDERS_PERRON_STUDY_CUH
#define GPUDIST_LADDERS_PERRON_STUDY_CUH

#include "common/launch.cuh"

namespace gd {

/* The matrix and the vectors that all parts work on, n x n and n elements, dense, on the device. */
template <typename T>
struct Study {
    gd_launch launch;
    ptrdiff_t n;
    T *matrix;
    T *sums;    /* of its rows */
    T *vector;  /* the eigenvector so far */
    T *top;     /* the largest row sum */
    int *apart; /* whether neighbouring sums differ */
    double epsilon;
    int block; /* threads in a block */
};

/* Sums of rows are added to zeros, the largest is taken from zero, `apart` is set from 0. */
template <typename T>
using StudyPart = cudaError_t(const Study<T> &);
template <typename T>
StudyPart<T> row_sum_atomic;
template <typename T>
StudyPart<T> row_sum_warp;
template <typename T>
StudyPart<T> row_sum_block;
template <typename T>
StudyPart<T> vector_max_atomic;
template <typename T>
StudyPart<T> vector_max_warp;
template <typename T>
StudyPart<T> vector_max_block;
template <typename T>
StudyPart<T> eigenvector_read;
template <typename T>
StudyPart<T> eigenvector_broadcast;
template <typename T>
StudyPart<T> transform_cached;
template <typename T>
StudyPart<T> converged_vote;
template <typename T>
StudyPart<T> converged_neighbours;

/* What a part adds to, or takes the largest into, starts from zero. The loop sees to that for all
 * parts at once; who runs a part by itself names what it needs. */
template <typename T>
cudaError_t clear(const Study<T> &s, void *what, size_t bytes)
{
    return cudaMemsetAsync(what, 0, bytes, (cudaStream_t)s.launch.stream);
}
template <typename T>
cudaError_t clear_sums(const Study<T> &s)
{
    return clear(s, s.sums, (size_t)s.n * sizeof(T));
}
template <typename T>
cudaError_t clear_top(const Study<T> &s)
{
    return clear(s, s.top, sizeof(T));
}
template <typename T>
cudaError_t clear_mark(const Study<T> &s)
{
    return clear(s, s.apart, sizeof(int));
}
template <typename T>
cudaError_t clear_nothing(const Study<T> &)
{
    return cudaSuccess;
}

template <typename T>
Study<T> study_of(const gd_perron_part &call)
{
    return {call.launch,
            call.n,
            static_cast<T *>(call.matrix),
            static_cast<T *>(call.sums),
            static_cast<T *>(call.vector),
            static_cast<T *>(call.top),
            call.apart,
            call.epsilon,
            call.launch.options.value[0]};
}

/* In the file that defines a part: both of its types for the loop, and its row in the table. */
#define GD_STUDY_PART(part, make_ready)                                             \
    template cudaError_t gd::part<float>(const gd::Study<float> &);                 \
    template cudaError_t gd::part<double>(const gd::Study<double> &);               \
    extern "C" gd_status gd_cuda_perron_##part(gd_perron_part *call, gd_error *err) \
    {                                                                               \
        return gd::with_float_type(call->dtype, [&](auto type) {                    \
            const auto study = gd::study_of<decltype(type)>(*call);                 \
            GD_CUDA_TRY(err, "perron/" #part, gd::make_ready(study));               \
            GD_CUDA_TRY(err, "perron/" #part, gd::part(study));                     \
            return GD_OK;                                                           \
        });                                                                         \
    }

__device__ __forceinline__ ptrdiff_t thread_index()
{
    return (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* A part with a thread for each of `count` items. */
template <typename T, typename... Parameters, typename... Arguments>
cudaError_t enqueue_part(const Study<T> &s, ptrdiff_t count, void (*kernel)(Parameters...),
                         Arguments... arguments)
{
    return enqueue(s.launch, kernel, ceil_div(count, s.block), s.block, 0, arguments...);
}

/* The sum over a warp's lanes, in lane 0. */
template <typename T>
__device__ __forceinline__ T sum_of_warp(T x)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        x += __shfl_down_sync(~0u, x, lanes);
    }
    return x;
}

template <typename T>
__device__ __forceinline__ T max_of_warp(T x)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const T other = __shfl_down_sync(~0u, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}

/* Positive numbers are in the order of their bits, and integers have an atomic maximum. */
__device__ __forceinline__ void atomic_max(float *to, float x)
{
    atomicMax(reinterpret_cast<int *>(to), __float_as_int(x));
}

__device__ __forceinline__ void atomic_max(double *to, double x)
{
    atomicMax(reinterpret_cast<long long *>(to), __double_as_longlong(x));
}

}  // namespace gd
#endif
