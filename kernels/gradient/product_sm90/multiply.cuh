/* multiply.cuh: the kernel that multiplies: factors of pairs, made in registers, times the images
 * of the rows of b.
 *
 * A block a multiprocessor walks over items: 128 rows of a, 128 columns, a part of the rows of b.
 * Four warps bring what belongs to the pairs of 64 rows of b, two slabs ahead, and one of their
 * threads the images. Two groups of 128 threads have 64 rows of a each: the factors of a slab,
 * which the tensor cores take from the registers, and the sums. Each row's factors are scaled by
 * their largest in the slab, which its sums undo as they join the total. So halves hold all the
 * digits that count, and tensor cores, which truncate, begin with each slab afresh. */
#ifndef GPUDIST_GRADIENT_PRODUCT_SM90_MULTIPLY_CUH
#define GPUDIST_GRADIENT_PRODUCT_SM90_MULTIPLY_CUH

#include "arch/barrier.cuh"
#include "arch/copies.cuh"
#include "arch/registers.cuh"
#include "arch/wgmma_sm90.cuh"
#include "gradient/product_sm90/plan.cuh"

namespace gd {
namespace gradient_product {

constexpr int kWarpgroup = 128, kConsumers = kRows / 64 * kWarpgroup,
              kThreads = kConsumers + kWarpgroup;
constexpr int kBuffers = 2, kImages = 3;
constexpr int kPlaces = kRows * kSlab, kWord = 4; /* of the pairs of a slab; numbers of a word */
constexpr int kSteps = kSlab / 16;                /* of a product of 16 rows of b */
/* Registers of a thread: three groups of 128 share 65536. */
constexpr int kProducerRegisters = 120, kConsumerRegisters = 192;

struct Shared {
    float asked[kBuffers][kPlaces], away[kBuffers][kPlaces];
    Image images[kImages];
    uint64_t pairs_full[kBuffers], pairs_empty[kBuffers], image_full[kImages], image_empty[kImages];
};
static_assert(sizeof(Shared) <= 227 * 1024, "shared memory of a block");

/* The item of a block: rows of a from `top` on, and slabs [first, last). */
struct Item {
    ptrdiff_t number, part, block, tile, top, first, last;

