/* run_apsp.h: what shortest paths in one graph and in many graphs have in common. */
#ifndef GPUDIST_RUN_APSP_H
#define GPUDIST_RUN_APSP_H

#include <math.h>

#include "gpudist.h"

/* int32 weights must lie below this, path lengths of a result below twice it. */
#define GD_I32_WEIGHT_LIMIT 536870912.0 /* 2**29 */

/* How much longer than its weights' exact sum a cycle's computed length can be: k edges take k
 * roundings to the dtype and k - 1 sums, of up to 2, 3, ... k weights each. Sums along paths of
 * distinct nodes are exact if they are whole numbers that the dtype holds. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    double gd_cycle_rounding(gd_dtype dtype, ptrdiff_t nodes, double max_abs, bool fractional)
{
    const bool narrow = dtype == GD_F32;
    const double n = (double)nodes, longest = max_abs * n;
    if (dtype == GD_I32 || (!fractional && longest <= (narrow ? 0x1p24 : 0x1p53))) {
        return 0;
    }
    if (longest >= (narrow ? 0x1p126 : 0x1p1022)) {
        return HUGE_VAL;
    }
    return longest * (n + 8) * (narrow ? 0x1p-24 : 0x1p-53);
}

/* One graph from weights as given to lengths as they are wanted, by apsp/cuda_blocked: a batch of
 * one, of pitch nodes, whose rows are graph.weights.row_stride apart. Sizing tells whether it takes
 * this graph. */
#ifdef __cplusplus
extern "C"
#endif
    gd_status gd_cuda_apsp_whole(gd_apsp_batch *call, bool *takes, gd_error *err);

#endif
