/* resident.cuh: what the warps of a block that stays have in common: the job, and the shared memory
 * by which they wait for each other. */
#ifndef GPUDIST_PERRON_RESIDENT_CUH
#define GPUDIST_PERRON_RESIDENT_CUH

#include "arch/barrier.cuh"
#include "perron/pack.cuh"
#include "perron/resident_share.cuh"
#include "perron/resident_tell.cuh"

namespace gd::resident {

constexpr int kConsumers = 512, kThreads = kConsumers + 64;
template <typename T>
constexpr int kRowLanes = kConsumers / kTileWords<T>; /* rows of a tile side by side */
constexpr int kRowsEach = 4;                          /* one below the other */
constexpr int kSums = kGroupTiles * kRowsEach;        /* of a thread in a group */
constexpr int kLanesPerSum = 32 / kSums;              /* once lanes have shared sums out */
template <typename T>
constexpr int kParts = kTileWords<T> / 32; /* warps that a row's sum comes from */
static_assert(kSpanCols == 2 * kConsumers, "two values of x for each thread");
static_assert(kRowsEach * kRowLanes<float> == kTileRows<float> &&
                  kRowsEach * kRowLanes<double> == kTileRows<double>,
              "threads cover a tile");
static_assert((kSums & (kSums - 1)) == 0, "sums are halved lane by lane");

template <typename T>
struct Job {
    const T *a;
    ptrdiff_t n, stride;
    int words; /* 16-byte words in a row */
    double *vectors;
    ptrdiff_t padded;
    gd_perron_state *state;
    double *exchange; /* two vectors */
    Slot *slots;      /* two for each block */
    double tol, shift;
    int64_t until;
    ptrdiff_t roundings;
    bool scan;
};

/* The part of a verdict that the round after it needs. */
struct Verdict {
    double scale;
    bool stop;
};

template <typename T>
struct Shared {
    double x[2][kSpanCols];
    double sums[2][kParts<T>][kGroupRows<T>]; /* of a group and the one before */
    uint64_t full[kBuffers], empty[kBuffers];
    uint64_t judged[2], heard[2]; /* verdicts on odd and even rounds are there, are done with */
    Verdict verdicts[2];
    gd_perron_found found[32]; /* by the lanes of the first warp, whose registers are few */
    double own[32];            /* their rows' components of x */
    gd_perron_state state;
    int doubts;
    bool leave[2];    /* for the consumers, in turns from step to step */
    uint64_t stopped; /* a phase ends for the fetching warp once no consumer waits for a tile */
};

template <typename T>
__device__ __forceinline__ bool has_stopped(Shared<T> &shared)
{
    return barrier_is_past(&shared.stopped, 0);
}

/* Waits for the other consumers; the fetching and the judging warp take no part. */
__device__ __forceinline__ void sync_consumers() { sync_part<1, kConsumers>(); }

}  // namespace gd::resident
#endif
