/* matrices.cuh: a call that is for many matrices, as kernels of cdist see it. */
#ifndef GPUDIST_CDIST_MATRICES_CUH
#define GPUDIST_CDIST_MATRICES_CUH

#include "common/metrics.cuh"
#include "common/stack.cuh"

namespace gd {

/* Where a matrix of a batch begins, in elements of the operands and the result; and how many rows
 * and matrices of an operand are before it that are not one another. Blocks keep it in shared
 * memory: it is needed too seldom for registers. */
struct Begin {
    ptrdiff_t a, b, out, rows_a, rows_b, matrices_b;
};

struct Matrices {
    Apart a, b, out;
    Apart passed_a, passed_b; /* how many matrices of an operand that are not one another */
    Batch batch;
    ptrdiff_t count;

    /* Finds where matrix `number` begins, of operands of so many rows. A whole block calls this. */
    __device__ __forceinline__ void find(Begin &to, unsigned number, ptrdiff_t rows_a,
                                         ptrdiff_t rows_b) const
    {
        if (threadIdx.x == 0) {
            Begin sum = {};
            unsigned left = number;
#pragma unroll 1
            for (int axis = batch.axes - 1; axis >= 0; --axis) {
                const unsigned place = left % batch.shape[axis];
                left /= batch.shape[axis];
                sum.a += place * a.along[axis], sum.b += place * b.along[axis];
                sum.out += place * out.along[axis];
                sum.rows_a += place * passed_a.along[axis] * rows_a;
                sum.matrices_b += place * passed_b.along[axis];
            }
            sum.rows_b = sum.matrices_b * rows_b;
            to = sum;
        }
        __syncthreads();
    }
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

/* S: the operands' type. */
template <typename T, typename S = T>
Matrices matrices_of(const gd_cdist &call)
{
    const bool many = call.many.count > 0;
    Matrices matrices = {};
    matrices.count = many ? call.many.count : 1;
    matrices.batch = batch_of(many ? call.many.axes : 0, call.many.shape);
    for (int axis = 0; axis < matrices.batch.axes; ++axis) {
        matrices.a.along[axis] = call.many.a[axis] / (ptrdiff_t)sizeof(S);
        matrices.b.along[axis] = call.many.b[axis] / (ptrdiff_t)sizeof(S);
        matrices.out.along[axis] = call.many.out[axis] / (ptrdiff_t)sizeof(T);
        matrices.passed_a.along[axis] = call.many.own_a->passed[axis];
        matrices.passed_b.along[axis] = call.many.own_b->passed[axis];
    }
    return matrices;
}

/* An operand's matrices that are not one another, one after the other (gd_own). */
template <typename T>
struct Own {
    Points<T> first;
    Apart apart;
    Batch batch;
    ptrdiff_t count;

    __host__ __device__ __forceinline__ ptrdiff_t rows() const { return count * first.count; }
    __device__ __forceinline__ Points<T> matrix(ptrdiff_t number) const
    {
        Points<T> x = first;
        x.data += batch.offset(apart, number);
        return x;
    }
    /* The points among which a row, counted from the first matrix's first on, has this number. */
    __device__ __forceinline__ Points<T> around(ptrdiff_t row) const
    {
        if (count == 1) {
            return first;
        }
        const ptrdiff_t number = row / first.count;
        Points<T> x = matrix(number);
        x.data -= number * first.count * first.row_stride;
        return x;
    }
};

/* own: NULL where there is one matrix. */
template <typename T>
Own<T> own_of(const gd_matrix &first, const gd_own *own)
{
    Own<T> all = {};
    all.first = points_of<T>(first);
    all.batch = batch_of(own != nullptr ? own->axes : 0, own != nullptr ? own->shape : nullptr);
    all.count = own != nullptr ? own->count : 1;
    for (int axis = 0; axis < all.batch.axes; ++axis) {
        all.apart.along[axis] = own->strides[axis] / (ptrdiff_t)sizeof(T);
    }
    return all;
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