    __device__ __forceinline__ Item(const Plan &plan, ptrdiff_t item)
    {
        tile = item % plan.tiles, item /= plan.tiles;
        block = item % plan.blocks, item /= plan.blocks;
        part = item % plan.parts, number = item / plan.parts;
        top = tile * kRows;
        first = part * plan.part_slabs;
        last = min(first + plan.part_slabs, plan.slabs);
    }
};

/* A place in shared memory of the word with numbers `word` of line `line`: words of two lines, or
 * of four groups of four, that are read together lie in different banks. */
__device__ __forceinline__ int place_along_rows(int row, int word)
{
    return row * kSlab + (word ^ (row & 1) << 2) * kWord;
}
__device__ __forceinline__ int place_along_columns(int col, int word)
{
    return col * kRows + (word ^ (col >> 2 & 3) << 1) * kWord;
}

/* Copies up to four neighbours, `apart` elements apart, and zeros in place of those that are not
 * there. */
__device__ __forceinline__ void bring_word(float *to, const float *from, ptrdiff_t apart,
                                           bool words, ptrdiff_t left)
{
    const int there = (int)min(max(left, (ptrdiff_t)0), (ptrdiff_t)kWord);
    if (words) {
        copy_part_of_word(shared_address(to), from, there * (int)sizeof(float));
    }
    else {
#pragma unroll
        for (int i = 0; i < kWord; ++i) {
            copy_async<sizeof(float)>(to + i, from + i * apart, i < there);
        }
    }
}

/* Starts to copy a tile that is all there, by words: each copy is three instructions, as a producer
 * that takes more of them is what all others wait for. */
__device__ __forceinline__ void bring_whole(float *to, const float *from,
                                            const PairsOfOne<float> &pairs, bool along_rows)
{
    const int thread = threadIdx.x % kWarpgroup;
    if (along_rows) {
        constexpr int kWords = kSlab / kWord, kLines = kWarpgroup / kWords;
        const int word = thread % kWords, line = thread / kWords;
        const unsigned address = shared_address(to + place_along_rows(line, word));
        const ptrdiff_t step = kLines * pairs.down;
        from += line * pairs.down + word * kWord;
#pragma unroll
        for (int row = 0; row < kRows; row += kLines, from += step) {
            copy_word(address + row * kSlab * (unsigned)sizeof(float), from);
        }
    }
    else {
        constexpr int kWords = kRows / kWord, kLines = kWarpgroup / kWords;
        static_assert(kLines == 4, "words change places from one line to the next");
        const int word = thread % kWords, line = thread / kWords;
        const ptrdiff_t step = kLines * pairs.along;
        from += line * pairs.along + word * kWord;
#pragma unroll
        for (int col = 0; col < kSlab; col += kLines, from += step) {
            copy_word(shared_address(to + place_along_columns(col, word)) +
                          line * kRows * (unsigned)sizeof(float),
                      from);
        }
    }
}

/* Starts to copy numbers of a tile of pairs, of which so many rows and columns are there. */
__device__ __forceinline__ void bring(float *to, const float *from, const PairsOfOne<float> &pairs,
                                      const Lie &lie, ptrdiff_t rows, ptrdiff_t cols)
{
    const int thread = threadIdx.x % kWarpgroup;
    if (lie.same) {
        return;
    }
    if (lie.words && rows >= kRows && cols >= kSlab) {
        bring_whole(to, from, pairs, lie.along_rows);
        return;
    }
    if (lie.along_rows) {
        constexpr int kWords = kSlab / kWord, kLines = kWarpgroup / kWords;
        const int word = thread % kWords, line = thread / kWords;
        from += line * pairs.down + word * kWord * pairs.along;
        const ptrdiff_t left = cols - word * kWord;
#pragma unroll 4
        for (int row = line; row < kRows; row += kLines, from += kLines * pairs.down) {
            bring_word(to + place_along_rows(row, word), from, pairs.along, lie.words,
                       row < rows ? left : 0);
        }
    }
    else {
        constexpr int kWords = kRows / kWord, kLines = kWarpgroup / kWords;
        const int word = thread % kWords, line = thread / kWords;
        from += line * pairs.along + word * kWord * pairs.down;
        const ptrdiff_t left = rows - word * kWord;
#pragma unroll 4
        for (int col = line; col < kSlab; col += kLines, from += kLines * pairs.along) {
            bring_word(to + place_along_columns(col, word), from, pairs.down, lie.words,
                       col < cols ? left : 0);
        }
    }
}

/* Where a group or a producer is in a ring of buffers. */
template <int kCount>
struct Turn {
    unsigned slot = 0, parity = 0;

    __device__ __forceinline__ void advance()
    {
        if (++slot == kCount) {
            slot = 0, parity ^= 1;
        }
    }
};

__device__ __forceinline__ void produce(const Gradient<float> &call, const Plan &plan,
                                        Shared &shared)
{
    Turn<kBuffers> turn;
    Turn<kImages> image;
    for (ptrdiff_t at = blockIdx.x; at < plan.items; at += gridDim.x) {
        const Item item(plan, at);
        if (plan.direct[item.number] != 0) {
            continue;
        }
        const PairsOfOne<float> asked(call.asked, call.batch, item.number, false, call.b.count);
        const PairsOfOne<float> away(call.away, call.batch, item.number, false, call.b.count);
        const ptrdiff_t rows = call.a.count - item.top;
        for (ptrdiff_t slab = item.first; slab < item.last;
             ++slab, turn.advance(), image.advance()) {
            const ptrdiff_t j = slab * kSlab, cols = call.b.count - j;
            barrier_wait(&shared.pairs_empty[turn.slot], turn.parity ^ 1);
            bring(shared.asked[turn.slot], asked.at(item.top, j), asked, plan.asked, rows, cols);
            bring(shared.away[turn.slot], away.at(item.top, j), away, plan.away, rows, cols);
            barrier_arrive_after_copies(&shared.pairs_full[turn.slot]);
            if (threadIdx.x == kConsumers) {
                uint64_t *const full = &shared.image_full[image.slot];
                barrier_wait(&shared.image_empty[image.slot], image.parity ^ 1);
                barrier_expect(full, sizeof(Image));
                bulk_copy(&shared.images[image.slot], &plan.image(item.number, item.block, slab),
                          sizeof(Image), full);
            }
        }
    }
}

/* Numbers of a thread's pairs in shared memory, of two rows that are eight apart. */
struct Source {
    const float *from;
    Lie lie;
    int row;
    const float *all; /* where they are the same */

