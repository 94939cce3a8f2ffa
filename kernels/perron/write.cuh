/* write.cuh: the latest vector in the caller's type. */
#ifndef GPUDIST_PERRON_WRITE_CUH
#define GPUDIST_PERRON_WRITE_CUH

#include "common/launch.cuh"

namespace gd {

/* Where the caller wants the vector; in its own type, but no component less than the least number
 * that is positive. */
struct Written {
    void *to;
    bool narrow;
    ptrdiff_t n;

    __device__ void operator()(const double *x, double top, ptrdiff_t i) const
    {
        const double share = x[i] / top;
        if (narrow) {
            static_cast<float *>(to)[i] = fmaxf((float)share, 0x1p-149f);
        }
        else {
            static_cast<double *>(to)[i] = fmax(share, 0x1p-1074);
        }
    }
};

inline Written written_to(const gd_matrix &out)
{
    return {out.data, out.dtype == GD_F32, out.cols};
}

}  // namespace gd
#endif
