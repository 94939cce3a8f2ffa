/* resident_multiply.cuh: a thread's part of one tile, and how the threads' sums become the rows'.
 */
#ifndef GPUDIST_PERRON_RESIDENT_MULTIPLY_CUH
#define GPUDIST_PERRON_RESIDENT_MULTIPLY_CUH

#include "perron/resident.cuh"

namespace gd::resident {

/* A thread's word of one tile times its values of x. Rows that the group does not have hold what
 * was there before: their sums are never read, and no branch keeps loads apart. Scanning also looks
 * at the elements of the `rows` rows and `cols` columns that there are. */
template <typename T, bool kScan>
__device__ __forceinline__ void multiply(double *sums, const char *tile, const double *factors,
                                         int rows, int cols, unsigned &doubts)
{
    constexpr int kEach = kPerWord<T>;
    const int word = threadIdx.x % kTileWords<T>, lane = threadIdx.x / kTileWords<T>;
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
        const int row = lane + i * kRowLanes<T>;
        T elements[kEach];
        load_word(reinterpret_cast<const T *>(tile + row * kRowBytes<T> + word * 16), elements);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            sums[i] = fma(widened(elements[j]), factors[j], sums[i]);
            if (kScan && row < rows && word * kEach + j < cols) {
                doubts = max(doubts, doubt(elements[j]));
            }
        }
    }
}

/* Lanes hand each other half of the sums that they have left, so that in the end a lane has one: as
 * many shuffles as there are sums, not five times that. A template, so that indices are constants
 * and sums stay in registers. */
template <int kLeft, int kLanes>
__device__ __forceinline__ void share_out(double (&sums)[kSums])
{
    if constexpr (kLeft > 1) {
        const bool upper = threadIdx.x & kLanes;
#pragma unroll
        for (int j = 0; j < kLeft / 2; ++j) {
            const double other = shuffled(upper ? sums[j] : sums[j + kLeft / 2], kLanes);
            sums[j] = (upper ? sums[j + kLeft / 2] : sums[j]) + other;
        }
        share_out<kLeft / 2, kLanes / 2>(sums);
    }
    else if constexpr (kLanes > 0) {
        sums[0] += shuffled(sums[0], kLanes);
        share_out<1, kLanes / 2>(sums);
    }
}

/* Joins the lanes' sums of a group and puts them where the first warp finds them. */
template <typename T>
__device__ __forceinline__ void hand_over(double (&sums)[kSums], double (*parts)[kGroupRows<T>])
{
    const int lane = threadIdx.x % 32, number = lane / kLanesPerSum;
    const int row = number / kRowsEach * kTileRows<T> + threadIdx.x / kTileWords<T> +
                    number % kRowsEach * kRowLanes<T>;
    share_out<kSums, 16>(sums);
    if (lane % kLanesPerSum == 0) {
        parts[threadIdx.x % kTileWords<T> / 32][row] = sums[0];
    }
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
        sums[j] = 0;
    }
}

}  // namespace gd::resident
#endif
