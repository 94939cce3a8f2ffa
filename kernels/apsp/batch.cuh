/* batch.cuh: small graphs, one to a team of threads, from weights as given to lengths as they are
 * wanted. batch.cu has the head. */
#ifndef GPUDIST_APSP_BATCH_CUH
#define GPUDIST_APSP_BATCH_CUH

#include "apsp/held.cuh"
#include "apsp/resident.cuh"
#include "run_apsp.h"

namespace gd {

/* Many graphs of one dtype, one after the other. */
template <typename T>
struct Graphs {
    const T *weights;
    ptrdiff_t count, stride, row_stride; /* how many; from graph to graph, from row to row */
    T *out;
    int32_t *pred;
    const int32_t *sizes; /* NULL: n each */
    int n;                /* also the rows of results, which lie one after the other */
    bool directed, flip;  /* weights that are turned over have been already */
    bool has_absent;      /* what equals `absent` is no edge */
    bool in_words, out_words;
    bool rounded; /* weights were more than T holds */
    T absent, unreachable;
    int together;      /* blocks of teams that start together */
    int most_turns;    /* graphs that a team takes one after the other */
    bool roomy;        /* whether the device has clusters, and 227 KB of shared memory */
    uint8_t *doubts;   /* one a graph, zero at first: whether it is to be looked at alone */
    unsigned *doubted; /* whether one is */
};

/* The kernels for a dtype: the bytes that they share beside the results, and all that they do. Each
 * of `doubts` is zero. */
size_t batch_workspace(const Graphs<float> &job);
size_t batch_workspace(const Graphs<double> &job);
size_t batch_workspace(const Graphs<int32_t> &job);
gd_status close_batch(const gd_launch &launch, const Graphs<float> &job, gd_error *err);
gd_status close_batch(const gd_launch &launch, const Graphs<double> &job, gd_error *err);
gd_status close_batch(const gd_launch &launch, const Graphs<int32_t> &job, gd_error *err);

template <typename T>
__host__ __device__ constexpr T far_of()
{
    return std::is_same<T, int32_t>::value ? (T)GD_I32_FAR : (T)HUGE_VAL;
}
template <typename T>
__host__ __device__ constexpr T no_path_of()
{
    return std::is_same<T, int32_t>::value ? (T)GD_I32_NO_PATH : (T)HUGE_VAL;
}

__device__ __forceinline__ bool has_fraction(float x) { return x != truncf(x); }
__device__ __forceinline__ bool has_fraction(double x) { return x != trunc(x); }
__device__ __forceinline__ bool has_fraction(int32_t) { return false; }
__device__ __forceinline__ float size_of(float x) { return fabsf(x); }
__device__ __forceinline__ double size_of(double x) { return fabs(x); }
__device__ __forceinline__ int32_t size_of(int32_t x) { return abs(x); }
__device__ __forceinline__ int sign_of(float x) { return __float_as_int(x); }
__device__ __forceinline__ int sign_of(double x) { return __double2hiint(x); }
__device__ __forceinline__ int sign_of(int32_t x) { return x; }

/* The less of x and infinity, which a NaN is larger than. */
__device__ __forceinline__ float within_far(float x) { return fminf(x, HUGE_VALF); }
__device__ __forceinline__ double within_far(double x) { return x < HUGE_VAL ? x : HUGE_VAL; }
/* int32 weights out of range become such as are refused. */
__device__ __forceinline__ int32_t within_far(int32_t x)
{
    return min(max(x, -GD_I32_FAR + 1), GD_I32_FAR - 1);
}

/* Zero less x where the larger is the better, and x: never -0.0. */
__device__ __forceinline__ float turned(float x, bool flip)
{
    return fmaf(x, flip ? -1.0f : 1.0f, 0.0f);
}
__device__ __forceinline__ double turned(double x, bool flip)
{
    return fma(x, flip ? -1.0 : 1.0, 0.0);
}
__device__ __forceinline__ int32_t turned(int32_t x, bool flip) { return flip ? -x : x; }

/* Whether cycles are looked for that rounding may hide, as apsp does: not where it is the device
 * that looks whether a weight is negative (gd_apsp's `looks`). */
template <typename T, bool kPred>
constexpr bool kLooksForHidden =
    std::is_same<T, double>::value || (kPred && std::is_same<T, float>::value);

/* What the weights of a team's graph are together. */
template <typename T>
struct Facts {
    std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned> max_abs;
    unsigned fractional, negative;
};
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ unsigned bits_of(int32_t x) { return (unsigned)x; }
__device__ __forceinline__ unsigned long long bits_of(double x) { return __double_as_longlong(x); }
__device__ __forceinline__ double value_of(unsigned x, float) { return __uint_as_float(x); }
__device__ __forceinline__ double value_of(unsigned x, int32_t) { return x; }
__device__ __forceinline__ double value_of(unsigned long long x, double)
{
    return __longlong_as_double(x);
}

/* Whether a way around of this length may be negative but for rounding. */
template <typename T>
__device__ __forceinline__ bool rounding_may_hide(T loop, int n, const Facts<T> &facts)
{
    const double rounding = gd_cycle_rounding(sizeof(T) == 4 ? GD_F32 : GD_F64, n,
                                              value_of(facts.max_abs, T()), facts.fractional != 0);
    return rounding > 0 && loop < far_of<T>() && (double)loop <= rounding;
}

/* A team's graph, or the tile of it that begins at row0, col0. Diagonals begin without a path, so
 * that they end as the shortest way around: below zero on a negative cycle, and little above it
 * where rounding may hide one. With kTile it is never a whole graph. */
template <typename Shape, typename T, int kM, int kN, bool kTile = false>
struct Member {
    const Graphs<T> &job;
    const ptrdiff_t graph;
    const int n; /* nodes */
    const int row0, col0;

