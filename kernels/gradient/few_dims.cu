/* few_dims.cu: gradients of distances between points with up to 16 dimensions, in float64 up to 8.
 *
 * Idea: reading what is asked of pairs, and distances, is most of the work: 8 bytes a pair of
 * float32. So a block takes a tile of 64 x 64 pairs, divides once a pair, keeps the factors in
 * shared memory, and adds them up both ways, for the rows of a and, if wanted, for those of b.
 *
 * - A thread has a row, with its point in registers, and a quarter of the other side's; 32 rows
 *   touch, so that a warp reads factors from all banks, and the others' points as broadcasts.
 * - A row's terms are added 16 at a time, four such sums in a tree, and these parts of 64 one after
 *   the other with what rounding takes from them. The order goes by the rows that are added up
 *   alone. A block goes through all of b where there are blocks enough without; otherwise parts
 *   meet in the workspace (join.cuh), in the same order. Those of b's rows do so in any case.
 *
 * Floors: (4096, 64, 64, 3) reads 134 MB, in 29 us at 4.7 TB/s; (8, 3900, 176, 4) 44 MB, in 9 us.
 * Float32 of up to four dimensions goes another way, by registers (quads.cuh).
 * Launch: 256 threads a tile. Reached on an H200 for both sides, with some 8 us that timing a
 * launch adds: euclidean (4096, 64, 64, 3) in float64 121 us; 16384 x 16384 with 8 dimensions 1.32
 * ms, with 16 2.37. With pairs read one by one and places computed anew these were 165 us, and 2.00
 * and 2.88 ms. */
#include "gradient/join.cuh"
#include "gradient/quads.cuh"

namespace {

using gd::kEdge;

constexpr int kThreads = 256, kParts = kThreads / kEdge, kLength = kEdge / kParts;
/* What the table says: a tile of more would not fit the shared memory of every device. */
template <typename T>
constexpr int kMostDims = sizeof(T) == sizeof(float) ? 16 : 8;
/* As many blocks as give a device enough to do, whichever it is. */
constexpr ptrdiff_t kEnough = 400;

template <typename Term, int D, typename T>
struct Memory {
    T factors[kEdge][kEdge + 1];
    T away[Term::needs_away ? kEdge : 1][kEdge + 1];
    alignas(16) T a[kEdge][D];
    alignas(16) T b[kEdge][D];
    alignas(16) T parts[kParts][kEdge][D];
};

template <int D, typename T>
__device__ __forceinline__ void take_points(T (*to)[D], const T *from, const gd::Rows<T> &rows,
                                            ptrdiff_t first, ptrdiff_t d)
{
    for (int i = threadIdx.x; i < kEdge * D; i += kThreads) {
        const int row = i / D, k = i % D;
        to[row][k] = first + row < rows.count && k < d
                         ? __ldg(from + (first + row) * rows.stride + k)
                         : T(0);
    }
}

/* Brings a tile's factors to shared memory; whether some of its pairs are to be added alone. */
template <typename Term, int D, typename T>
__device__ __forceinline__ bool take_pairs(Memory<Term, D, T> &memory,
                                           const gd::PairsOfOne<T> &asked,
                                           const gd::PairsOfOne<T> &away, ptrdiff_t top,
                                           ptrdiff_t left, ptrdiff_t m, ptrdiff_t n)
{
    constexpr int kFours = kEdge / 4, kStep = kThreads / kFours; /* in a row; rows at a time */
    const bool along = Term::has_away ? away.lies_along(top, left) : asked.lies_along(top, left);
    const int four = threadIdx.x % kFours * 4, first = threadIdx.x / kFours;
    bool apart = false;
    const auto put = [&](int other, const T(&g)[4], const T(&x)[4]) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int i = along ? other : four + k, j = along ? four + k : other;
            memory.factors[i][j] = Term::factor(g[k], x[k], &apart);
            if constexpr (Term::needs_away) {
                memory.away[i][j] = x[k];
            }
        }
    };
    if (!asked.condensed && (along ? n : m) % 4 == 0) { /* fours are there or not */
        const bool here = along ? left + four < n : top + four < m;
        const int others = (int)min(along ? m - top : n - left, (ptrdiff_t)kEdge);
        const ptrdiff_t row = along ? top + first : top + four;
        const ptrdiff_t col = along ? left + four : left + first;
        const ptrdiff_t step_g = along ? asked.along : asked.down,
                        step_x = along ? away.along : away.down;
        const ptrdiff_t down_g = along ? asked.down : asked.along,
                        down_x = along ? away.down : away.along;
        const T *from_g = asked.data + row * asked.down + col * asked.along;
        const T *from_x = away.data + row * away.down + col * away.along;
        const bool words_g = gd::are_words(asked.data, step_g, down_g);
        const bool words_x = Term::has_away && gd::are_words(away.data, step_x, down_x);
#pragma unroll
        for (int half = 0; half < kEdge / kStep; half += 2) {
            T g[2][4], x[2][4] = {};
#pragma unroll
            for (int q = 0; q < 2; ++q) {
                const bool there = here && first + (half + q) * kStep < others;
                gd::load_four(g[q], from_g, step_g, words_g, there);
                from_g += kStep * down_g;
                if constexpr (Term::has_away) {
                    gd::load_four(x[q], from_x, step_x, words_x, there);
                    from_x += kStep * down_x;
                }
            }
#pragma unroll
            for (int q = 0; q < 2; ++q) {
                put(first + (half + q) * kStep, g[q], x[q]);
            }
        }
        return apart;
    }
