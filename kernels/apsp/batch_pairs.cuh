/* batch_pairs.cuh: graphs of 129 to 256 nodes, each in the registers of two blocks.
 *
 * Idea: that of batch.cuh, with half of a graph's rows in each of a cluster's two blocks. Columns
 * of a stage's pivots stay with the block that has the rows; of rows, the block that has them sends
 * what it leaves to the other one as well, which has room for all that comes, so that nobody asks
 * whether there is. The other one follows some stages behind, until it is its turn.
 *
 * Cost: the chain of 128 stages, one after the other, of 0.8 us each for 256 nodes: a block's 16
 * warps share its multiprocessor's issue slots for some 300 instructions a stage. One graph takes
 * as long as 66 do.
 *
 * Launch: two blocks of 512 threads a graph, a block a multiprocessor; 64 elements a thread.
 *
 * Reached on an H100, the kernel alone, float32: 64 x 256 nodes 0.115 ms, with negative weights
 * 0.131, 132 x 256 0.231, 198 x 256 0.345; 66 x 192 0.087, 66 x 160 0.072. */
#ifndef GPUDIST_APSP_BATCH_PAIRS_CUH
#define GPUDIST_APSP_BATCH_PAIRS_CUH

#include "apsp/batch.cuh"
#include "arch/cluster.cuh"

namespace gd {

constexpr int kPairNodes = 256, kPairRows = kPairNodes / 2;

template <typename T>
using PairShape = HeldShape<T, kPairRows, 8, 8, kPairNodes>;

/* A block's memory. */
template <typename T>
struct PairShared {
    static constexpr int kStages = kPairRows / 2, kLine = 2 * kPairNodes;
    HeldLines<T, PairShape<T>, 1, false, false> lines;
    alignas(16) T come[kStages][kLine]; /* rows of the other block's pivots, before their stage */
    uint64_t there[kStages];            /* barriers: a stage's have come */
    unsigned negative[2];               /* whether a block has found a negative weight */
};

/* Lines at the pivots of one half of the nodes: the block's own, which it sends to the other one,
 * or those that come. */
template <typename T, bool kOwn, int kHalf>
struct PairLines {
    using Shape = PairShape<T>;
    using Shared = PairShared<T>;
    static constexpr bool kRows = kOwn, kCols = true, kRaw = true, kSplit = true;
    static constexpr int kBefore = kHalf * (kPairRows / Shape::kRun);

    Shared &shared;
    const unsigned other; /* rank */
    const int stages;

    __device__ __forceinline__ void turn(int stage, bool) const
    {
        if constexpr (!kOwn) {
            barrier_wait(&shared.there[stage], 0);
        }
    }
    template <int kRunOf>
    __device__ __forceinline__ const T *rows(int at) const
    {
        return shared.come[0] + (kRunOf * Shape::kDown * 2 + at) * Shared::kLine;
    }
    static __device__ __forceinline__ const int32_t *tags(int) { return NULL; }
    static __device__ __forceinline__ void advance() {}
    __device__ __forceinline__ void send(int stage, int at, T a, T b, T c, T d) const
    {
        const T four[4] = {a, b, c, d};
        if (stage >= stages) { /* nobody would wait for it */
            return;
        }
        send_word(address_in(shared_address(shared.come[stage] + at), other),
                  *reinterpret_cast<const uint4 *>(four),
                  address_in(shared_address(&shared.there[stage]), other));
    }
    template <typename B, typename From>
    static __device__ __forceinline__ void keep_rows(int, const B &, const From &)
    {
    }
    template <typename A>
    static __device__ __forceinline__ void keep_cols(int, const A &)
    {
    }
};

template <typename Loop, bool kOwn, int kHalf, typename T>
__device__ __forceinline__ void close_half(T (&c)[8][8], PairShared<T> &shared, unsigned rank,
                                           int pivots)
{
    int32_t none[1][1];
    using Lines = PairLines<T, kOwn, kHalf>;
    if (pivots > 0) {
        const Lines lines = {shared, rank ^ 1, (pivots + 3) / 4 * 2};
        Held<Loop, PairShape<T>, false, Lines>(c, none, shared.lines, lines).close(pivots);
    }
}

template <typename Loop, typename T>
__device__ __forceinline__ void close_pair(T (&c)[8][8], PairShared<T> &shared, unsigned rank,
                                           int n)
{
    const int first = min(n, kPairRows), second = n - first;
    if (rank == 0) {
        close_half<Loop, true, 0>(c, shared, rank, first);
        close_half<Loop, false, 1>(c, shared, rank, second);
    }
    else {
        close_half<Loop, false, 0>(c, shared, rank, first);
        close_half<Loop, true, 1>(c, shared, rank, second);
    }
}

template <typename Ring>
__global__ void GD_CLUSTER_OF_TWO __launch_bounds__(PairShape<int>::kThreads, 1)
    close_by_pairs(const __grid_constant__ Graphs<typename Ring::Word> job)
{
#ifdef GD_SPLIT_BARRIERS
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    using Shared = PairShared<T>;
    extern __shared__ int4 memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    cluster_begin();
    const unsigned rank = blockIdx.x % 2;
    const ptrdiff_t graph = blockIdx.x / 2;
    const Member<PairShape<T>, T, 8, 8, true> mine = {
        job, graph, job.sizes != NULL ? job.sizes[graph] : job.n, (int)rank * kPairRows, 0};
    if (threadIdx.x == 0) {
        shared.lines.ready();
    }
    if (threadIdx.x < Shared::kStages) {
        barrier_init(&shared.there[threadIdx.x], 1);
        show_barriers();
        barrier_expect(&shared.there[threadIdx.x], sizeof(shared.come[0]));
    }
    T c[8][8];
    mine.load(c);
    bool alone = mine.enter_all(c);
    const bool negative = __syncthreads_or((int)mine.negative(c)) != 0;
    cluster_begun();
    if (threadIdx.x < 2) {
        store_in(address_in(shared_address(&shared.negative[rank]), threadIdx.x), negative);
    }
    cluster_meet();
    const bool careful = job.flip || shared.negative[0] != 0 || shared.negative[1] != 0;
    if (!std::is_same<Quick, Ring>::value && !careful) {
        close_pair<Quick>(c, shared, rank, mine.n);
    }
    else {
        mine.drop_signs(c);
        close_pair<Ring>(c, shared, rank, mine.n);
    }
    alone |= mine.doubts(c, false, Facts<T>());
    if (alone) {
        job.doubts[graph] = 1;
        *job.doubted = 1;
    }
    mine.leave_all(c, (void *)NULL);
    mine.store(job.out, c);
    cluster_meet(); /* what was sent has come while its block is there */
#endif
}

}  // namespace gd
#endif