    __device__ __forceinline__ const T *weights() const { return job.weights + graph * job.stride; }
    __device__ __forceinline__ int row_of(int i) const { return row0 + Shape::row(i); }
    __device__ __forceinline__ int col_of(int j) const { return col0 + Shape::col(j); }
    /* Whether the team holds just the graph, and so where its elements are is known. */
    __device__ __forceinline__ bool whole() const
    {
        return !kTile && job.in_words && job.row_stride == Shape::kNodes && n == Shape::kNodes &&
               job.n == Shape::kNodes;
    }
    __device__ __forceinline__ bool on_diagonal(int i, int j) const
    {
        return i % 4 == j % 4 && row_of(i) == col_of(j);
    }

    __device__ __forceinline__ void load(T (&c)[kM][kN]) const
    {
        const T *const from = weights();
        if (whole()) {
            const T *const mine = from + row_of(0) * Shape::kNodes + col_of(0);
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; j += kPerWord<T>) {
                    unpack<T>(__ldcs(reinterpret_cast<const Word<T> *>(
                                  mine + Shape::row_step(i) * Shape::kNodes + Shape::col_step(j))),
                              &c[i][j]);
                }
            }
        }
        else if (job.in_words) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; j += kPerWord<T>) {
                    const int row = row_of(i), col = col_of(j);
                    T word[kPerWord<T>] = {};
                    if (row < n && col < job.n) {
                        unpack<T>(__ldcs(reinterpret_cast<const Word<T> *>(
                                      from + row * job.row_stride + col)),
                                  word);
                    }
#pragma unroll
                    for (int e = 0; e < kPerWord<T>; ++e) {
                        c[i][j + e] = word[e];
                    }
                }
            }
        }
        else {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    const int row = row_of(i), col = col_of(j);
                    c[i][j] = row < n && col < n ? from[row * job.row_stride + col] : 0;
                }
            }
        }
    }

    /* What store() left. */
    template <typename U>
    __device__ __forceinline__ void load_again(const U *from, U (&c)[kM][kN], U none) const
    {
        from += graph * job.n * job.n;
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; j += kPerWord<U>) {
                const int row = row_of(i), col = col_of(j);
                if (job.out_words) {
#pragma unroll
                    for (int e = 0; e < kPerWord<U>; ++e) {
                        c[i][j + e] = none;
                    }
                    if (row < job.n && col < job.n) {
                        load_word(from + row * job.n + col, &c[i][j]);
                    }
                    continue;
                }
#pragma unroll
                for (int e = 0; e < kPerWord<U>; ++e) {
                    c[i][j + e] =
                        row < job.n && col + e < job.n ? from[row * job.n + col + e] : none;
                }
            }
        }
    }

    /* Weights become lengths of paths of one edge. Returns whether they are not for this loop. */
    __device__ __forceinline__ bool enter_all(T (&c)[kM][kN]) const
    {
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                const bool edge = !job.has_absent || c[i][j] != job.absent;
                c[i][j] = edge ? within_far(c[i][j]) : far_of<T>();
            }
        }
        if (n < max(row0 + Shape::kNodes, col0 + Shape::kNodesAcross)) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    c[i][j] = row_of(i) < n && col_of(j) < n ? c[i][j] : far_of<T>();
                }
            }
        }
        bool refused = false;
        if constexpr (std::is_same<T, int32_t>::value) {
            int32_t most = 0;
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    most = max(most, c[i][j] < far_of<T>() ? abs(c[i][j]) : 0);
                }
            }
            refused = (double)most * max(n - 1, 1) >= GD_I32_WEIGHT_LIMIT;
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = i % 4; j < kN; j += 4) {
                c[i][j] = on_diagonal(i, j) && c[i][j] >= 0 ? far_of<T>() : c[i][j];
            }
        }
        return refused;
    }

    /* What entering leaves for those who find a sign: -inf is no edge, and -0.0 is 0.0. */
    __device__ __forceinline__ void drop_signs(T (&c)[kM][kN]) const
    {
        if constexpr (!std::is_same<T, int32_t>::value) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    c[i][j] = c[i][j] > -far_of<T>() ? c[i][j] + (T)0 : far_of<T>();
                }
            }
        }
    }

    /* Whether a length is negative. */
    __device__ __forceinline__ bool negative(const T (&c)[kM][kN]) const
    {
        int signs = 0;
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                signs |= sign_of(c[i][j]);
            }
        }
        return signs < 0;
    }

    template <typename Before>
    __device__ __forceinline__ void start_paths(const T (&c)[kM][kN], Before &before) const
    {
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                before[i][j] = c[i][j] < far_of<T>() ? row_of(i) : GD_NO_PREDECESSOR;
            }
        }
    }

    /* The largest weight's size, and whether one is no whole number. */
    __device__ __forceinline__ T largest(const T (&c)[kM][kN], bool *fractional) const
    {
        T most = 0;
        bool found = job.rounded;
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                most = max(most, c[i][j] < far_of<T>() ? size_of(c[i][j]) : 0);
            }
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
            if (!found) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    found |= c[i][j] < far_of<T>() && has_fraction(c[i][j]);
                }
            }
        }
        *fractional = found;
        return most;
    }

    /* The shortest way around that a thread knows. */
    __device__ __forceinline__ T shortest_loop(const T (&c)[kM][kN]) const
    {
        T least = far_of<T>();
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = i % 4; j < kN; j += 4) {
                least = on_diagonal(i, j) ? min(least, c[i][j]) : least;
            }
        }
        return least;
    }

    /* Whether the thread knows a negative cycle, or one that rounding may hide. */
    __device__ __forceinline__ bool doubts(const T (&c)[kM][kN], bool rounds,
                                           const Facts<T> &facts) const
    {
        const T loop = shortest_loop(c);
        return loop < 0 || (rounds && rounding_may_hide(loop, n, facts));
    }

    /* Lengths, and where paths come from, as the caller wants them. */
    template <typename Before>
    __device__ __forceinline__ void leave_all(T (&c)[kM][kN], Before *before) const
    {
        constexpr bool kWhole = std::is_same<T, int32_t>::value;
        if (kWhole || job.flip || job.unreachable != far_of<T>()) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    const bool path = c[i][j] < no_path_of<T>();
                    c[i][j] = path ? turned(c[i][j], job.flip) : job.unreachable;
                    if constexpr (kWhole && !std::is_same<Before, void>::value) {
                        (*before)[i][j] = path ? (*before)[i][j] : GD_NO_PREDECESSOR;
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = i % 4; j < kN; j += 4) {
                if (on_diagonal(i, j) && row_of(i) < n) {
                    c[i][j] = 0;
                    if constexpr (!std::is_same<Before, void>::value) {
                        (*before)[i][j] = GD_NO_PREDECESSOR;
                    }
                }
            }
        }
    }

    template <typename U>
    __device__ __forceinline__ void store(U *to, const U (&c)[kM][kN]) const
    {
        to += graph * job.n * job.n;
        if (whole()) {
            to += row_of(0) * Shape::kNodes + col_of(0);
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; j += kPerWord<U>) {
                    stream_word(to + Shape::row_step(i) * Shape::kNodes + Shape::col_step(j),
                                &c[i][j]);
                }
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; j += kPerWord<U>) {
                const int row = row_of(i), col = col_of(j);
                if (job.out_words) {
                    if (row < job.n && col < job.n) {
                        stream_word(to + row * job.n + col, &c[i][j]);
                    }
                    continue;
                }
#pragma unroll
                for (int e = 0; e < kPerWord<U>; ++e) {
                    if (row < job.n && col + e < job.n) {
                        to[row * job.n + col + e] = c[i][j + e];
                    }
                }
            }
        }
    }
};

