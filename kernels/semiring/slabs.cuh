/* slabs.cuh: two panels' slabs on their way through shared memory, ahead of the arithmetic.
 *
 * Idea: arithmetic leaves few issue slots over, so moving operands must cost none. From sm_90 on
 * one thread asks for a whole slab with two bulk copies, and barriers in shared memory say when it
 * has arrived and when all warps are done with a place, so that warps need not wait for each other.
 * Before sm_90 every thread copies its share, and one barrier of the block a slab says both.
 *
 * Both panels are laid out so that a slab of a tile is one piece of memory. */
#ifndef GPUDIST_SEMIRING_SLABS_CUH
#define GPUDIST_SEMIRING_SLABS_CUH

#include <cuda_pipeline_primitives.h>

#include "semiring/tile.cuh"
#include "arch/barrier.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GD_BULK_COPIES
#endif

namespace gd {

/* Slabs of kPairs pairs of pivots, kLeft and kRight lines wide, kBuffers of them in shared memory,
 * in blocks of lines as the panels have them. Used by all threads of a block together: wait(s) for
 * s = 0, 1, 2, ... gives slab s, release() gives its place back. With kStay there is a place for
 * each slab, and all can be read until the end. */
template <typename T, int kLeft, int kRight, int kPairs, int kBuffers, int kThreads,
          int kLeftWidth = kLeft, int kRightWidth = kRight, bool kStay = false>
class SlabStream {
    static constexpr int kTogether = kStay ? 2 : 1; /* slabs that are waited for together */
    static_assert(kBuffers % kTogether == 0, "no slab is waited for alone");

public:
    /* A place for a slab, and its barriers: it is full, and all are done with it. They also keep a
     * line of several slabs that stay out of the same banks. */
    struct alignas(16) Slab {
        Pair<T> left[kLeft / kLeftWidth][kPairs][kLeftWidth];
        Pair<T> right[kRight / kRightWidth][kPairs][kRightWidth];
        uint64_t full, empty;
    };
    static constexpr size_t kSharedBytes = kBuffers * sizeof(Slab);

    /* `left` and `right` are where the slabs of this block's tile start. */
    __device__ __forceinline__ SlabStream(void *shared, const Pair<T> *left, const Pair<T> *right,
                                          int slabs)
        : place_(static_cast<Slab *>(shared)), left_(left), right_(right), slabs_(slabs)
    {
#ifdef GD_BULK_COPIES
        if (threadIdx.x == 0) {
#pragma unroll
            for (int buffer = 0; buffer < kBuffers; ++buffer) {
                barrier_init(&place_[buffer].full, kTogether);
                barrier_init(&place_[buffer].empty, kThreads);
            }
            show_barriers();
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int slab = 0; slab < kBuffers && slab < slabs_; ++slab) {
                fetch(slab, &place_[slab]);
            }
        }
#else
#pragma unroll
        for (int slab = 0; slab < kBuffers - 1; ++slab) {
            if (slab < slabs_) {
                fetch(slab, &place_[slab]);
            }
            __pipeline_commit();
        }
#endif
    }

    __device__ __forceinline__ const Slab &wait(int slab)
    {
#ifdef GD_BULK_COPIES
        /* The place of a slab is filled again when the next one but one is waited for: by then
         * all warps are likely to be done with it. */
        constexpr int kLag = kBuffers > 2 ? 2 : 1;
        if (!kStay && threadIdx.x == 0 && slab >= kLag && slab - kLag + kBuffers < slabs_) {
            const bool before = buffer_ < kLag; /* its turn was the one before this slab's */
            Slab *const done = place_ + (before ? kBuffers - kLag : -kLag);
            barrier_wait(&done->empty, before ? 1 - turn_ : turn_);
            fetch(slab - kLag + kBuffers, done);
        }
        /* Without this the compiler may leave the thread apart from its warp, whose arithmetic is
         * then done twice: int32 products ran at 10.7e12 updates a second instead of 17. */
        __syncwarp();
        if (slab % kTogether == 0) {
            barrier_wait(&place_->full, turn_);
        }
#else
        /* Behind the barrier this slab has arrived for all threads, and all are done with the
         * previous one, whose place the next fetch takes. */
        __pipeline_wait_prior(kBuffers - 2);
        __syncthreads();
        if (slab + kBuffers - 1 < slabs_) {
            fetch(slab + kBuffers - 1, place_ + (buffer_ == 0 ? kBuffers - 1 : -1));
        }
        __pipeline_commit(); /* even if empty: the wait above counts commits */
#endif
        return *place_;
    }

    /* A slab that has been waited for and whose place has not been filled again. */
    __device__ __forceinline__ const Slab &at(int slab) const
    {
        return place_[slab % kBuffers - buffer_];
    }

    /* Gives back what was waited for last. */
    __device__ __forceinline__ void release()
    {
#ifdef GD_BULK_COPIES
        /* Every thread for itself. One a warp, after a __syncwarp(), took 0.5 % longer, and
         * checkers of races do not see that order. */
        if (!kStay) {
            barrier_arrive(&place_->empty);
        }
#endif
        const bool last = buffer_ == kBuffers - 1;
        place_ += last ? 1 - kBuffers : 1;
        buffer_ = last ? 0 : buffer_ + 1;
        turn_ = last ? 1 - turn_ : turn_;
    }

    /* All threads are done with all slabs; the memory may be used for something else. */
    __device__ __forceinline__ void close()
    {
        __syncthreads();
#ifdef GD_BULK_COPIES
        if (threadIdx.x == 0) {
            for (Slab *place = place_ - buffer_; place < place_ - buffer_ + kBuffers; ++place) {
                barrier_drop(&place->full);
                barrier_drop(&place->empty);
            }
        }
        __syncthreads();
#endif
    }

private:
    __device__ __forceinline__ void fetch(int slab, Slab *place)
    {
        uint64_t *const full = &place[-(slab % kTogether)].full;
#ifdef GD_BULK_COPIES
        barrier_expect(full, sizeof place->left + sizeof place->right);
#endif
        fetch_blocks(place->left, left_, slab, full);
        fetch_blocks(place->right, right_, slab, full);
    }
    template <int kBlocks, int kWidth>
    __device__ __forceinline__ void fetch_blocks(Pair<T> (&to)[kBlocks][kPairs][kWidth],
                                                 const Pair<T> *panel, int slab, uint64_t *full)
    {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
            const Pair<T> *const from =
                panel + (ptrdiff_t)(block * slabs_ + slab) * (kPairs * kWidth);
#ifdef GD_BULK_COPIES
            bulk_copy(to[block], from, sizeof to[block], full);
#else
            (void)full;
            copy_share<kPairs * kWidth>(&to[block][0][0], from);
#endif
        }
    }

#ifndef GD_BULK_COPIES
    template <int kCount>
    static __device__ __forceinline__ void copy_share(Pair<T> *to, const Pair<T> *from)
    {
        constexpr int kRun = kPerWord<T> / 2;
        static_assert(kCount % (kRun * kThreads) == 0, "threads share a slab evenly");
#pragma unroll
        for (int start = 0; start < kCount; start += kRun * kThreads) {
            const int at = start + (int)threadIdx.x * kRun;
            __pipeline_memcpy_async(to + at, from + at, 16);
        }
    }
#endif
    Slab *place_; /* of the slab that is waited for, or was last: number buffer_ of all places */
    const Pair<T> *left_, *right_;
    int slabs_;
    int buffer_ = 0;
    unsigned turn_ = 0; /* odd or even, of all places */
};

}  // namespace gd
#endif
