/* short_operands.cuh: how operands reach the registers and the shared memory of short.cu. */
#ifndef GPUDIST_CDIST_LOW_DIM_SHORT_OPERANDS_CUH
#define GPUDIST_CDIST_LOW_DIM_SHORT_OPERANDS_CUH

#include "common/span.cuh"

namespace gd {

constexpr int kShortCols = kPerWord<float>; /* of a thread */
constexpr int kShortThreads = 128;          /* of a block: small ones start and end sooner */

/* Whether a block's elements are 0 or of ordinary size, as nearly all are. Two that differ then do
 * so by 2**-49 at least, a spacing of the least of them, and at most by so much that no sum of
 * squares leaves the range: whatever comes out is good, and 0 is a distance of 0. */
template <typename M>
struct Sizes {
    unsigned least = UINT_MAX, most = 0; /* twice their bits, without the sign; less 1 for least */

    __device__ __forceinline__ void see(float x)
    {
        if constexpr (M::template guarded<float>) {
            const unsigned bits = __float_as_uint(x) << 1;
            least = min(least, bits - 1);
            most = max(most, bits);
        }
    }
    __device__ __forceinline__ void see(const float (&word)[kShortCols])
    {
#pragma unroll
        for (int j = 0; j < kShortCols; ++j) {
            see(word[j]);
        }
    }
    __device__ __forceinline__ bool ordinary() const
    {
        constexpr unsigned kExponentBias = 127, kLeast = (kExponentBias - 26) << 24;
        constexpr unsigned kMost = (kExponentBias + 60) << 24;
        return least >= kLeast - 1 && most <= kMost;
    }
};

/* Brings a thread's columns to registers where there are so few that a warp spans several rows of
 * threads. */
template <int D, Form kForm, typename S>
__device__ __forceinline__ void take_few_columns(const Cdist<float, kForm> &call,
                                                 const Span<float> &span, S &sizes,
                                                 float (&b)[kShortCols][D])
{
    const int d = (int)call.d;
#pragma unroll 1
    for (int j = 0; j < kShortCols; ++j) {
        const ptrdiff_t point = span.column(call.b, j);
#pragma unroll
        for (int k = 0; k < D; ++k) {
            b[0][k] = b[1][k], b[1][k] = b[2][k], b[2][k] = b[3][k];
            b[3][k] = call.b.at(point, min(k, d - 1));
            b[3][k] = k < d ? b[3][k] : float(0);
            sizes.see(b[3][k]);
        }
    }
}

/* Brings a thread's columns to registers. A warp reads the points of all its threads, some of them
 * at a time, as they lie in memory, and the threads take theirs from a shared copy: read by each
 * thread for itself, every element would be a line of its own, or every word. words: points are
 * whole aligned words. Where they are not, loops over points stay loops: a block meets this code
 * once, and its instructions have to come from memory. */
template <int D, Form kForm, typename S>
__device__ __forceinline__ void take_columns(const Cdist<float, kForm> &call,
                                             const Span<float> &span, bool words, S &sizes,
                                             float (&b)[kShortCols][D])
{
    constexpr int kAll = 32 * kShortCols, kPoints = kAll / 2;
    constexpr int kPitch =
        kShortCols * D + kShortCols; /* neighbouring threads begin in different banks */
    __shared__ alignas(16) float staged[kShortThreads / 32][kPoints / kShortCols][kPitch];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = (int)call.d;
    if (blockDim.x < 32) {
        take_few_columns<D>(call, span, sizes, b);
        return;
    }
    /* Threads of the further rows (blockDim.y) bring the same columns, each warp for itself. */
    float (*mine)[kPitch] = staged[threadIdx.y * (blockDim.x / 32) + warp];
    const auto point_at = [&](int point) {
        return call.b.clamp(max(span.first - lane * kShortCols + point, (ptrdiff_t)0));
    };
    const auto take = [&](int first) {
        __syncwarp();
        if (lane * kShortCols / kPoints == first / kPoints) {
            const float *const own = mine[lane % (kPoints / kShortCols)];
#pragma unroll
            for (int j = 0; j < kShortCols; ++j) {
#pragma unroll
                for (int k = 0; k < D; k += D % kShortCols == 0 ? kShortCols : 2) {
                    if constexpr (D % kShortCols == 0) {
                        load_word(own + j * D + k, b[j] + k);
                    }
                    else {
                        const float2 pair = *reinterpret_cast<const float2 *>(own + j * D + k);
                        b[j][k] = pair.x, b[j][k + 1] = pair.y;
                    }
                }
            }
        }
        __syncwarp();
    };
    if constexpr (D % kShortCols == 0) {
        if (words) {
            constexpr int kWords = D / kShortCols, kEach = kPoints * kWords / 32;
            float raw[kEach][kShortCols];
            const auto fetch = [&](int first) {
#pragma unroll
                for (int i = 0; i < kEach; ++i) {
                    const int point = (i * 32 + lane) / kWords, word = (i * 32 + lane) % kWords;
                    load_word_const(call.b.data + point_at(first + point) * call.b.row_stride +
                                        word * kShortCols,
                                    raw[i]);
                }
            };
            fetch(0);
#pragma unroll
            for (int first = 0; first < kAll; first += kPoints) {
#pragma unroll
                for (int i = 0; i < kEach; ++i) {
                    const int word = i * 32 + lane;
                    sizes.see(raw[i]);
                    store_word(&mine[word / D][word % D * kShortCols], raw[i]);
                }
                if (first + kPoints < kAll) {
                    fetch(first + kPoints);
                }
                take(first);
            }
            return;
        }
    }
#pragma unroll 1
    for (int first = 0; first < kAll; first += 32) {
        float raw[D];
#pragma unroll
        for (int i = 0; i < D; ++i) {
            const int point = first + (i * 32 + lane) / D, k = (i * 32 + lane) % D;
            /* Without a branch around it, all loads are under way at once. */
            raw[i] = call.b.at(point_at(point), min(k, d - 1));
        }
#pragma unroll
        for (int i = 0; i < D; ++i) {
            const int point = first % kPoints + (i * 32 + lane) / D, k = (i * 32 + lane) % D;
            raw[i] = k < d ? raw[i] : float(0);
            sizes.see(raw[i]);
            mine[point / kShortCols][point % kShortCols * D + k] = raw[i];
        }
        if ((first + 32) % kPoints == 0) {
            take(first);
        }
    }
}

/* Brings a block's rows to shared memory, neighbours of their dimensions exchanged; the last row
 * stands in for rows beyond the end. A thread's rows, which are blockDim.y apart, follow each other
 * there. */
template <int kFill, Form kForm, typename S>
__device__ __forceinline__ void take_rows(const Cdist<float, kForm> &call, ptrdiff_t first_row,
                                          int count, unsigned log_kinds, bool words, S &sizes,
                                          float (*rows)[kFill])
{
    constexpr int kWords = kFill / kShortCols;
    const int log_down = __ffs((int)blockDim.y) - 1, last = (int)blockDim.y - 1, d = (int)call.d;
    const int of_thread = (count + last) >> log_down;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, step = blockDim.x * blockDim.y;
    const auto at = [&](int i) {
        return call.a.clamp(first_row + ((ptrdiff_t)(i / kWords) << log_kinds));
    };
    const auto put = [&](int i, const float (&x)[kShortCols]) {
        const int row = i / kWords;
        const float exchanged[kShortCols] = {x[1], x[0], x[3], x[2]};
        sizes.see(x);
        store_word(&rows[(row & last) * of_thread + (row >> log_down)][i % kWords * kShortCols],
                   exchanged);
    };
    float x[kShortCols];
    if (words) {
#pragma unroll 4
        for (int i = thread; i < count * kWords; i += step) {
            load_word_const(call.a.data + at(i) * call.a.row_stride + i % kWords * kShortCols, x);
            put(i, x);
        }
        return;
    }
#pragma unroll 2
    for (int i = thread; i < count * kWords; i += step) {
#pragma unroll
        for (int j = 0; j < kShortCols; ++j) {
            const int k = i % kWords * kShortCols + j;
            x[j] = call.a.at(at(i), min(k, d - 1));
            x[j] = k < d ? x[j] : 0.0f;
        }
        put(i, x);
    }
}

}  // namespace gd
#endif