/* Which of a ring's loops, if it has two. */
template <typename Ring>
struct QuickOf {
    using Type = Ring;
};
template <>
struct QuickOf<Plus<float>> {
    using Type = PlusUnsigned;
};

/* kTeams graphs a block. */
template <typename Ring, int kSide, int kM, int kN, int kTeams, int kBlocks, bool kPred>
__global__ void __launch_bounds__(HeldShape<int, kSide, kM, kN>::kThreads *kTeams, kBlocks)
    close_graphs(const __grid_constant__ Graphs<typename Ring::Word> job)
{
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    using Shape = HeldShape<T, kSide, kM, kN>;
    constexpr bool kShared = Shape::kThreads < 32;
    static_assert(kTeams == 1 || Shape::kThreads <= 32, "a team meets as a warp or as a block");
    using Lines = HeldLines<T, Shape, kTeams, kPred, kShared>;
    __shared__ Lines lines;
    __shared__ Facts<T> facts[kTeams];

    const int team = threadIdx.x / Shape::kThreads, member = threadIdx.x % Shape::kThreads;
    const ptrdiff_t graph = (ptrdiff_t)blockIdx.x * kTeams + team;
    const bool there = graph < job.count;
    const Member<Shape, T, kM, kN> mine = {job, there ? graph : 0,
                                           !there              ? 0
                                           : job.sizes != NULL ? job.sizes[graph]
                                                               : job.n,
                                           0, 0};
    if (there && member == 0) {
        facts[team] = {0, 0, 0};
    }
    T c[kM][kN];
    int32_t before[kPred ? kM : 1][kPred ? kN : 1];
    mine.load(c);
    bool alone = mine.enter_all(c);
    constexpr bool kQuick = !std::is_same<Quick, Ring>::value;
    const int pivots = kTeams == 1 ? mine.n : job.n;
    const auto leave = [&] {
        if (!there) {
            return;
        }
        if (alone) {
            job.doubts[graph] = 1;
            *job.doubted = 1;
        }
        if constexpr (kPred) {
            mine.leave_all(c, &before);
            mine.store(job.pred, before);
        }
        else {
            mine.leave_all(c, (void *)NULL);
        }
        mine.store(job.out, c);
    };
    /* Each loop leaves by itself: where they meet again, registers would have to be moved. */
    if (kQuick && !job.flip) {
        const bool negative = mine.negative(c);
        const bool careful = Shape::kThreads <= 32 ? __any_sync(~0u, negative) != 0
                                                   : __syncthreads_or((int)negative) != 0;
        if (!careful) {
            if constexpr (kPred) {
                mine.start_paths(c, before);
            }
            Held<Quick, Shape, kPred, OwnLines>(c, before, lines, {}).close(pivots);
            leave();
            return;
        }
    }
    mine.drop_signs(c);
    if constexpr (kPred) {
        mine.start_paths(c, before);
    }
    Held<Ring, Shape, kPred, OwnLines> held(c, before, lines, {});
    const bool rounds = job.directed && kLooksForHidden<T, kPred>;
    if (rounds) {
        held.meet(); /* the facts are zero */
        bool fractional;
        T most = mine.largest(c, &fractional);
#pragma unroll
        for (int offset = min(Shape::kThreads, 32) / 2; offset > 0; offset /= 2) {
            most = max(most, __shfl_xor_sync(~0u, most, offset));
        }
        if (member % 32 == 0) {
            atomicMax(&facts[team].max_abs, bits_of(most));
        }
        if (fractional) {
            facts[team].fractional = 1;
        }
    }
    held.close(pivots);
    held.meet();
    alone |= mine.doubts(c, rounds, facts[team]);
    leave();
}

