/* vectors.cuh: the latest vectors of perron, the oldest first. */
#ifndef GPUDIST_PERRON_VECTORS_CUH
#define GPUDIST_PERRON_VECTORS_CUH

#include "common/launch.cuh"
#include "perron_judge.h"

namespace gd {

struct Vectors {
    double *of[GD_PERRON_KEPT];
    ptrdiff_t n;
    int count;
};

/* The `count` vectors up to number `last`. */
inline Vectors vectors_of(const gd_perron &call, int64_t last, int count)
{
    Vectors x = {};
    x.n = call.a.rows;
    x.count = count;
    for (int k = 0; k < count; ++k) {
        x.of[k] = call.vectors + (last - count + 1 + k) % GD_PERRON_KEPT * call.padded;
    }
    return x;
}

}  // namespace gd
#endif
