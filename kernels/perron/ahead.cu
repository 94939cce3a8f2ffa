/* ahead.cu: a better vector on the device (perron_ahead.c), a sum of those that walk.cu has seen,
 * with the weights that the host has found. The state that rounds go on with comes along. */
#include "perron/vectors.cuh"

namespace {

constexpr int kThreads = 256;
constexpr char kId[] = "perron's better vector on the device";

struct Weights {
    double of[GD_PERRON_KEPT];
};

__global__ void __launch_bounds__(kThreads)
    combine(const __grid_constant__ gd::Vectors x, const __grid_constant__ Weights weights,
            double share, gd_perron_state *state, const __grid_constant__ gd_perron_state first)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i == 0) {
        *state = first;
    }
    if (i >= x.n) {
        return;
    }
    double sum = 0;
    for (int k = 0; k < x.count; ++k) {
        sum = fma(weights.of[k], x.of[k][i], sum);
    }
    double *const latest = x.of[x.count - 1] + i;
    *latest = gd_perron_larger(gd_perron_larger(sum, share * *latest), GD_PERRON_LEAST);
}

}  // namespace

extern "C" gd_status gd_cuda_perron_combine(const gd_perron *call, const gd_perron_state *state,
                                            int count, const double *weights, double share,
                                            gd_error *err)
{
    Weights all = {};
    for (int k = 0; k < count; ++k) {
        all.of[k] = weights[k];
    }
    GD_CUDA_TRY(
        err, kId,
        gd::enqueue(call->launch, combine, gd::ceil_div(call->a.rows, kThreads), kThreads, 0,
                    gd::vectors_of(*call, state->round, count), all, share, call->state, *state));
    return GD_OK;
}
