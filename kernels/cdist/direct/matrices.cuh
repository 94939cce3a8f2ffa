/* matrices.cuh: a call that is for many matrices, as kernels of cdist see it. */
#ifndef GPUDIST_CDIST_DIRECT_MATRICES_CUH
#define GPUDIST_CDIST_DIRECT_MATRICES_CUH

#include "common/metrics.cuh"
#include "common/stack.cuh"

namespace gd {

struct Matrices {
    Apart a, b, out;
    Batch batch;
    ptrdiff_t count;

    /* The call for matrix `number` alone. */
    template <typename T>
    __device__ __forceinline__ Cdist<T> one(const Cdist<T> &first, ptrdiff_t number) const
    {
        Cdist<T> call = first;
        call.a.data += batch.offset(a, number);
        call.b.data += batch.offset(b, number);
        call.out += batch.offset(out, number);
        return call;
    }
};

template <typename T>
Matrices matrices_of(const gd_cdist &call)
{
    const bool many = call.many.count > 0;
    Matrices matrices = {};
    matrices.count = many ? call.many.count : 1;
    matrices.batch = batch_of(many ? call.many.axes : 0, call.many.shape);
    for (int axis = 0; axis < matrices.batch.axes; ++axis) {
        matrices.a.along[axis] = call.many.a[axis] / (ptrdiff_t)sizeof(T);
        matrices.b.along[axis] = call.many.b[axis] / (ptrdiff_t)sizeof(T);
        matrices.out.along[axis] = call.many.out[axis] / (ptrdiff_t)sizeof(T);
    }
    return matrices;
}

/* Whether what is aligned in the first matrix is so in all. */
template <typename T>
bool all_of_words(const Matrices &matrices, const Apart &apart)
{
    bool words = true;
    for (int axis = 0; axis < matrices.batch.axes; ++axis) {
        words &= apart.along[axis] % kPerWord<T> == 0;
    }
    return words;
}

/* The parameters of the first; its results are of words if those of all are. */
template <typename T>
Cdist<T> first_of(const gd_cdist &call, const Matrices &matrices)
{
    Cdist<T> first = parameters_of<T>(call);
    first.words &= all_of_words<T>(matrices, matrices.out);
    return first;
}

}  // namespace gd
#endif
