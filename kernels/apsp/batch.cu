/* batch.cu: shortest paths in many graphs at once.
 *
 * Idea: a graph of up to 128 nodes stays in the registers of a team of threads while the plain loop
 * runs over it, so that the weights are read once and the lengths written once: half a warp, two
 * warps or a block of 256, with 64 elements a thread (held.cuh, batch.cuh). Larger ones are cut
 * into tiles of 128 x 128, which blocks draw from one queue for all graphs (queue.cuh); or, where
 * there are few graphs, two blocks hold each in their registers, or four one of 65 to 128 nodes
 * (batch_parts.cuh), or a team of blocks in shared memory (batch_teams.cuh). Lengths and
 * predecessors are the loop's, and so apsp's, bit for bit.
 *
 * What is not plainly there (another dtype than that of the lengths, edges without direction or all
 * of weight 1, weights to be turned over, a negative number for no edge) is read by a pass of its
 * own, which leaves the lengths of single edges where the results go.
 *
 * Nobody waits for the host in between. Of a graph with negative weights the team takes the loop
 * that any weights may have; on its diagonal, where each node begins without a path to itself, it
 * finds the shortest way around. If that is negative, or so short that rounding may hide that it
 * is, the graph is marked, and looked at alone.
 *
 * Floor: an addition and half a minimum of three an update, 22.3e12 updates a second on an H200, or
 * 16.7e12 with negative weights (semiring/rings.cuh); and 8 bytes an element at 4.7 TB/s, 12 with
 * predecessors. Issue slots bind from 64 nodes on: with 64 elements a thread 192 of 270
 * instructions for two pivots are updates. With 32 nodes reading and writing take as long again.
 *
 * Launch: by graphs as above; tiles by as many blocks as the device holds.
 *
 * Reached on an H200, the kernel alone, float32 that is not negative: 100 000 x 32 nodes 0.312 ms,
 * with predecessors 0.695; 4096 x 64 0.110 and 0.227, 20 000 x 64 0.476 and 1.01; 1000 x 128 0.212
 * and 0.447. With negative weights 100 000 x 32 take 0.373, 4096 x 64 0.131, 1000 x 128 0.249;
 * int32 0.337, 0.105 and 0.211; float64 4096 x 64 0.371. On an H100: by a queue 500 x 256 0.744,
 * with predecessors 1.87, with negative weights 1.09; 100 x 512 1.10 and 2.64, 97 x 1024 7.48
 * (14e12 updates a second); by pairs 64 x 256 0.115, 132 x 256 0.231. */
#include <float.h>

#include "apsp/batch.cuh"
#include "apsp/resident.cuh"
#include "common/edges.cuh"

namespace {

constexpr const char *kReadId = "reading many graphs on the device";
constexpr int kThreads = 256;

/* ---------------------------------------------------------------- graphs in */

__device__ double turned_over(double weight, bool flip)
{
    return flip && weight < HUGE_VAL ? 0.0 - weight : weight;
}
__device__ void convert(double weight, float *out) { *out = (float)weight + 0.0f; }
__device__ void convert(double weight, double *out) { *out = weight + 0.0; }
/* No edge is GD_I32_FAR; a weight out of range is less, and refused by those who read it. */
__device__ void convert(double weight, int32_t *out)
{
    const double far = GD_I32_FAR;
    *out = (int32_t)(weight < HUGE_VAL ? fmin(fmax(weight, 1 - far), far - 1) : far);
}

/* Whether the dtype does not hold it, or it is one of those that no_edge leaves no room for. */
template <typename T>
__device__ bool is_odd(const gd_graph &graph, double weight)
{
    const bool negative = graph.no_edge == GD_NO_EDGE_SENTINEL && graph.sentinel < 0 && weight < 0;
    return weight < HUGE_VAL &&
           (negative || (std::is_same<T, float>::value && fabs(weight) > FLT_MAX) ||
            (std::is_same<T, int32_t>::value && weight != trunc(weight)));
}

/* `share` blocks a graph. What lies beyond its nodes is no edge. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    read_graphs(const __grid_constant__ gd::Graphs<T> job, const __grid_constant__ gd_graph graph,
                size_t size, unsigned share)
{
    const ptrdiff_t number = blockIdx.x / share;
    const int n = job.sizes != NULL ? job.sizes[number] : job.n;
    const ptrdiff_t elements = (ptrdiff_t)job.n * job.n;
    gd_graph own = graph;
    own.weights.data = static_cast<char *>(graph.weights.data) + (size_t)(number * elements) * size;
    bool odd = false;
    for (int at = (int)(blockIdx.x % share) * kThreads + (int)threadIdx.x; at < elements;
         at += (int)share * kThreads) {
        const int i = at / job.n, j = at % job.n;
        double weight = HUGE_VAL;
        if (i < n && j < n) {
            const double there = gd::edge_weight(own, i, j);
            odd |= is_odd<T>(graph, there);
            weight = turned_over(there, graph.flip);
            if (!graph.directed) {
                weight = fmin(weight, turned_over(gd::edge_weight(own, j, i), graph.flip));
            }
        }
        convert(weight, &job.out[number * elements + at]);
    }
    if (odd) {
        job.doubts[number] = 1;
        *job.doubted = 1;
    }
}

/* ---------------------------------------------------------------- one call */

template <typename T>
gd_status run(const gd_apsp_batch &call, gd_error *err)
{
    const gd_launch &launch = call.launch;
    gd::Graphs<T> job = gd::describe<T>(call);
    if (!gd::is_plain(call)) {
        const ptrdiff_t pieces = gd::ceil_div(job.stride, (ptrdiff_t)kThreads * 8);
        const unsigned share = (unsigned)(pieces < 64 ? pieces : 64);
        gd_graph graph = call.graph;
        graph.weights.rows = graph.weights.cols = graph.weights.row_stride = call.pitch;
        graph.weights.col_stride = 1;
        const size_t size = graph.weights.dtype == GD_F64 ? sizeof(double) : sizeof(float);
        GD_CUDA_TRY(err, kReadId,
                    gd::enqueue(launch, read_graphs<T>, call.count * (ptrdiff_t)share, kThreads, 0,
                                job, graph, size, share));
        job.weights = job.out;
        job.has_absent = std::is_same<T, int32_t>::value;
        job.absent = gd::far_of<T>();
    }
    gd::look_for_words(&job);
    return gd::close_batch(launch, job, err);
}

template <typename T>
gd_status size_or_run(gd_apsp_batch *call, gd_error *err)
{
    if (call->launch.sizing) {
        call->launch.workspace_bytes = gd::batch_workspace(gd::describe<T>(*call));
        return GD_OK;
    }
    return run<T>(*call, err);
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_batch(gd_apsp_batch *call, gd_error *err)
{
    return gd::with_weight_type(call->dtype,
                                [&](auto zero) { return size_or_run<decltype(zero)>(call, err); });
}