#pragma unroll 1
    for (int other = first; other < kEdge; other += kStep) {
        T g[4], x[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const ptrdiff_t i = top + (along ? other : four + k);
            const ptrdiff_t j = left + (along ? four + k : other);
            const bool there = i < m && j < n && asked.has(i, j);
            g[k] = there ? __ldg(asked.at(i, j)) : T(0);
            x[k] = Term::has_away && there ? __ldg(away.at(i, j)) : T(0);
        }
        put(other, g, x);
    }
    return apart;
}

/* Adds a quarter of a tile's terms for one of its rows, or with kTurned for one of b's. */
template <typename Term, bool kTurned, int D, typename T>
__device__ __forceinline__ void add_quarter(Memory<Term, D, T> &memory, T p)
{
    const int own = threadIdx.x % kEdge, part = threadIdx.x / kEdge;
    const T(*const points)[D] = kTurned ? memory.b : memory.a;
    const T(*const others)[D] = kTurned ? memory.a : memory.b;
    T point[D], sum[D];
#pragma unroll
    for (int k = 0; k < D; ++k) {
        point[k] = points[own][k];
        sum[k] = 0;
    }
#pragma unroll(Term::is_long ? 1 : 4)
    for (int step = 0; step < kLength; ++step) {
        const int at = part * kLength + step, i = kTurned ? at : own, j = kTurned ? own : at;
        const T factor = memory.factors[i][j];
        const T away = Term::needs_away ? memory.away[i][j] : T(0);
#pragma unroll
        for (int k = 0; k < D; ++k) {
            sum[k] = Term::add(sum[k], factor, away, point[k], others[at][k], p);
        }
    }
#pragma unroll
    for (int k = 0; k < D; ++k) {
        memory.parts[part][own][k] = sum[k];
    }
}

/* A tile's terms of one row and dimension, which four threads have added up. */
template <typename Term, int D, typename T>
__device__ __forceinline__ T sum_of_tile(const Memory<Term, D, T> &memory, int row, int k)
{
    return (memory.parts[0][row][k] + memory.parts[1][row][k]) +
           (memory.parts[2][row][k] + memory.parts[3][row][k]);
}

/* parts: where those of a's rows go if several blocks share them, as join_parts wants them, and of
 * b's rows, unless a has no more than one tile of them: these go to out_b then. */
