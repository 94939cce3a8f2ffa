/* levels.cu: numbers of hops between all nodes of a graph, by sets of bits, on the device.
 *
 * Idea: a node's set holds the targets that are `level` hops away from it. It is the union of its
 * successors' sets of the level before, without what the node has met already (Then et al. 2014,
 * who go through many searches side by side in the same way, with sets of sources). A warp makes
 * the set of one node, 4096 targets at a time, 16 bytes a lane; which of these parts of a set are
 * not empty is a word of bits, so that thin levels cost a few loads a node. A node that has met all
 * targets of a part looks at no more successors: in a dense graph that is after some twenty of
 * them.
 *
 * The first successors of a node, as many as two a lane, are listed once; those beyond are read
 * from the bits of the edges, 32 at a time.
 *
 * Floor: the result's bytes over 4.7 TB/s: n = 16384, float32, 0.23 ms, and the graph's as many.
 * Beyond that a level moves edges * n / 8 bytes, from the second cache where three sets of n^2 / 8
 * bytes fit: 8 edges a node are 268 MB a level, some 0.06 ms.
 *
 * A graph of many levels has launches to wait for, and each a few loads one after the other. Where
 * levels and loads become so many that Floyd-Warshall is quicker, the search is given up (gd_hops);
 * sooner if levels find a few targets a node from the beginning, as on a path. What blocks have
 * loaded and found is counted in many places, lest they wait for each other.
 *
 * Reached on an H200 (3f9522e), float32, n = 16384, ms, where Floyd-Warshall takes 149: random
 * graphs of 2, 8 and 100 edges a node 6.5, 3.8 and 3.4; half of all edges 10; a grid of 128 x 128
 * 24.5. n = 4096, against 4.0: 8 and 100 edges a node 0.38 and 0.40, half of all edges 0.76. Of the
 * 3.8 ms the levels are 2.75, where writes of targets that are no neighbours bind; reading the
 * graph is 0.47, what comes before the first level 0.32. A thin level takes 17 us at n = 16384, 10
 * at 4096.
 *
 * Launch: 8 warps a block, a node each; a launch a level. The host looks whether a level found
 * anybody after 4 levels, and then ever less often. */
#include "arch/warp.cuh"
#include "common/launch.cuh"

