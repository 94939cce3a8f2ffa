/* list.cuh: the nearest of a row so far, in the lanes of a warp, whatever the order they come in.
 *
 * Element e lies in lane e % 32, in register e / 32. A candidate that comes alone moves what is
 * behind its place on by one lane; many at once are sorted and merged (Batcher's bitonic network).
 * Where nobody is, kNone stands with a distance that none in the list is beyond: a limit, or all
 * ones. */
#ifndef GPUDIST_NEIGHBORS_BOXES_LIST_CUH
#define GPUDIST_NEIGHBORS_BOXES_LIST_CUH

#include "neighbors/boxes/order.cuh"

namespace gd {
namespace boxes {

/* The nearest `wanted`, up to 32 * kSlots. */
template <typename T, int kSlots>
class List {
public:
    Key<T> last; /* what is not before belongs to no list */

    /* `beyond` stands where nobody is, and everybody in the list is before it. */
    __device__ __forceinline__ List(int wanted, Key<T> beyond)
        : last(beyond), end_(wanted - 1), lane_((int)(threadIdx.x % kWarp))
    {
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
            keys_[s] = beyond;
        }
    }

    /* Takes what belongs to the list of 32 candidates, one a lane. */
    __device__ __forceinline__ void take(Key<T> key)
    {
        unsigned belong = __ballot_sync(kAll, key < last);
        if (__popc(belong) > kFew) {
            merge(key);
            return;
        }
        for (; belong != 0; belong &= belong - 1) {
            const Key<T> one = key.from_lane(__ffs((int)belong) - 1);
            if (one < last) {
                insert(one);
            }
        }
    }

    __device__ __forceinline__ void store(T *distances, int64_t *indices) const
    {
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
            const int at = s * kWarp + lane_;
            if (at <= end_) {
                const bool there = keys_[s].index() != kNone;
                distances[at] = there ? keys_[s].distance() : no_distance(T{});
                indices[at] = there ? (int64_t)keys_[s].index() : -1;
            }
        }
    }

private:
    static constexpr int kFew = 6; /* insertions take as long as a merge */

    Key<T> keys_[kSlots];
    int end_, lane_;

    /* Of values, not references: an array that is referred to has no place in registers. */
    static __device__ __forceinline__ Key<T> either(bool first, Key<T> x, Key<T> y)
    {
        return first ? x : y;
    }
    static __device__ __forceinline__ Key<T> nearer(Key<T> x, Key<T> y)
    {
        return either(x < y, x, y);
    }
    static __device__ __forceinline__ Key<T> farther(Key<T> x, Key<T> y)
    {
        return either(x < y, y, x);
    }

    __device__ __forceinline__ void settle()
    {
        Key<T> key = keys_[0];
#pragma unroll
        for (int s = 1; s < kSlots; ++s) {
            key = either(end_ / kWarp == s, keys_[s], key);
        }
        last = key.from_lane(end_ % kWarp);
    }

    /* A candidate that all lanes know: each element becomes itself, the candidate, or the one
     * before, whichever is in the middle. */
    __device__ __forceinline__ void insert(Key<T> key)
    {
        Key<T> turned[kSlots];
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
            turned[s] = keys_[s].from_lane((lane_ + kWarp - 1) % kWarp);
        }
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
            const Key<T> before =
                either(lane_ == 0, s > 0 ? turned[s > 0 ? s - 1 : 0] : key, turned[s]);
            const Key<T> moved = farther(before, key);
            keys_[s] = nearer(keys_[s], moved);
        }
        settle();
    }

    __device__ __forceinline__ void exchange(Key<T> &key, int apart, bool keep_nearer) const
    {
        const Key<T> other = key.from_lane(lane_ ^ apart);
        key = either((key < other) == keep_nearer, key, other);
    }

    /* Puts 32 keys that fall and then rise, or the other way, in order. */
    __device__ __forceinline__ void sort_bitonic(Key<T> &key) const
    {
#pragma unroll
        for (int apart = kWarp / 2; apart > 0; apart /= 2) {
            exchange(key, apart, (lane_ & apart) == 0);
        }
    }

    __device__ __forceinline__ void merge(Key<T> key)
    {
        key = either(key < last, key, Key<T>::none());
#pragma unroll
        for (int run = 2; run <= kWarp; run *= 2) {
#pragma unroll
            for (int apart = run / 2; apart > 0; apart /= 2) {
                exchange(key, apart, ((lane_ & apart) == 0) == ((lane_ & run % kWarp) == 0));
            }
        }
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
            const Key<T> other = key.from_lane(kWarp - 1 - lane_);
            key = farther(keys_[s], other);
            keys_[s] = nearer(keys_[s], other);
            sort_bitonic(keys_[s]);
            if (s + 1 < kSlots) {
                sort_bitonic(key);
            }
        }
        settle();
    }
};

}  // namespace boxes
}  // namespace gd
#endif
