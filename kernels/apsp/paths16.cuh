/* paths16.cuh: path lengths in 16 bits, where all weights are whole numbers so small that no path
 * can be longer: hop counts, small integers. Half the memory, and one instruction makes two
 * updates.
 *
 * Idea: a word of the matrix holds two neighbouring columns. VIADDMNMX on both halves is
 * min(c, a + b) twice, at the rate of one 32-bit minimum; the left operand of phase 3 is one number
 * in both halves. "No path" is 0x7fff: two of them add up to 0xfffe, so no half carries into the
 * other, and a minimum with 0x7fff gives it back. Whole numbers do not round, so the lengths are
 * those of the wider type.
 *
 * The matrix stays in its place: each row becomes narrow in the first part of its own memory, and
 * wide again at the end. That takes 1 % of the time.
 *
 * Cost: half a VIADDMNMX an update: 33.4e12 updates a second on an H200. */
#ifndef GPUDIST_APSP_PATHS16_CUH
#define GPUDIST_APSP_PATHS16_CUH

#include "arch/halfwords.cuh"
#include "apsp/panels.cuh"

namespace gd {

constexpr int32_t kNarrowFar = 0x7fff; /* no path; lengths are below */

struct Narrow {
    using Word = int32_t; /* two columns; on the left one number twice */

    static __device__ __forceinline__ void join(int32_t &c, int32_t a, int32_t b)
    {
        c = min(c, a + b);
    }
    /* For single numbers, and for words. */
    static __device__ __forceinline__ void fold_values(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        c = min(c, a.first + b.second);
        c = min(c, a.second + b.first);
    }
    static __device__ __forceinline__ void fold(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        c = (int32_t)__viaddmin_u16x2((unsigned)a.first, (unsigned)b.second, (unsigned)c);
        c = (int32_t)__viaddmin_u16x2((unsigned)a.second, (unsigned)b.first, (unsigned)c);
    }
};

template <>
constexpr bool kOnHalfwords<Narrow> = true;

template <>
struct Storage<Narrow> {
    using Word = int32_t;
    using Value = int32_t;
    using Stored = uint16_t;
    static constexpr int kPerWord = 2;

    static __device__ __forceinline__ int32_t both(int32_t low, int32_t high)
    {
        return low | high << 16;
    }
    static __device__ __forceinline__ int32_t low(int32_t word) { return word & 0xffff; }
    static __device__ __forceinline__ int32_t high(int32_t word) { return word >> 16; }

    static __device__ __forceinline__ void load(const uint16_t *from, int32_t *to)
    {
        const int32_t word = *reinterpret_cast<const int32_t *>(from);
        to[0] = low(word), to[1] = high(word);
    }
    static __device__ __forceinline__ void store(uint16_t *to, const int32_t *from)
    {
        *reinterpret_cast<int32_t *>(to) = both(from[0], from[1]);
    }
    static __device__ __forceinline__ void put_cols(Pair<Word> *at, Pair<Value> x, Pair<Value> y)
    {
        const Pair<Word> two[2] = {{both(x.first, x.first), both(x.second, x.second)},
                                   {both(y.first, y.first), both(y.second, y.second)}};
        store_run(at, two);
    }
    static __device__ __forceinline__ void put_rows(Pair<Word> *at, Pair<Value> x, Pair<Value> y)
    {
        *at = {both(x.first, y.first), both(x.second, y.second)};
    }
    static __device__ __forceinline__ void get_cols(const Pair<Word> *at, Pair<Value> *to)
    {
        to[0] = {low(at[0].first), low(at[0].second)};
        to[1] = {low(at[1].first), low(at[1].second)};
    }
    static __device__ __forceinline__ void get_rows(const Pair<Word> *at, Pair<Value> *to)
    {
        to[0] = {low(at->first), low(at->second)};
        to[1] = {high(at->first), high(at->second)};
    }
};

/* One row a block. Both ways an element's new place lies over old ones that are read already: going
 * up when rows shrink and down when they grow, with a barrier where a piece lies over itself. */
constexpr int kNarrowThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kNarrowThreads) make_16_bits(T *matrix, ptrdiff_t padded)
{
    T *const row = matrix + (ptrdiff_t)blockIdx.x * padded;
    uint16_t *const narrow = reinterpret_cast<uint16_t *>(row);
    for (ptrdiff_t start = 0; start < padded; start += kNarrowThreads) {
        const ptrdiff_t j = start + threadIdx.x;
        const T length = j < padded ? row[j] : 0;
        __syncthreads();
        if (j < padded) {
            narrow[j] = (uint16_t)(length < kNarrowFar ? (int32_t)length : kNarrowFar);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kNarrowThreads) make_wide(T *matrix, ptrdiff_t padded, T far)
{
    T *const row = matrix + (ptrdiff_t)blockIdx.x * padded;
    const uint16_t *const narrow = reinterpret_cast<const uint16_t *>(row);
    for (ptrdiff_t start = (padded - 1) / kNarrowThreads * kNarrowThreads; start >= 0;
         start -= kNarrowThreads) {
        const ptrdiff_t j = start + threadIdx.x;
        const int32_t length = j < padded ? narrow[j] : 0;
        __syncthreads();
        if (j < padded) {
            row[j] = length < kNarrowFar ? (T)length : far;
        }
    }
}

}  // namespace gd
#endif
