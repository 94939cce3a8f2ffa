/* batch_parts.cuh: graphs in the registers of a cluster of blocks: two of 129 to 256 nodes each,
 * four of up to 128.
 *
 * Idea: that of batch.cuh, with a part of a graph's rows in each of a cluster's blocks. Columns of
 * a stage's pivots stay with the block that has the rows; of rows, the block that has them sends
 * what it leaves to the others as well, once all its threads may go on. They have room for all that
 * comes, so that nobody asks whether there is, and follow some stages behind, until it is the turn
 * of one of them.
 *
 * Cost: the chain of stages, one after the other. Of 256 nodes there are 128 of 0.8 us each: a
 * block's 16 warps share its multiprocessor's issue slots for some 300 instructions a stage. One
 * graph takes as long as 66 do. Of 128 nodes there are 64 of 0.2 us, of 90 instructions for each of
 * 8 warps, 120 where the block's own rows are sent; the launch, what blocks tell each other first,
 * reading and writing take 7 us.
 *
 * Launch: two blocks of 512 threads a graph, a block a multiprocessor; 64 elements a thread. Or
 * four of 256 threads, with 16.
 *
 * Reached on an H100, the kernel alone, float32: 64 x 256 nodes 0.115 ms, 33 x 256 0.111, 64 x 192
 * 0.085; with negative weights and rows sent sooner 64 x 256 0.131, 132 x 256 0.231, 198 x 256
 * 0.345. By four blocks one graph of 128 nodes 0.0197, where one block takes 0.0316 and resident.cu
 * 0.0235, of 100 0.0168, and 33 of 128 0.0276. */
#ifndef GPUDIST_APSP_BATCH_PARTS_CUH
#define GPUDIST_APSP_BATCH_PARTS_CUH

#include "apsp/batch.cuh"
#include "arch/cluster.cuh"

namespace gd {

/* Who holds a graph: kParts blocks, a thread kM x kN elements of its block's rows. */
template <int kBlocks, int kNodesOfAll, int kM, int kN>
struct Split {
    static constexpr int kParts = kBlocks, kNodes = kNodesOfAll, kRows = kNodes / kParts;
    static constexpr int kThreadRows = kM, kThreadCols = kN;
    static constexpr int kStages = kRows / 2; /* of a part */
    template <typename T>
    using Shape = HeldShape<T, kRows, kM, kN, kNodes>;
    static constexpr int kThreads = Shape<int>::kThreads;
    /* Where a block keeps what comes from a part. */
    static __device__ constexpr int slot(int part, int rank) { return part - (part > rank); }
};
using Halves = Split<2, 256, 8, 8>;
using Quarters = Split<4, 128, 4, 4>;

/* A block's memory. */
template <typename T, typename How>
struct PartShared {
    static constexpr int kLine = 2 * How::kNodes, kCome = (How::kParts - 1) * How::kStages;
    HeldLines<T, typename How::template Shape<T>, 1, false, false> lines;
    alignas(16) T come[kCome][kLine]; /* rows of the other blocks' pivots, before their stage */
    uint64_t there[kCome];            /* barriers: a stage's have come */
    unsigned negative[How::kParts];   /* whether a block has found a negative weight */
};

/* Lines at the pivots of part kPart of the nodes, for block kRank: its own, which it sends to the
 * others, or those that come. */
template <typename T, typename How, int kRank, int kPart>
struct PartLines {
    using Shape = typename How::template Shape<T>;
    using Shared = PartShared<T, How>;
    static constexpr bool kRows = kRank == kPart, kCols = true, kRaw = true, kSplit = true;
    static constexpr int kBefore = kPart * (How::kRows / Shape::kRun);
    static constexpr int kFirst = How::slot(kPart, kRank) * How::kStages; /* of what comes */

    Shared &shared;
    const int stages;