    /* Takes the four neighbours that belong to a step. */
    __device__ __forceinline__ void take(int step, float (&to)[2][kWord]) const
    {
        const int t = threadIdx.x % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own = row + 8 * half;
            if (lie.same) {
                to[half][0] = to[half][1] = to[half][2] = to[half][3] = __ldg(all);
            }
            else if (lie.along_rows) {
                /* place_along_rows(own, step * 4 + t), by two addresses for all steps */
                const int apart = (row & 1) * kWord * 4;
                load_word(from + own * kSlab + t * kWord + (step % 2 == 0 ? apart : -apart) +
                              step * kWord * 4,
                          to[half]);
            }
            else {
                const float *const first = from + place_along_columns(t * 4, own / kWord);
#pragma unroll
                for (int i = 0; i < kWord; ++i) {
                    to[half][i] = first[own % kWord + (step * 16 + i) * kRows];
                }
            }
        }
    }
};

/* The factors of a slab as the tensor cores take them, halves and what they leave over, and what
 * the sums of each row are to be multiplied by. */
struct Factors {
    unsigned high[kSteps][4], low[kSteps][4];
    float up[2];
};

/* Makes the factors of a thread's pairs, and adds to the sums of each row's; whether there are
 * pairs that the product may not have. */
template <gd_metric kMetric>
__device__ __forceinline__ bool make_factors(Factors &factors, float (&sums)[2],
                                             const Source &asked, const Source &away,
                                             const Image &image, const float (&norms)[2])
{
    const int t = threadIdx.x % 4;
    float own[2] = {}, largest[2] = {}, x[kSteps][2][kWord];
    unsigned left_out = 0; /* bits of what is asked of pairs that are */
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        float g[2][kWord], d[2][kWord], norm[kWord], scale[kWord];
        asked.take(step, g);
        away.take(step, d);
        load_word(image.norm + step * 16 + t * 4, norm);
        load_word(image.scale + step * 16 + t * 4, scale);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < kWord; ++i) {
                float factor;
                const bool safe =
                    is_safe<kMetric>(g[half][i], d[half][i], norms[half] + norm[i], factor);
                left_out |= safe ? 0 : __float_as_uint(g[half][i]);
                factor = safe ? factor : 0.0f;
                own[half] += factor;
                x[step][half][i] = factor * scale[i];
                largest[half] = fmaxf(largest[half], fabsf(x[step][half][i]));
            }
        }
    }
    float down[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sums[half] += own[half];
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(~0u, largest[half], 1));
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(~0u, largest[half], 2));
        const Scaling scaling = Scaling::of(largest[half]);
        down[half] = scaling.down();
        factors.up[half] = scaling.up();
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < kWord; i += 2) {
                split(x[step][half][i] * down[half], x[step][half][i + 1] * down[half],
                      factors.high[step][i + half], factors.low[step][i + half]);
            }
        }
    }
    return left_out << 1 != 0;
}

/* Starts the products of a slab, small ones first. They replace what the accumulator held. */
__device__ __forceinline__ void multiply_slab(float (&acc)[kDims / 2], const Factors &factors,
                                              const Image &image)
{
    const uint64_t high = describe(shared_address(image.high), kDims);
    const uint64_t low = describe(shared_address(image.low), kDims);
    pin(acc);
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        if (step == 0) {
            multiply<false>(acc, factors.low[step], high);
        }
        else {
            multiply<true>(acc, factors.low[step], high + step * 2 * kDims);
        }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        multiply<true>(acc, factors.high[step], low + step * 2 * kDims);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        multiply<true>(acc, factors.high[step], high + step * 2 * kDims);
    }
    commit_products();
}