namespace {

constexpr const char *kId = "hops/cuda_levels";
constexpr int kWarps = 8, kThreads = 32 * kWarps;
/* Blocks on a multiprocessor in a level, by its registers; 7.5 has room for 1024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kBlocks = 4;
#else
constexpr int kBlocks = 5;
#endif
constexpr int kWords = GD_HOPS_WORDS, kTargets = 32 * kWords; /* of a part of a set */
constexpr int kListed = 64;                                   /* successors, two a lane */
constexpr int kCounters = 64, kApart = 16;                    /* 128 bytes */
constexpr ptrdiff_t kFewLevels = 4, kManyLevels = 256;        /* between two looks of the host */
/* How many loads of a part take as long as a launch, and as long as a node in it. */
constexpr double kLaunchLoads = 27000, kNodeLoads = 6;
/* A level is thin that finds fewer targets a node. Where all that were looked at are thin, after so
 * many levels, one for each node is foreseen. */
constexpr double kThin = 8;
constexpr ptrdiff_t kThinLevels = 28;

/* What some blocks did: loads in all levels, and what they found in those that the host looks at.
 */
struct Counter {
    unsigned long long loads, pairs, others[kApart - 2];
};

/* Successors of a node: `listed` are in its list, and others in the bits from word `rest` on. */
struct Successors {
    int listed, rest;
};

struct Levels {
    int n, parts, words_used;
    ptrdiff_t words;
    const uint32_t *bits;
    uint4 *met, *now, *next;    /* n sets of `parts` * 32 words of 16 bytes */
    unsigned *live, *live_next; /* which parts of a node's set are not empty */
    int *lists;
    Successors *successors;
    unsigned *going; /* by level: whether it found anybody */
    Counter *counters;
    unsigned long long most; /* loads that a counter may say */
    ptrdiff_t row_stride;
};

__device__ __forceinline__ uint4 *part_of(uint4 *sets, const Levels &job, int node, int part)
{
    return sets + ((ptrdiff_t)node * job.parts + part) * 32 + threadIdx.x % 32;
}
__device__ __forceinline__ uint4 operator|(uint4 x, uint4 y)
{
    return make_uint4(x.x | y.x, x.y | y.y, x.z | y.z, x.w | y.w);
}
__device__ __forceinline__ uint4 without(uint4 x, uint4 y)
{
    return make_uint4(x.x & ~y.x, x.y & ~y.y, x.z & ~y.z, x.w & ~y.w);
}
/* Whether all lanes have all bits. */
__device__ __forceinline__ bool is_full(uint4 x)
{
    return __all_sync(~0u, (x.x & x.y & x.z & x.w) == ~0u);
}

/* ---------------------------------------------------------------- before the first level */

/* A word of the set in which a node begins: itself, and with `beyond` what is no node. */
__device__ __forceinline__ uint32_t first_word(const Levels &job, int node, int word, bool beyond)
{
    const int left = job.n - 32 * word; /* nodes from the word's first on */
    uint32_t bits = node / 32 == word ? 1u << node % 32 : 0;
    if (beyond && left < 32) {
        bits |= left <= 0 ? ~0u : ~0u << left;
    }
    return bits;
}

__device__ __forceinline__ uint4 first_words(const Levels &job, int node, int word, bool beyond)
{
    return make_uint4(first_word(job, node, word, beyond), first_word(job, node, word + 1, beyond),
                      first_word(job, node, word + 2, beyond),
                      first_word(job, node, word + 3, beyond));
}

/* Lists a node's successors, whole words of them, until the next word's would be too many. */
__device__ Successors list_successors(const Levels &job, int node)
{
    const int lane = threadIdx.x % 32;
    int count = 0, word = 0;
    for (; word < job.words_used; word += 32) {
        uint32_t bits = job.bits[(ptrdiff_t)node * job.words + word + lane];
        const int end = gd::sum_to_lane(__popc(bits)); /* of this lane's, among the warp's */
        const int last = __shfl_sync(~0u, end, 31);
        const bool fits = count + end <= kListed;
        int at = count + end - __popc(bits);
        for (; fits && bits != 0; bits &= bits - 1) {
            job.lists[(ptrdiff_t)node * kListed + at++] = 32 * (word + lane) + __ffs(bits) - 1;
        }
        const unsigned others = ~__ballot_sync(~0u, fits); /* these lanes and all after the first */
        if (others != 0) {
            const int first = __ffs(others) - 1;
            const int listed = __shfl_sync(~0u, end, (first - 1) & 31);
            return {count + (first > 0 ? listed : 0), word + first};
        }
        count += last;
    }
    return {count, job.words_used};
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    begin(const __grid_constant__ Levels job, T *out, T unreachable)
{
    const int node = (int)blockIdx.x * kWarps + (int)threadIdx.x / 32, lane = threadIdx.x % 32;
    if (node >= job.n) {
        return;
    }
    for (int part = 0; part < job.parts; ++part) {
        const int word = part * kWords + 4 * lane;
        *part_of(job.met, job, node, part) = first_words(job, node, word, true);
        if (part == node / kTargets) { /* the others are empty, and not read */
            *part_of(job.now, job, node, part) = first_words(job, node, word, false);
        }
    }
    const Successors successors = list_successors(job, node);
    if (lane == 0) {
        job.successors[node] = successors;
        job.live[node] = 1u << node / kTargets;
    }
    T *const row = out + node * job.row_stride;
    for (int j = lane; j < job.n; j += 32) {
        row[j] = j == node ? (T)0 : unreachable;
    }
}

/* ---------------------------------------------------------------- a level */

/* Takes in the sets of those lanes' nodes that `live` names. Returns how many these are. */
__device__ __forceinline__ unsigned take_in(const Levels &job, int part, unsigned live, int node,
                                            uint4 &sum)
{
    const unsigned count = __popc(live);
    while (live != 0) {
        uint4 sets[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) { /* at once */
            const int from = __shfl_sync(~0u, node, (__ffs(live) - 1) & 31);
            sets[q] = live != 0 ? __ldg(part_of(job.now, job, from, part)) : make_uint4(0, 0, 0, 0);
            live &= live - 1;
        }
        sum = sum | (sets[0] | sets[1]) | (sets[2] | sets[3]);
    }
    return count;
}

/* Takes in the sets of successors that are in no list, until nobody is left to be met. */
__device__ __forceinline__ unsigned take_in_rest(const Levels &job, int node, int part, int rest,
                                                 uint4 met, uint4 &sum)
{
    const int lane = threadIdx.x % 32;
    const uint32_t *const row = job.bits + (ptrdiff_t)node * job.words;
    unsigned count = 0;
    for (int word = rest; word < job.words_used; word += 32) {
        /* Words beyond the last are zero, but for those of the next row. */
        const uint32_t bits = word + lane < job.words_used ? row[word + lane] : 0;
        unsigned some = __ballot_sync(~0u, bits != 0);
        for (; some != 0; some &= some - 1) {
            const int at = __ffs(some) - 1;
            const uint32_t these = __shfl_sync(~0u, bits, at);
            const int candidate = 32 * (word + at) + lane;
            const unsigned parts = these >> lane & 1 ? job.live[candidate] : 0;
            count += take_in(job, part, __ballot_sync(~0u, parts >> part & 1), candidate, sum);
            if (is_full(sum | met)) {
                return count;
            }
        }
    }
    return count;
}

/* Writes the level to the targets of a part: a word's 32 are neighbours. */
template <typename T>
__device__ __forceinline__ void write(const uint4 &fresh, T *row, int part, T level)
{
    const int lane = threadIdx.x % 32;
    const uint32_t words[4] = {fresh.x, fresh.y, fresh.z, fresh.w};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        unsigned some = __ballot_sync(~0u, words[q] != 0);
        for (; some != 0; some &= some - 1) {
            const int at = __ffs(some) - 1;
            const uint32_t bits = __shfl_sync(~0u, words[q], at);
            if (bits >> lane & 1) {
                row[32 * (part * kWords + 4 * at + q) + lane] = level;
            }
        }
    }
}

/* What a warp, or a block, did in a level. */
struct Deeds {
    unsigned parts, loads, pairs; /* which parts are not empty */
};

template <typename T>
__device__ __forceinline__ Deeds visit(const Levels &job, int node, T *row, T level)
{
    const int lane = threadIdx.x % 32;
    const Successors successors = job.successors[node];
    int listed[2];
    unsigned live[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        const int at = 32 * s + lane;
        const bool there = at < successors.listed;
        listed[s] = there ? job.lists[(ptrdiff_t)node * kListed + at] : 0;
        live[s] = there ? job.live[listed[s]] : 0;
    }
    Deeds done = {};
    for (int part = 0; part < job.parts; ++part) {
        const unsigned first = __ballot_sync(~0u, live[0] >> part & 1);
        const unsigned second = __ballot_sync(~0u, live[1] >> part & 1);
        const bool more = successors.rest < job.words_used;
        if ((first | second) == 0 && !more) {
            continue;
        }
        uint4 *const met = part_of(job.met, job, node, part);
        const uint4 before = *met;
        if (is_full(before)) {
            continue;
        }
        uint4 sum = make_uint4(0, 0, 0, 0);
        done.loads += take_in(job, part, first, listed[0], sum);
        done.loads += take_in(job, part, second, listed[1], sum);
        if (more && !is_full(sum | before)) {
            done.loads += take_in_rest(job, node, part, successors.rest, before, sum);
        }
        const uint4 fresh = without(sum, before);
        if (__any_sync(~0u, (fresh.x | fresh.y | fresh.z | fresh.w) != 0)) {
            *met = before | fresh;
            *part_of(job.next, job, node, part) = fresh;
            write(fresh, row, part, level);
            done.parts |= 1u << part;
            done.pairs += __popc(fresh.x) + __popc(fresh.y) + __popc(fresh.z) + __popc(fresh.w);
        }
    }
    return done;
}

/* A level; with `last`, the host looks after it. */
template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocks)
    go_on(const __grid_constant__ Levels job, T *out, unsigned level, bool last)
{
    __shared__ Deeds all;
    __shared__ bool goes_on;
    Counter *const counter = job.counters + blockIdx.x % kCounters;
    if (threadIdx.x == 0) {
        all = {};
        /* Blocks of one level may disagree about the second: the search is given up then. */
        goes_on = job.going[level - 1] != 0 &&
                  *(const volatile unsigned long long *)&counter->loads <= job.most;
    }
    __syncthreads();
    if (!goes_on) {
        return;
    }
    const int node = (int)blockIdx.x * kWarps + (int)threadIdx.x / 32;
    if (node < job.n) {
        const Deeds done = visit(job, node, out + node * job.row_stride, (T)level);
        const unsigned pairs = last ? gd::sum_of_warp(done.pairs) : 0;
        if (threadIdx.x % 32 == 0) {
            job.live_next[node] = done.parts;
            atomicOr(&all.parts, done.parts);
            atomicAdd(&all.loads, done.loads);
            atomicAdd(&all.pairs, pairs);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (all.parts != 0) {
            job.going[level] = 1;
        }
        if (all.loads != 0) {
            atomicAdd(&counter->loads, all.loads);
        }
        if (all.pairs != 0) {
            atomicAdd(&counter->pairs, all.pairs);
        }
    }
}

/* ---------------------------------------------------------------- the call */

/* Cuts the workspace, or with none counts its bytes. */
size_t arrange(const gd_hops &call, Levels *job)
{
    char *const base = static_cast<char *>(call.launch.workspace);
    size_t used = 0;
    const auto next_array = [&](size_t count, auto *&array) {
        array = base == NULL ? NULL : reinterpret_cast<std::decay_t<decltype(array)>>(base + used);
        used += (count * sizeof *array + 255) / 256 * 256;
    };
    const size_t n = (size_t)call.n;
    *job = {};
    job->n = (int)n;
    job->words = call.words;
    job->parts = (int)(call.words / kWords);
    job->words_used = (int)gd::ceil_div(call.n, (ptrdiff_t)32);
    job->bits = call.bits;
    job->row_stride = call.out.row_stride;
    next_array(n * (size_t)job->parts * 32, job->met);
    next_array(n * (size_t)job->parts * 32, job->now);
    next_array(n * (size_t)job->parts * 32, job->next);
    next_array(n, job->live);
    next_array(n, job->live_next);
    next_array(n * kListed, job->lists);
    next_array(n, job->successors);
    next_array(kCounters, job->counters);
    next_array(n + 2, job->going);
    return used;
}

/* What the host sees from time to time. */
struct Sight {
    bool going, complete; /* found anybody; loads were few enough for the levels to be complete */
    double pairs;         /* found in all levels that it looked at */
};

gd_status look(const gd_hops &call, const Levels &job, ptrdiff_t level, Sight *seen, gd_error *err)
{
    const cudaStream_t stream = (cudaStream_t)call.launch.stream;
    Counter counters[kCounters];
    unsigned found = 0;
    GD_CUDA_TRY(
        err, kId,
        cudaMemcpyAsync(counters, job.counters, sizeof counters, cudaMemcpyDeviceToHost, stream));
    GD_CUDA_TRY(
        err, kId,
        cudaMemcpyAsync(&found, job.going + level, sizeof found, cudaMemcpyDeviceToHost, stream));
    GD_CUDA_TRY(err, kId, cudaStreamSynchronize(stream));
    *seen = {found != 0, true, 0};
    for (const Counter &counter : counters) {
        seen->complete &= counter.loads <= job.most;
        seen->pairs += (double)counter.pairs;
    }
    return GD_OK;
}

template <typename T>
gd_status search(gd_hops *call, gd_error *err)
{
    const gd_launch &launch = call->launch;
    const cudaStream_t stream = (cudaStream_t)launch.stream;
    const ptrdiff_t blocks = gd::ceil_div(call->n, (ptrdiff_t)kWarps);
    const ptrdiff_t most = call->most_hops < call->n ? call->most_hops : call->n;
    const double nodes = (double)call->n, level_loads = kLaunchLoads + kNodeLoads * nodes;
    T *const out = static_cast<T *>(call->out.data);
    Levels job;
    (void)arrange(*call, &job);
    job.most = (unsigned long long)(call->most_steps / kCounters);
    GD_CUDA_TRY(err, kId,
                cudaMemsetAsync(job.counters, 0, kCounters * sizeof *job.counters, stream));
    GD_CUDA_TRY(err, kId,
                cudaMemsetAsync(job.going, 0, (size_t)(call->n + 2) * sizeof *job.going, stream));
    GD_CUDA_TRY(err, kId, cudaMemsetAsync(job.going, 1, sizeof *job.going, stream));
    GD_CUDA_TRY(err, kId,
                gd::enqueue(launch, begin<T>, blocks, kThreads, 0, job, out, (T)call->unreachable));
    Sight seen = {true, true, 0};
    bool thin = true;
    ptrdiff_t level = 0;
    for (ptrdiff_t some = kFewLevels; seen.going && level < most;
         some = min(2 * some, kManyLevels)) {
        const double pairs = seen.pairs;
        for (const ptrdiff_t last = min(level + some, most); level < last;) {
            ++level;
            GD_CUDA_TRY(err, kId,
                        gd::enqueue(launch, go_on<T>, blocks, kThreads, 0, job, out,
                                    (unsigned)level, level == last));
            std::swap(job.now, job.next);
            std::swap(job.live, job.live_next);
        }
        gd_status status = look(*call, job, level, &seen, err);
        if (status == GD_OK) {
            status = gd_pass(&launch, (double)level / nodes, err);
        }
        if (status != GD_OK) {
            return status;
        }
        thin &= seen.pairs - pairs < kThin * nodes;
        const double foreseen = thin && level >= kThinLevels ? nodes / 2 : (double)level;
        call->gave_up = !seen.complete || (seen.going && foreseen * level_loads > call->most_steps);
        if (call->gave_up) {
            return GD_OK;
        }
    }
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_hops_levels(gd_hops *call, gd_error *err)
{
    if (call->launch.sizing) {
        Levels job;
        call->launch.workspace = NULL;
        call->launch.workspace_bytes = arrange(*call, &job);
        return GD_OK;
    }
    return gd::with_weight_type(call->out.dtype,
                                [&](auto zero) { return search<decltype(zero)>(call, err); });
}
