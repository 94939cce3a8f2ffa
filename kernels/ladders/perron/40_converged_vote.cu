/* 40_converged_vote.cu: each thread compares two neighbouring row sums, and the warp votes.
 *
 * Idea: sums agree where every one agrees with the next. Each value is read twice, by the threads
 * on its two sides; a warp's vote makes one write of up to 32.
 * The study compares with an absolute epsilon; here it is relative. Neighbours that agree need not
 * mean that all do: what ends the loop is the interval (study.cu).
 * Bottleneck: memory (the second read comes from the cache); the launch for a few thousand sums.
 * Launch: `block` threads, one a pair.
 * Reached on an H200: 93 us for 33.5 M elements, a third of the bandwidth of reading; one element a
 * thread keeps few loads under way.
 * Source: converged version 0 of the study. */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void compare_pairs(const T *sums, ptrdiff_t n, T epsilon, int *apart)
{
    const ptrdiff_t i = thread_index();
    const bool agrees = i + 1 >= n || fabs(sums[i] - sums[i + 1]) <= epsilon * sums[i];
    if (!__all_sync(~0u, agrees) && threadIdx.x % 32 == 0) {
        *apart = 1;
    }
}

template <typename T>
cudaError_t converged_vote(const Study<T> &s)
{
    return enqueue_part(s, s.n, compare_pairs<T>, s.sums, s.n, (T)s.epsilon, s.apart);
}

}  // namespace gd

GD_STUDY_PART(converged_vote, clear_mark)