    __device__ __forceinline__ void turn(int stage, bool) const
    {
        if constexpr (!kRows) {
            barrier_wait(&shared.there[kFirst + stage], 0);
        }
    }
    template <int kRunOf>
    __device__ __forceinline__ const T *rows(int at) const
    {
        return shared.come[0] + (kFirst + kRunOf * Shape::kDown * 2 + at) * Shared::kLine;
    }
    static __device__ __forceinline__ const int32_t *tags(int) { return NULL; }
    static __device__ __forceinline__ void advance() {}
    __device__ __forceinline__ void send(int stage, int at, T a, T b, T c, T d) const
    {
        const T four[4] = {a, b, c, d};
        if (stage >= stages) { /* nobody would wait for it */
            return;
        }
#pragma unroll
        for (int other = 0; other < How::kParts; ++other) {
            if (other != kRank) {
                const int to = How::slot(kRank, other) * How::kStages + stage;
                send_word(address_in(shared_address(shared.come[to] + at), other),
                          *reinterpret_cast<const uint4 *>(four),
                          address_in(shared_address(&shared.there[to]), other));
            }
        }
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

template <typename T, typename How>
using PartElements = T[How::kThreadRows][How::kThreadCols];

/* Closes block kRank's elements over the pivots of parts kPart and on, of n. */
template <typename Loop, typename How, int kRank, int kPart, typename T>
__device__ __forceinline__ void close_parts(PartElements<T, How> &c, PartShared<T, How> &shared,
                                            int n)
{
    int32_t none[1][1];
    const int pivots = min(n - kPart * How::kRows, How::kRows);
    if (pivots > 0) {
        using Lines = PartLines<T, How, kRank, kPart>;
        const Lines lines = {shared, (pivots + 3) / 4 * 2};
        Held<Loop, typename How::template Shape<T>, false, Lines>(c, none, shared.lines, lines)
            .close(pivots);
        if constexpr (kPart + 1 < How::kParts) {
            close_parts<Loop, How, kRank, kPart + 1>(c, shared, n);
        }
    }
}

/* Each block has a way of its own: where they met, registers would have to be moved. */
template <typename Loop, typename How, int kRank = 0, typename T>
__device__ __forceinline__ void close_own(PartElements<T, How> &c, PartShared<T, How> &shared,
                                          int rank, int n)
{
    if (kRank + 1 == How::kParts || rank == kRank) {
        close_parts<Loop, How, kRank, 0>(c, shared, n);
    }
    else if constexpr (kRank + 1 < How::kParts) {
        close_own<Loop, How, kRank + 1>(c, shared, rank, n);
    }
}

template <typename Ring, typename How>
__global__ void GD_CLUSTER_OF(How::kParts) __launch_bounds__(How::kThreads, 1)
    close_by_parts(const __grid_constant__ Graphs<typename Ring::Word> job)
{
#ifdef GD_SPLIT_BARRIERS
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    using Shared = PartShared<T, How>;
    extern __shared__ int4 memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    cluster_begin();
    const unsigned rank = blockIdx.x % How::kParts;
    const ptrdiff_t graph = blockIdx.x / How::kParts;
    const Member<typename How::template Shape<T>, T, How::kThreadRows, How::kThreadCols, true>
        mine = {job, graph, job.sizes != NULL ? job.sizes[graph] : job.n, (int)rank * How::kRows,
                0};
    if (threadIdx.x == 0) {
        shared.lines.ready();
    }
    static_assert(Shared::kCome <= How::kThreads, "a thread makes one barrier");
    if (threadIdx.x < Shared::kCome) {
        barrier_init(&shared.there[threadIdx.x], 1);
        show_barriers();
        barrier_expect(&shared.there[threadIdx.x], sizeof(shared.come[0]));
    }
    PartElements<T, How> c;
    mine.load(c);
    bool alone = mine.enter_all(c);
    const bool negative = __syncthreads_or((int)mine.negative(c)) != 0;
    cluster_begun();
    if (threadIdx.x < How::kParts) {
        store_in(address_in(shared_address(&shared.negative[rank]), threadIdx.x), negative);
    }
    cluster_meet();
    bool careful = job.flip;
#pragma unroll
    for (int part = 0; part < How::kParts; ++part) {
        careful |= shared.negative[part] != 0;
    }
    if (!std::is_same<Quick, Ring>::value && !careful) {
        close_own<Quick, How>(c, shared, (int)rank, mine.n);
    }
    else {
        mine.drop_signs(c);
        close_own<Ring, How>(c, shared, (int)rank, mine.n);
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
