/* rows.cu: rounds of x <- A x, a launch each, for devices without the bulk copies that
 * resident_sm90a.cu lives on. All rounds of a burst are enqueued at once: the device judges each,
 * and those behind the last return without reading A.
 *
 * Floor: bytes of A / the bandwidth of reading, and two microseconds a launch. Reached on an H200,
 * a round: 13 us for 2048 float32, 74 us for 8192 (1.2 of the time that plainly reading A takes),
 * 255 us for 16384 (1.06), 1027 us for 32768 (1.08); float64: 15, 137 (1.12), 540 (1.13) and 1957
 * us (1.03). */
#include "perron/rows.cuh"

namespace {

constexpr char kId[] = "perron/cuda_rows";

template <typename T>
gd_status run(gd_perron *call, gd_error *err)
{
    gd::Round<T> job;
    call->launch.workspace_bytes = gd::round_bytes<T>(call);
    if (call->launch.sizing) {
        return GD_OK;
    }
    GD_CUDA_TRY(err, kId, gd::prepare_rounds(*call, &job));
    for (int64_t round = call->from; round < call->until; ++round) {
        GD_CUDA_TRY(err, kId,
                    gd::enqueue_round(call->launch, job, call->scan && round == call->from));
    }
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_perron_rows(gd_perron *call, gd_error *err)
{
    return gd::with_float_type(call->a.dtype,
                               [&](auto type) { return run<decltype(type)>(call, err); });
}