template <typename Term, int D, typename T>
__global__ void __launch_bounds__(kThreads, D <= 4 && sizeof(T) == sizeof(float) ? 4
                                            : D <= 8                             ? 3
                                                                                 : 2)
    few_dims(const __grid_constant__ gd::Gradient<T> call,
             const __grid_constant__ gd::Sums<T> out_b, bool both, unsigned down, unsigned chunks,
             unsigned tiles_each, T *parts, T *parts_b)
{
    extern __shared__ float4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<Term, D, T> *>(dynamic);
    constexpr int kOwn = (kEdge * D + kThreads - 1) / kThreads; /* sums of a thread */
    const unsigned chunk = blockIdx.x / down % chunks;
    const ptrdiff_t number = blockIdx.x / down / chunks;
    const ptrdiff_t top = (ptrdiff_t)(blockIdx.x % down) * kEdge, d = call.d;
    const ptrdiff_t m = call.a.count, n = call.b.count, tiles = gd::ceil_div(n, kEdge);
    const gd::PairsOfOne<T> asked(call.asked, call.batch, number, call.pairs, n);
    const gd::PairsOfOne<T> away(call.away, call.batch, number, call.pairs, n);
    const T *const a = call.a.data + call.batch.offset(call.a.apart, number);
    const T *const b = call.b.data + call.batch.offset(call.b.apart, number);

    T sum[kOwn] = {}, lost[kOwn] = {};
    take_points<D>(memory.a, a, call.a, top, d);
    const ptrdiff_t last = min((ptrdiff_t)(chunk + 1) * tiles_each, tiles);
#pragma unroll 1
    for (ptrdiff_t tile = (ptrdiff_t)chunk * tiles_each; tile < last; ++tile) {
        const ptrdiff_t left = tile * kEdge;
        take_points<D>(memory.b, b, call.b, left, d);
        const bool apart =
            __syncthreads_or(take_pairs<Term, D, T>(memory, asked, away, top, left, m, n));
        add_quarter<Term, false, D, T>(memory, call.p);
        __syncthreads();
#pragma unroll
        for (int q = 0; q < kOwn; ++q) {
            const int own = threadIdx.x + q * kThreads, row = own / D, k = own % D;
            if (own < kEdge * D && k < d && top + row < m) {
                T x = sum_of_tile<Term, D, T>(memory, row, k);
                if (apart) {
                    x += gd::sum_alone<Term, false>(asked, away, top + row, &memory.a[row][k], left,
                                                    n, b + k, call.b.stride);
                }
                if (parts != nullptr) {
                    parts[((number * tiles + tile) * m + top + row) * d + k] = x;
                }
                else {
                    gd::add_exactly(sum[q], lost[q], x);
                }
            }
        }
        __syncthreads(); /* nobody reads the parts any more */
        if (both) {
            add_quarter<Term, true, D, T>(memory, call.p);
            __syncthreads();
#pragma unroll
            for (int q = 0; q < kOwn; ++q) {
                const int own = threadIdx.x + q * kThreads, row = own / D, k = own % D;
                if (own < kEdge * D && k < d && left + row < n) {
                    T x = sum_of_tile<Term, D, T>(memory, row, k);
                    if (apart) {
                        x += gd::sum_alone<Term, true>(asked, away, left + row, &memory.b[row][k],
                                                       top, m, a + k, call.a.stride);
                    }
                    if (parts_b != nullptr) {
                        parts_b[((number * down + top / kEdge) * n + left + row) * d + k] = x;
                    }
                    else {
                        out_b.data[call.batch.offset(out_b.apart, number) +
                                   (left + row) * out_b.stride + k] = x;
                    }
                }
            }
            __syncthreads();
        }
    }
    if (parts == nullptr) {
        T *const out = call.out.data + call.batch.offset(call.out.apart, number);
#pragma unroll
        for (int q = 0; q < kOwn; ++q) {
            const int own = threadIdx.x + q * kThreads, row = own / D, k = own % D;
            if (own < kEdge * D && k < d && top + row < m) {
                out[(top + row) * call.out.stride + k] = gd::both_parts(sum[q], lost[q]);
            }
        }
    }
}

/* How the work is shared out. turned: what the kernel calls a is the call's b. */
struct Plan {
    bool turned, wants_a, wants_b;
    ptrdiff_t down, tiles, chunks, tiles_each;
    size_t parts, parts_b; /* elements */

    Plan(const gd_gradient &call, bool turned_)
        : turned(turned_),
          wants_a(!turned || call.out_b.first.data != nullptr),
          wants_b(turned || call.out_b.first.data != nullptr),
          chunks(1),
          parts(0),
          parts_b(0)
    {
        const ptrdiff_t d = call.a.first.cols;
        const ptrdiff_t m = (turned ? call.b : call.a).first.rows;
        const ptrdiff_t n = (turned ? call.a : call.b).first.rows;
        down = gd::ceil_div(m, kEdge);
        tiles = tiles_each = gd::ceil_div(n, kEdge);
        if (down * call.count < kEnough && tiles > 1) {
            const ptrdiff_t wanted = gd::ceil_div(kEnough, down * call.count);
            tiles_each = gd::ceil_div(tiles, wanted);
            chunks = gd::ceil_div(tiles, tiles_each);
        }
        if (wants_a && chunks > 1) {
            parts = (size_t)(call.count * tiles * m * d);
        }
        if (wants_b && down > 1) {
            parts_b = (size_t)(call.count * down * n * d);
        }
    }
};

/* Whether points have so few dimensions that a thread adds up pairs in registers. */
template <typename T>
bool by_quads(const gd_gradient &call)
{
    return sizeof(T) == sizeof(float) && call.a.first.cols <= gd::quads::kMostDims;
}

/* Quads are read along a's rows, so that is the side that memory lies along. */
bool turns(const gd_gradient &call)
{
    const bool has_away = call.metric != GD_SQEUCLIDEAN && call.metric != GD_INNER_PRODUCT;
    const gd_matrix &pairs = (has_away ? call.distances : call.asked).first;
    return !call.pairs && llabs(pairs.col_stride) > llabs(pairs.row_stride);
}

