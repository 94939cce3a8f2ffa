/* block_list.cuh: the nearest candidates of a row, any number of them, by a block of threads.
 *
 * The list lies sorted where the result is. Candidates nearer than its last gather in shared
 * memory, in any order; when there may be no room for another step's they are sorted, which makes
 * the order theirs again, and merged: each candidate finds how many of the list come before it, and
 * each element of the list how many candidates do, which is how far it moves on. Elements move from
 * the last on, so that none is overwritten before it was read, and those that no candidate is
 * before stay. */
#ifndef GPUDIST_NEIGHBORS_BLOCK_LIST_CUH
#define GPUDIST_NEIGHBORS_BLOCK_LIST_CUH

#include "neighbors/keys.cuh"

namespace gd {

constexpr int kListThreads = 256;

template <typename T, bool kLarger>
class BlockList {
public:
    /* Candidates that a step may add: all are looked for by the same steps. */
    static constexpr int kDeep = 4, kStep = kDeep * kListThreads, kRoom = 2 * kStep;

    struct Shared {
        T keys[kRoom];
        int columns[kRoom];
        int count;
    };

    T bound; /* the largest key that belongs to the list */

    /* A list of `most` elements, of which some are there unless it is `fresh`. */
    __device__ __forceinline__ BlockList(Shared &shared, T *distances, int64_t *indices,
                                         int64_t most, T limit, bool fresh)
        : shared_(shared),
          distances_(distances),
          indices_(indices),
          most_(most),
          have_(0),
          limit_(limit),
          enough_(most < kListThreads ? kListThreads
                  : most < kStep      ? (int)most
                                      : kStep)
    {
        if (!fresh) {
            int64_t beyond = most;
            while (have_ < beyond) { /* the first place that nobody has taken */
                const int64_t middle = have_ + (beyond - have_) / 2;
                if (indices_[middle] >= 0) {
                    have_ = middle + 1;
                }
                else {
                    beyond = middle;
                }
            }
        }
        if (threadIdx.x == 0) {
            shared_.count = 0;
        }
        settle();
    }

    /* Adds a candidate that belongs to the list. Who adds has made room for all that a step adds.
     */
    __device__ __forceinline__ void add(T key, int column)
    {
        const int at = atomicAdd(&shared_.count, 1);
        shared_.keys[at] = key;
        shared_.columns[at] = column;
    }

    /* Whether there is no bound yet but what the caller said. */
    __device__ __forceinline__ bool open() const { return have_ < most_; }

    /* Merges what has been added, if there is enough for a better bound, or if this is the end. By
     * all threads. */
    __device__ __forceinline__ void merge(const Segment<T> &segment, bool end)
    {
        __syncthreads();
        const int count = shared_.count;
        __syncthreads(); /* all have read it before somebody adds to it */
        if (count == 0 || (count < enough_ && !end)) {
            return;
        }
        sort(count);
        const int64_t before = have_;
        int64_t ranks[kRoom / kListThreads];
#pragma unroll
        for (int u = 0; u < kRoom / kListThreads; ++u) {
            const int i = u * kListThreads + (int)threadIdx.x;
            ranks[u] = i < count ? i + before_key(shared_.keys[i], before) : most_;
        }
        __syncthreads();
        move_on(count, before);
#pragma unroll
        for (int u = 0; u < kRoom / kListThreads; ++u) {
            const int i = u * kListThreads + (int)threadIdx.x;
            if (ranks[u] < most_) {
                distances_[ranks[u]] = key_of<kLarger>(shared_.keys[i]);
                indices_[ranks[u]] = segment.index(shared_.columns[i]);
            }
        }
        have_ = before + count < most_ ? before + count : most_;
        if (threadIdx.x == 0) {
            shared_.count = 0;
        }
        settle();
    }

    /* Marks the places that nobody has taken. */
    __device__ __forceinline__ void fill() const
    {
        for (int64_t i = have_ + threadIdx.x; i < most_; i += kListThreads) {
            distances_[i] = no_distance(T{});
            indices_[i] = -1;
        }
    }

private:
    Shared &shared_;
    T *distances_;
    int64_t *indices_;
    int64_t most_, have_;
    T limit_;
    int enough_; /* candidates to be merged: as many as the list has, if there is room */

    __device__ __forceinline__ T key(int64_t i) const { return key_of<kLarger>(distances_[i]); }

    __device__ __forceinline__ void settle()
    {
        __syncthreads();
        bound = most_ == 0 ? no_distance(T{}) : have_ < most_ ? limit_ : below(key(most_ - 1));
    }

    /* How many of the list's first `count` elements come before a candidate. */
    __device__ __forceinline__ int64_t before_key(T candidate, int64_t count) const
    {
        int64_t from = 0;
        while (from < count) {
            const int64_t middle = from + (count - from) / 2;
            if (key(middle) <= candidate) {
                from = middle + 1;
            }
            else {
                count = middle;
            }
        }
        return from;
    }

    /* How many candidates come before an element of the list. */
    __device__ __forceinline__ int before_element(T element, int count) const
    {
        int from = 0;
        while (from < count) {
            const int middle = (from + count) / 2;
            if (shared_.keys[middle] < element) {
                from = middle + 1;
            }
            else {
                count = middle;
            }
        }
        return from;
    }

    /* Moves elements of the list on by as many candidates as come before them. */
    __device__ __forceinline__ void move_on(int count, int64_t have)
    {
        for (int64_t end = have; end > 0; end -= kListThreads) {
            const int64_t i = end - kListThreads + threadIdx.x;
            const T element = i >= 0 ? key(i) : -infinity<T>();
            const int64_t index = i >= 0 ? indices_[i] : 0;
            const int on = before_element(element, count);
            if (!__syncthreads_or(on > 0)) {
                return;
            }
            if (on > 0 && i + on < most_) {
                distances_[i + on] = key_of<kLarger>(element);
                indices_[i + on] = index;
            }
            __syncthreads();
        }
    }

    /* Sorts candidates by key and column (Batcher's bitonic network). */
    __device__ __forceinline__ void sort(int count)
    {
        int size = 1;
        while (size < count) {
            size *= 2;
        }
        for (int i = count + (int)threadIdx.x; i < size; i += kListThreads) {
            shared_.keys[i] = infinity<T>();
            shared_.columns[i] = INT_MAX;
        }
        for (int run = 2; run <= size; run *= 2) {
            for (int apart = run / 2; apart > 0; apart /= 2) {
                __syncthreads();
                for (int pair = (int)threadIdx.x; pair < size / 2; pair += kListThreads) {
                    const int i = 2 * pair - (pair & (apart - 1)), j = i + apart;
                    const bool wrong = nearer(shared_.keys[j], (int64_t)shared_.columns[j],
                                              shared_.keys[i], (int64_t)shared_.columns[i]);
                    const bool same = !wrong && shared_.keys[i] == shared_.keys[j] &&
                                      shared_.columns[i] == shared_.columns[j];
                    if (!same && wrong == ((i & run) == 0)) {
                        const T key = shared_.keys[i];
                        const int column = shared_.columns[i];
                        shared_.keys[i] = shared_.keys[j];
                        shared_.columns[i] = shared_.columns[j];
                        shared_.keys[j] = key;
                        shared_.columns[j] = column;
                    }
                }
            }
        }
        __syncthreads();
    }
};

}  // namespace gd
#endif
