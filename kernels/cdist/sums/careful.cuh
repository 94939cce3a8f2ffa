/* careful.cuh: the careful form, where a swift one did not answer, and what is computed again after
 * it. */
#ifndef GPUDIST_CDIST_SUMS_CAREFUL_CUH
#define GPUDIST_CDIST_SUMS_CAREFUL_CUH

#include "cdist/sums/tile.cuh"

namespace gd {
namespace sums {

/* Computes a thread's results that are NaN again: after all stores, when no register holds a sum
 * any more. */
template <int kSum, bool kWeighted>
__device__ __forceinline__ void recompute_tile_f64(const Call<float> &call, const Place &place)
{
    using S = Shape<kSum, float>;
    const ptrdiff_t row = place.row + threadIdx.x / 8 * S::rows;
    for (int r = 0; r < S::runs; ++r) {
        const Run<float> run(call, place.col + (threadIdx.x % 8 + r * 8) * S::word, 1);
        recompute_f64<kSum, kWeighted>(call, place.begin, row, min(row + S::rows, call.a.count),
                                       run);
    }
}

/* Stores a thread's results of the careful form, NaN where not even that is good, and says whether
 * all are. only_nan: only where NaN stands now. */
template <int kForm, bool kWeighted, typename T>
__device__ __forceinline__ bool recompute_tile_careful(const Call<T> &call, const Place &place,
                                                       const T *total, bool only_nan)
{
    using S = Shape<kForm, T>;
    constexpr int kWord = S::word;
    const ptrdiff_t row = place.row + threadIdx.x / 8 * S::rows;
    const ptrdiff_t col = place.col + threadIdx.x % 8 * kWord;
    const ptrdiff_t left = call.a.count - row;
    const Target<T> out = call.from(place.begin.out);
    bool good = true;
#pragma unroll
    for (int r = 0; r < S::runs; ++r) {
        const Run<T> run(call, col + r * 8 * kWord, 1);
        T *to = out.row(row) + run.first;
        const int start = run.start(out, row);
#pragma unroll
        for (int i = 0; i < S::rows; to += out.step(row + i, 1), ++i) {
            if (i < left) {
                T results[kWord] = {NAN, NAN, NAN, NAN};
                if (only_nan) {
                    run.load(to, results, start + i);
                }
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    if (results[j] != results[j]) {
                        const T *const s = total + (i * S::cols + r * kWord + j) * S::count;
                        results[j] = careful_result<kForm, kWeighted>(call, place.begin, s[0],
                                                                      s[S::count - 1], row + i,
                                                                      call.b.clamp(run.first + j));
                        good &= results[j] == results[j];
                    }
                }
                run.store(to, results, start + i);
            }
        }
    }
    return good;
}

/* A block of a swift form in the careful one, whose blocks are as high, but may be narrower.
 * only_nan: only what is NaN. */
template <int kSum, bool kWeighted>
__device__ __forceinline__ void recompute_careful(const Call<float> &call, Place place,
                                                  int block_cols, bool only_nan,
                                                  typename Shape<kSum, float>::Memory &memory,
                                                  void *groups)
{
    using S = Shape<kSum, float>;
#pragma unroll 1
    for (int part = 0; part < block_cols; part += S::block_cols) {
        float total[S::held];
        add_up<kSum, kWeighted, float>(call, place, total, memory, groups);
        const bool good = recompute_tile_careful<kSum, kWeighted>(call, place, total, only_nan);
        if constexpr (kDoubtful<kSum, kWeighted, float>) {
            if (!good) {
                recompute_tile_f64<kSum, kWeighted>(call, place);
            }
        }
        place.col += S::block_cols;
    }
}

}  // namespace sums
}  // namespace gd
#endif