/* Stores a thread's sums of an item, W a less W b: columns 8 i + 2 t and the next of two rows. */
__device__ __forceinline__ void store_item(const Gradient<float> &call, const Plan &plan,
                                           const Item &item, const float (&total)[kDims / 2],
                                           float (&sums)[2], const float (&norms)[2], int row)
{
    const float *const a = call.a.data + call.batch.offset(call.a.apart, item.number);
    const float *const centre = plan.centre + item.number * plan.columns();
    float *const to = plan.sums + (item.number * plan.parts + item.part) * call.a.count * call.d;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sums[half] += __shfl_xor_sync(~0u, sums[half], 1);
        sums[half] += __shfl_xor_sync(~0u, sums[half], 2);
        const ptrdiff_t at = item.top + row + 8 * half;
        const bool usual = norms[half] < __int_as_float(0x7f800000);
#pragma unroll
        for (int i = 0; i < kDims / 8; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const ptrdiff_t k = item.block * kDims + i * 8 + threadIdx.x % 4 * 2 + j;
                if (at < call.a.count && k < call.d) {
                    const float moved = __ldg(a + at * call.a.stride + k) - __ldg(centre + k);
                    to[at * call.d + k] =
                        usual ? __fmaf_rn(moved, sums[half], -total[i * 4 + half * 2 + j]) : 0.0f;
                }
            }
        }
    }
}

template <gd_metric kMetric>
__device__ __forceinline__ void consume(const Gradient<float> &call, const Plan &plan,
                                        Shared &shared)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp * kUnit + lane / 4;
    Turn<kBuffers> turn;
    Turn<kImages> image;
    for (ptrdiff_t at = blockIdx.x; at < plan.items; at += gridDim.x) {
        const Item item(plan, at);
        if (plan.direct[item.number] != 0) {
            continue;
        }
        const float *const norm = plan.norms + item.number * plan.rows() + item.top + row;
        const float norms[2] = {__ldg(norm), __ldg(norm + 8)};
        const bool endless = !(norms[0] + norms[1] <= FLT_MAX);
        uint8_t *const near = plan.near_of(item.number, item.top / kUnit + warp);
        const float *const same_asked =
            call.asked.data + call.batch.offset(call.asked.apart, item.number);
        const float *const same_away =
            call.away.data + call.batch.offset(call.away.apart, item.number);
        float total[kDims / 2] = {}, acc[kDims / 2], sums[2] = {};
#pragma unroll 1
        for (ptrdiff_t slab = item.first; slab < item.last;
             ++slab, turn.advance(), image.advance()) {
            const Image &points = shared.images[image.slot];
            Factors factors;
            barrier_wait(&shared.pairs_full[turn.slot], turn.parity);
            barrier_wait(&shared.image_full[image.slot], image.parity);
            const bool own = make_factors<kMetric>(
                factors, sums, Source{shared.asked[turn.slot], plan.asked, row, same_asked},
                Source{shared.away[turn.slot], plan.away, row, same_away}, points, norms);
            const bool any = __any_sync(~0u, own | endless);
            if (lane == 0) {
                barrier_arrive(&shared.pairs_empty[turn.slot]);
                near[slab] = any | (points.endless != 0);
            }
            multiply_slab(acc, factors, points);
            await_products();
            pin(acc);
            if (lane == 0) {
                barrier_arrive(&shared.image_empty[image.slot]);
            }
#pragma unroll
            for (int i = 0; i < kDims / 2; ++i) {
                total[i] = __fmaf_rn(acc[i], factors.up[i / 2 % 2], total[i]);
            }
        }
        store_item(call, plan, item, total, sums, norms, row);
    }
}

template <gd_metric kMetric>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_factors(const __grid_constant__ Gradient<float> call,
                     const __grid_constant__ Plan plan)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < kBuffers; ++i) {
            barrier_init(&shared.pairs_full[i], kWarpgroup);
            barrier_init(&shared.pairs_empty[i], kConsumers / 32);
        }
        for (int i = 0; i < kImages; ++i) {
            barrier_init(&shared.image_full[i], 1);
            barrier_init(&shared.image_empty[i], kConsumers / 32);
        }
        show_barriers();
        fence_other_way();
    }
    __syncthreads();
    follow();
    if (threadIdx.x >= kConsumers) {
        give_registers<kProducerRegisters>();
        produce(call, plan, shared);
    }
    else {
        take_registers<kConsumerRegisters>();
        consume<kMetric>(call, plan, shared);
    }
}

}  // namespace gradient_product
}  // namespace gd
#endif
