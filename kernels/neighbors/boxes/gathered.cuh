/* gathered.cuh: some of a row's neighbours in shared memory, which its warp puts in order.
 *
 * What stands for their distances (sums.cuh) becomes these when they are all there. They come in
 * any order. An element's place is how many come before it, which each lane counts for two elements
 * at once: up to some hundred that is quicker than a network of exchanges, and its elements need
 * not be in registers. */
#ifndef GPUDIST_NEIGHBORS_BOXES_GATHERED_CUH
#define GPUDIST_NEIGHBORS_BOXES_GATHERED_CUH

#include "neighbors/boxes/look.cuh"

namespace gd {
namespace boxes {

/* Some of a row's neighbours. What is behind the last up to a whole four is before nobody. */
template <typename T, int kRoom>
struct alignas(16) Gathered {
    unsigned indices[kRoom];
    T distances[kRoom];

    /* Puts a lane's candidate, if it is one, behind `count` others; returns how many there are
     * then. There is room for 32. */
    __device__ __forceinline__ int add(int count, bool is_one, T distance, unsigned index)
    {
        const unsigned all = __ballot_sync(kAll, is_one);
        if (is_one) {
            const int place = count + __popc(all & ((1u << threadIdx.x % kWarp) - 1));
            indices[place] = index;
            distances[place] = distance;
        }
        return count + __popc(all);
    }

    /* Replaces what stands for distances by these. */
    template <typename M, typename Row, int kDims>
    __device__ __forceinline__ void settle(const Plan<T, kDims> &plan, const Row &a, int count)
    {
        __syncwarp();
        if constexpr (kStandsIn<M, T, Row>) {
            const auto from = for_distances(plan, a);
#pragma unroll 1
            for (int i = (int)(threadIdx.x % kWarp); i < count; i += kWarp) {
                distances[i] = distance_behind<M>(plan, from, distances[i]);
            }
        }
    }

    /* Writes the first `most` of `count` in order, to elements of a row from the first on. */
    template <bool kByDistance>
    __device__ __forceinline__ void write_sorted(int count, int most, T *to, int64_t *to_indices)
    {
        const int lane = (int)(threadIdx.x % kWarp);
        if (lane < kFour && count + lane < kRoom) {
            indices[count + lane] = kNone;
            distances[count + lane] = behind_all<T>();
        }
        __syncwarp();
#pragma unroll 1
        for (int first = 0; first < count; first += 2 * kWarp) {
            const int i = first + lane, j = i + kWarp;
            int ranks[2] = {};
            if (first + kWarp < count) {
                rank<kByDistance, 2>(i, count, ranks);
            }
            else {
                rank<kByDistance, 1>(i, count, ranks);
            }
            if (i < count && ranks[0] < most) {
                to[ranks[0]] = distances[i];
                to_indices[ranks[0]] = (int64_t)indices[i];
            }
            if (j < count && ranks[1] < most) {
                to[ranks[1]] = distances[j];
                to_indices[ranks[1]] = (int64_t)indices[j];
            }
        }
        __syncwarp();
    }

    __device__ __forceinline__ void write(int count, bool by_distance, T *to, int64_t *to_indices)
    {
        if (by_distance) {
            write_sorted<true>(count, count, to, to_indices);
        }
        else {
            write_sorted<false>(count, count, to, to_indices);
        }
    }

    /* Writes them as they are. */
    __device__ __forceinline__ void spill(int count, T *to, int64_t *to_indices) const
    {
        __syncwarp();
#pragma unroll 1
        for (int i = (int)(threadIdx.x % kWarp); i < count; i += kWarp) {
            to[i] = distances[i];
            to_indices[i] = (int64_t)indices[i];
        }
        __syncwarp();
    }

private:
    /* Elements that a lane reads at once. */
    static constexpr int kFour = 4;
    template <typename V>
    struct alignas(16) Four {
        V of[kFour];
    };

    template <bool kByDistance>
    static __device__ __forceinline__ auto key_of(T distance, unsigned index)
    {
        if constexpr (kByDistance) {
            return Key<T>::of(distance, index);
        }
        else {
            return index;
        }
    }

    /* How many of the first `count` come before element i, and before those 32 further on. */
    template <bool kByDistance, int kMany>
    __device__ __forceinline__ void rank(int i, int count, int (&ranks)[2]) const
    {
        decltype(key_of<kByDistance>(T{}, 0u)) mine[kMany];
#pragma unroll
        for (int m = 0; m < kMany; ++m) { /* some are beyond the last: nobody reads their ranks */
            const int at = i + m * kWarp < kRoom ? i + m * kWarp : 0;
            mine[m] = key_of<kByDistance>(distances[at], indices[at]);
        }
#pragma unroll 1
        for (int k = 0; k < count; k += kFour) {
            const auto some = *reinterpret_cast<const Four<unsigned> *>(indices + k);
            Four<T> away;
            if constexpr (kByDistance) {
                away = *reinterpret_cast<const Four<T> *>(distances + k);
            }
#pragma unroll
            for (int u = 0; u < kFour; ++u) {
                const auto key = key_of<kByDistance>(away.of[u], some.of[u]);
#pragma unroll
                for (int m = 0; m < kMany; ++m) {
                    ranks[m] += key < mine[m];
                }
            }
        }
    }
};

}  // namespace boxes
}  // namespace gd
#endif
