/* study.cu: the study's whole loop, any version of each part.
 *
 * Idea: the row sums of A bound its root; inv(S) A S with S their diagonal matrix has the same root
 * and row sums that are closer together. So: sum the rows, see whether neighbours agree, scale the
 * eigenvector, rescale A, and again. The host asks after every round whether it was the last.
 *
 * Added here: A itself stays (the loop works on a copy), the copy is of A's type and rounds, so
 * when neighbours agree one product in float64 of A and the eigenvector bounds the root (rows.cuh);
 * only if that interval is narrow enough the loop ends. The first round is such a product, too: it
 * looks at the elements.
 *
 * Bottleneck: memory, three passes over A a round where one would do, five launches, and the host.
 * Launch: see the parts; all take `block` threads.
 * Reached on an H200, Hilbert matrix, N = 8192, 29 rounds to 1e-5: 1.5 s and not there after 32
 * rounds with atomic row sums, 23 ms by warps, 12 ms by blocks, whatever the other parts' versions;
 * the production kernel gets to 1e-6 in 0.85 ms. Source: the study as a whole (126 ms on the best
 * CPU reported, N = 8192, 17 rounds). */
#include "ladders/perron/study.cuh"

#include "perron/rows.cuh"

namespace {

constexpr char kId[] = "perron";
constexpr int kThreads = 256;

/* The options, in the order of the table's row. */
enum { kRowSum, kVectorMax, kEigenvector, kConverged, kBlock };

/* The copy of A: inv(D) A D, with D the diagonal matrix of the vector so far. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    begin(const T *a, ptrdiff_t stride, const double *x, const gd::Study<T> study)
{
    const ptrdiff_t at = gd::thread_index(), n = study.n;
    if (at < n * n) {
        const ptrdiff_t i = at / n, j = at % n;
        study.matrix[at] = (T)(a[i * stride + j] * (x[j] / x[i]));
        if (i == 0) {
            study.vector[j] = (T)x[j];
        }
    }
}

/* The eigenvector becomes the vector that the next product takes. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    hand_over(const gd::Study<T> study, double *x, gd_perron_state *state, int64_t round)
{
    const ptrdiff_t i = gd::thread_index();
    if (i < study.n) {
        x[i] = gd_perron_larger((double)study.vector[i], GD_PERRON_LEAST);
    }
    if (i == 0) {
        state->round = round;
        state->top = 1;
        state->scale = gd_perron_scale(1, state->average);
    }
}

template <typename T>
struct Loop {
    gd_perron *call;
    gd::Round<T> round;
    gd::Study<T> study;
    cudaStream_t stream;
    gd_perron_state state; /* as last seen on the device */

    double *vector(int64_t number) const
    {
        return call->vectors + number % GD_PERRON_KEPT * call->padded;
    }

    cudaError_t fetch(void *to, const void *from, size_t bytes)
    {
        const cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);
        return code == cudaSuccess ? cudaStreamSynchronize(stream) : code;
    }

    /* One product in float64, whose interval counts. */
    cudaError_t certify(bool scan)
    {
        const cudaError_t code = gd::enqueue_round(call->launch, round, scan);
        return code == cudaSuccess ? fetch(&state, call->state, sizeof state) : code;
    }

    /* One round of the study; *agree tells whether it would be its last. */
    cudaError_t turn(bool *agree)
    {
        static constexpr gd::StudyPart<T> *row_sum[] = {gd::row_sum_atomic<T>, gd::row_sum_warp<T>,
                                                        gd::row_sum_block<T>};
        static constexpr gd::StudyPart<T> *vector_max[] = {
            gd::vector_max_atomic<T>, gd::vector_max_warp<T>, gd::vector_max_block<T>};
        static constexpr gd::StudyPart<T> *eigenvector[] = {gd::eigenvector_read<T>,
                                                            gd::eigenvector_broadcast<T>};
        static constexpr gd::StudyPart<T> *converged[] = {gd::converged_vote<T>,
                                                          gd::converged_neighbours<T>};
        const int *version = call->launch.options.value;
        int apart = 0;
        cudaError_t code;
        /* Sums, the largest and the mark lie together. */
        const size_t bytes = (size_t)((char *)(study.apart + 1) - (char *)study.sums);
        if ((code = cudaMemsetAsync(study.sums, 0, bytes, stream)) == cudaSuccess &&
            (code = row_sum[version[kRowSum]](study)) == cudaSuccess &&
            (code = converged[version[kConverged]](study)) == cudaSuccess &&
            (code = vector_max[version[kVectorMax]](study)) == cudaSuccess &&
            (code = eigenvector[version[kEigenvector]](study)) == cudaSuccess) {
            code = fetch(&apart, study.apart, sizeof apart);
        }
        *agree = apart == 0;
        return code;
    }

    cudaError_t run()
    {
        int64_t done = call->from;
        cudaError_t code = cudaSuccess;
        state.stop = GD_PERRON_GOING;
        if (call->scan) {
            code = certify(true);
            ++done;
        }
        if (code == cudaSuccess && state.stop == GD_PERRON_GOING && done < call->until) {
            code = gd::enqueue(call->launch, begin<T>, gd::ceil_div(study.n * study.n, kThreads),
                               kThreads, 0, round.a, round.stride, vector(done), study);
        }
        while (code == cudaSuccess && state.stop == GD_PERRON_GOING && done < call->until) {
            bool agree = true;
            if (done + 1 < call->until) { /* the last round is a product */
                code = turn(&agree);
                ++done;
            }
            if (code == cudaSuccess && (agree || done + 1 >= call->until)) {
                code = gd::enqueue(call->launch, hand_over<T>, gd::ceil_div(study.n, kThreads),
                                   kThreads, 0, study, vector(done), call->state, done);
                code = code == cudaSuccess ? certify(false) : code;
                ++done;
            }
            if (code == cudaSuccess && state.stop == GD_PERRON_GOING && done < call->until) {
                code = gd::transform_cached<T>(study);
            }
        }
        return code;
    }
};

template <typename T>
gd_status run(gd_perron *call, gd_error *err)
{
    const ptrdiff_t n = call->a.rows;
    const size_t room = (gd::round_bytes<T>(call) + 255) / 256 * 256;
    call->launch.workspace_bytes = room + (size_t)(n * n + 2 * n + 1) * sizeof(T) + sizeof(int);
    if (call->launch.sizing) {
        return GD_OK;
    }
    Loop<T> loop = {};
    loop.call = call;
    loop.stream = (cudaStream_t)call->launch.stream;
    T *const memory = reinterpret_cast<T *>((char *)call->launch.workspace + room);
    T *const vector = memory + n * n, *const sums = vector + n, *const top = sums + n;
    loop.study = {call->launch,
                  n,
                  memory,
                  sums,
                  vector,
                  top,
                  reinterpret_cast<int *>(top + 1),
                  call->tol,
                  call->launch.options.value[kBlock]};
    GD_CUDA_TRY(err, kId, gd::prepare_rounds(*call, &loop.round));
    GD_CUDA_TRY(err, kId, loop.run());
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_perron_study(gd_perron *call, gd_error *err)
{
    return gd::with_float_type(call->a.dtype,
                               [&](auto type) { return run<decltype(type)>(call, err); });
}