/* Whether a kernel reads the weights as they are. */
inline bool is_plain(const gd_apsp_batch &call)
{
    const gd_graph &graph = call.graph;
    return graph.weights.dtype == call.dtype && graph.directed && !graph.unweighted &&
           !graph.flip && !(graph.no_edge == GD_NO_EDGE_SENTINEL && graph.sentinel < 0);
}

/* How many graphs one after the other teams close sooner than a queue does, as measured (NOTES.md).
 */
inline int turns_for(const gd_apsp_batch &call)
{
    const bool tagged = call.pred != NULL;
    const int most = tagged ? 4 : 5;
    return call.pitch <= (tagged ? 160 : 192) ? most : 2;
}

inline bool is_roomy(int device)
{
    int generation = 0;
    cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device);
    return generation >= 9 && generation < 12;
}

/* Graphs whose rows follow each other. */
template <typename T>
Graphs<T> describe(const gd_apsp_batch &call)
{
    const gd_graph &graph = call.graph;
    Graphs<T> job = {};
    const double sentinel = graph.no_edge == GD_NO_EDGE_ZERO ? 0 : graph.sentinel;
    /* No weight equals a sentinel that the dtype does not hold. */
    const bool is_int = std::is_same<T, int32_t>::value;
    const bool held = !is_int || (sentinel >= INT_MIN && sentinel <= INT_MAX);
    job.n = (int)call.pitch;
    job.count = call.count;
    job.weights = static_cast<const T *>(graph.weights.data);
    job.out = static_cast<T *>(call.out);
    job.pred = call.pred;
    job.stride = call.pitch * call.pitch;
    job.row_stride = call.pitch;
    job.sizes = call.sizes;
    job.directed = graph.directed;
    job.flip = graph.flip;
    job.absent = held ? (T)sentinel : (T)0;
    job.has_absent = graph.no_edge != GD_NO_EDGE_INFINITE && held && (double)job.absent == sentinel;
    job.rounded = graph.weights.dtype == GD_F64 && call.dtype == GD_F32;
    job.unreachable = (T)call.unreachable;
    job.together = resident_blocks(call.launch.device.index);
    job.roomy = is_roomy(call.launch.device.index);
    job.most_turns = turns_for(call);
    job.doubts = call.doubts;
    job.doubted = call.page;
    return job;
}

/* Finds out whether weights and results are read and written by words. What is not written so is
 * not read so: a team that holds just a graph asks about reading alone (Member::whole). */
template <typename T>
void look_for_words(Graphs<T> *job)
{
    const auto starts = [&](const void *p) { return job->n % 4 == 0 && (uintptr_t)p % 16 == 0; };
    job->out_words = starts(job->out) && starts(job->pred);
    job->in_words = job->out_words && starts(job->weights) && job->row_stride % kPerWord<T> == 0;
}

}  // namespace gd
#endif
