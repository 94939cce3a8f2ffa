/* warp_list.cuh: the nearest 32 candidates of a row, one in each lane of a warp.
 *
 * A candidate that is nearer than the last one takes its place among them by two shuffles, as the
 * lanes behind it move on; where many come at once, as they do at first, they are sorted and merged
 * by compare-exchanges (Batcher's bitonic network). Candidates come in the order of their indices,
 * 32 at a time, so that one at just the distance of the last wanted one is too late: a bound that
 * is smaller than that is all that an element is held against. */
#ifndef GPUDIST_NEIGHBORS_WARP_LIST_CUH
#define GPUDIST_NEIGHBORS_WARP_LIST_CUH

#include "neighbors/keys.cuh"

namespace gd {

template <typename T>
class WarpList {
public:
    T bound; /* the largest key that belongs to the list */

    /* An empty list of the nearest `most`, 32 at most, whose keys are at most `limit`. */
    __device__ __forceinline__ WarpList(int most, T limit)
        : bound(limit),
          key_(infinity<T>()),
          index_(kNobody),
          limit_(limit),
          last_(most - 1),
          lane_((int)(threadIdx.x % kWarp))
    {
    }

    /* What a list of distances and indices has by now, of earlier indices. */
    template <bool kLarger>
    __device__ __forceinline__ void load(const T *distances, const int64_t *indices)
    {
        if (lane_ <= last_ && indices[lane_] >= 0) {
            key_ = key_of<kLarger>(distances[lane_]);
            index_ = indices[lane_];
        }
        settle();
    }

    template <bool kLarger>
    __device__ __forceinline__ void store(T *distances, int64_t *indices) const
    {
        if (lane_ <= last_) {
            const bool there = index_ != kNobody;
            distances[lane_] = there ? key_of<kLarger>(key_) : no_distance(T{});
            indices[lane_] = there ? index_ : -1;
        }
    }

    /* Takes what belongs to the list of 32 candidates, one a lane. */
    __device__ __forceinline__ void take(T key, int64_t index)
    {
        unsigned belong = __ballot_sync(kAll, key <= bound);
        if (__popc(belong) > kFew) {
            merge(key, index);
            return;
        }
        for (; belong != 0; belong &= belong - 1) {
            const int lane = __ffs((int)belong) - 1;
            insert(__shfl_sync(kAll, key, lane), __shfl_sync(kAll, index, lane));
        }
    }

private:
    static constexpr int kFew = 6; /* insertions take as long as a merge */

    T key_;
    int64_t index_;
    T limit_;
    int last_, lane_;

    /* The bound of a list that has changed. */
    __device__ __forceinline__ void settle()
    {
        const T key = __shfl_sync(kAll, key_, last_);
        bound = __shfl_sync(kAll, index_, last_) != kNobody ? below(key) : limit_;
    }

    /* A candidate that all lanes know; all who have the same key come before it. */
    __device__ __forceinline__ void insert(T key, int64_t index)
    {
        if (!(key <= bound)) {
            return;
        }
        const bool before = index_ != kNobody && key_ <= key;
        const int at = __popc(__ballot_sync(kAll, before));
        const T key_before = __shfl_up_sync(kAll, key_, 1);
        const int64_t index_before = __shfl_up_sync(kAll, index_, 1);
        if (lane_ >= at) {
            key_ = lane_ == at ? key : key_before;
            index_ = lane_ == at ? index : index_before;
        }
        settle();
    }

    /* One candidate becomes the nearer or the farther of itself and that of the lane `apart`. */
    __device__ __forceinline__ void exchange(T &key, int64_t &index, int apart, bool keep_nearer)
    {
        const T other = __shfl_xor_sync(kAll, key, apart);
        const int64_t its_index = __shfl_xor_sync(kAll, index, apart);
        const bool first = nearer(key, index, other, its_index);
        if (first != keep_nearer) {
            key = other;
            index = its_index;
        }
    }

    __device__ __forceinline__ void merge(T key, int64_t index)
    {
        const bool belongs = key <= bound;
        key = belongs ? key : infinity<T>();
        index = belongs ? index : kNobody;
#pragma unroll
        for (int size = 2; size <= kWarp; size *= 2) { /* the farthest first */
#pragma unroll
            for (int apart = size / 2; apart > 0; apart /= 2) {
                const bool farther_first = (lane_ & size % kWarp) == 0;
                exchange(key, index, apart, ((lane_ & apart) == 0) != farther_first);
            }
        }
        if (nearer(key, index, key_, index_)) { /* the nearest 32 of both, in no order but */
            key_ = key;
            index_ = index;
        }
#pragma unroll
        for (int apart = kWarp / 2; apart > 0; apart /= 2) { /* one that a merge can sort */
            exchange(key_, index_, apart, (lane_ & apart) == 0);
        }
        settle();
    }
};

}  // namespace gd
#endif