template <typename Term, int D, typename T>
cudaError_t launch(const gd_gradient &call, const Plan &plan)
{
    gd_gradient sides = call;
    if (call.out_b.first.data == nullptr) {
        sides.out_b = call.out;
    }
    gd::Gradient<T> one = gd::gradient_of<T>(sides, plan.turned);
    gd::Sums<T> out_b = gd::gradient_of<T>(sides, !plan.turned).out;
    one.out.data = plan.wants_a ? one.out.data : nullptr;
    out_b.data = plan.wants_b ? out_b.data : nullptr;
    T *const parts = plan.parts > 0 ? (T *)call.launch.workspace : nullptr;
    T *const parts_b = plan.parts_b > 0 ? (T *)call.launch.workspace + plan.parts : nullptr;
    const ptrdiff_t blocks = plan.down * plan.chunks * call.count;
    const unsigned down = (unsigned)plan.down, chunks = (unsigned)plan.chunks;
    const unsigned tiles_each = (unsigned)plan.tiles_each;
    cudaError_t code;
    if constexpr (D <= gd::quads::kMostDims && sizeof(T) == sizeof(float)) {
        auto *kernel = gd::quads::add_up<Term, D, false>;
        void (*small)(gd::Gradient<float>, gd::Sums<float>, unsigned) = nullptr;
        if constexpr (Term::metric != GD_MINKOWSKI) { /* beside powers nothing is spared */
            const bool regular = gd::quads::is_regular(one, Term::has_away);
            kernel = regular && one.d == D ? gd::quads::add_up<Term, D, true> : kernel;
            small = regular && one.d == D ? gd::quads::add_up_small<Term, D> : nullptr;
            if constexpr (D == 3) { /* others of two dimensions are taken for some of three */
                kernel = regular && one.d == 2 ? gd::quads::add_up<Term, 2, true> : kernel;
                small = regular && one.d == 2 ? gd::quads::add_up_small<Term, 2> : small;
            }
        }
        const ptrdiff_t at_once = gd::quads::blocks_at_once<D>(call.launch);
        if (small != nullptr && plan.down == 1 && plan.tiles == 1 && at_once > 0 &&
            call.count > at_once) {
            code = gd::enqueue(call.launch, small, at_once, dim3(gd::quads::kThreads), 0, one,
                               out_b, (unsigned)call.count);
        }
        else {
            code = gd::enqueue(call.launch, kernel, blocks, dim3(gd::quads::kThreads), 0, one,
                               out_b, down, chunks, tiles_each, parts, parts_b);
        }
    }
    else {
        code = gd::enqueue(call.launch, few_dims<Term, D, T>, blocks, dim3(kThreads),
                           sizeof(Memory<Term, D, T>), one, out_b, plan.wants_b, down, chunks,
                           tiles_each, parts, parts_b);
    }
    if (code == cudaSuccess && parts != nullptr) {
        code = gd::join(call.launch, parts, plan.tiles, call.count, one.a.count, one.d, one.out,
                        one.batch);
    }
    if (code == cudaSuccess && parts_b != nullptr) {
        code = gd::join(call.launch, parts_b, plan.down, call.count, one.b.count, one.d, out_b,
                        one.batch);
    }
    return code;
}

template <typename T>
gd_status run(gd_gradient *call, const char *id, gd_error *err)
{
    const Plan plan(*call, by_quads<T>(*call) && turns(*call));
    call->launch.workspace_bytes = (plan.parts + plan.parts_b) * sizeof(T);
    if (call->launch.sizing) {
        return GD_OK;
    }
    return gd::with_term(call->metric, [&](auto term) {
        using Term = decltype(term);
        /* Powers take so long that what is filled up with zeros does not count; and longer to
         * compile. */
        constexpr int kEight = Term::metric == GD_MINKOWSKI && kMostDims<T> > 8 ? kMostDims<T> : 8;
        constexpr int kThree = sizeof(T) == sizeof(float) ? 3 : 4;
        const ptrdiff_t d = call->a.first.cols;
        const cudaError_t code = d <= kThree ? launch<Term, kThree, T>(*call, plan)
                                 : d <= 4    ? launch<Term, 4, T>(*call, plan)
                                 : d <= 8    ? launch<Term, kEight, T>(*call, plan)
                                             : launch<Term, kMostDims<T>, T>(*call, plan);
        GD_CUDA_TRY(err, id, code);
        return GD_OK;
    });
}

}  // namespace

extern "C" gd_status gd_cuda_gradient_few_dims(gd_gradient *call, gd_error *err)
{
    return run<float>(call, "gradient/cuda_few_dims", err);
}

extern "C" gd_status gd_cuda_gradient_few_dims_f64(gd_gradient *call, gd_error *err)
{
    return run<double>(call, "gradient/cuda_few_dims_f64", err);
}
