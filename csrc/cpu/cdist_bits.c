/* cdist_bits.c: metrics of truths, on rows packed to bits (GD_BITS).
 *
 * tt, the number of columns where both rows are true, is the count of bits in a & b; the rows' own
 * counts and the number of columns give the other three. Columns' rows are packed word by word, so
 * that a vector holds one 64-bit word of LANES of them, and no sum runs across a vector.
 *
 * Bits are counted by carry-save adders (Harley and Seal): eight words are added, bit by bit, onto
 * counters whose bits lie in the registers ones, twos and fours; what overflows them, one word in
 * eight, has its bits counted byte by byte from a table of four-bit values, looked up in a
 * register. With a ternary logic instruction that is 8 + 14 + 8 operations for eight words, less
 * than four a word where counting each would cost nine; the processors' own count instruction,
 * which not all of them have, would need three.
 *
 * The floor is the larger of writing the result and four operations for LANES words. On one Zen 5
 * core (512-bit pipes, 3.8 GHz) 2000 x 2000 jaccard distances of 64, 1024 and 16384 columns take
 * 3.7, 4.8 and 58 ms, the last 2.2 operations a cycle; with 256-bit vectors 8.3, 12 and 190 ms,
 * without a table 21, 31 and 420 ms. */
#include "kernels.h"
#include "metric_terms.h"
#include "simd.h"
#include "sizes.h"
#include "store_run.h"
#include "team.h"

enum {
    LANES = GD_VEC_BYTES / sizeof(uint64_t),
    EIGHT = 8,  /* words that one step of the adders takes */
    SLAB = 128, /* words at a time: 16 steps of at most 8 a byte never overflow its counter */
    RUN = 256,  /* columns at a time: a slab of them stays in L2 */
    ROWS = 16,  /* rows in a task */
};
/* Rows in registers, for five vectors each. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { MR = 4 };
#else
enum { MR = 2 };
#endif

typedef uint8_t bytes __attribute__((vector_size(GD_VEC_BYTES)));
typedef uint64_t words __attribute__((vector_size(GD_VEC_BYTES)));

GD_INLINE words load(const uint64_t *p)
{
    words x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* ---------------------------------------------------------------- counting bits */

/* The number of bits set in each byte, and the sum of the bytes of each word. */
#if defined(__AVX512BW__)
GD_INLINE bytes bits_of_bytes(words x)
{
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m512i low = _mm512_set1_epi8(15), v = (__m512i)x;
    return (bytes)_mm512_shuffle_epi8(table, _mm512_and_si512(v, low)) +
           (bytes)_mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(v, 4), low));
}
GD_INLINE words sum_of_bytes(bytes x)
{
    return (words)_mm512_sad_epu8((__m512i)x, _mm512_setzero_si512());
}
#elif defined(__AVX2__)
GD_INLINE bytes bits_of_bytes(words x)
{
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m256i low = _mm256_set1_epi8(15), v = (__m256i)x;
    return (bytes)_mm256_shuffle_epi8(table, _mm256_and_si256(v, low)) +
           (bytes)_mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
}
GD_INLINE words sum_of_bytes(bytes x)
{
    return (words)_mm256_sad_epu8((__m256i)x, _mm256_setzero_si256());
}
#else
/* Without a table: sums of neighbouring bits, pairs and fours, in place. */
GD_INLINE bytes bits_of_bytes(words x)
{
    const uint64_t each = ~UINT64_C(0);
    x = x - (x >> 1 & each / 3);
    x = (x & each / 5) + (x >> 2 & each / 5);
    return (bytes)((x + (x >> 4)) & each / 17);
}
GD_INLINE words sum_of_bytes(bytes x)
{
#if defined(__x86_64__)
    return (words)_mm_sad_epu8((__m128i)x, _mm_setzero_si128());
#else
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    words pairs = ((words)x & even) + ((words)x >> 8 & even);
    pairs += pairs >> 32;
    return (pairs + (pairs >> 16)) & 0xffff;
#endif
}
#endif

/* Adds x and y onto *sum in every bit; returns the carries. */
GD_INLINE words add_bits(words *sum, words x, words y)
{
#if defined(__AVX512F__)
    const __m512i s = (__m512i)*sum;
    *sum = (words)_mm512_ternarylogic_epi64(s, (__m512i)x, (__m512i)y, 0x96);
    return (words)_mm512_ternarylogic_epi64(s, (__m512i)x, (__m512i)y, 0xe8);
#else
    const words differ = *sum ^ x, carry = (*sum & x) | (differ & y);
    *sum = differ ^ y;
    return carry;
#endif
}

/* Adds to `counts` the bits that MR rows (SLAB words apart) share with LANES columns, in `depth`
 * words, a multiple of EIGHT and at most SLAB. */
static void count(const uint64_t *a, const uint64_t *b, ptrdiff_t depth, uint64_t *counts)
{
    words ones[MR] = {0}, twos[MR] = {0}, fours[MR] = {0};
    bytes eights[MR] = {0};
    for (ptrdiff_t k = 0; k < depth; k += EIGHT) GD_UNROLL
        for (int r = 0; r < MR; ++r) {
#define BOTH(e) (load(b + (k + (e)) * LANES) & a[r * SLAB + k + (e)])
            const words two0 = add_bits(&ones[r], BOTH(0), BOTH(1));
            const words two1 = add_bits(&ones[r], BOTH(2), BOTH(3));
            const words four0 = add_bits(&twos[r], two0, two1);
            const words two2 = add_bits(&ones[r], BOTH(4), BOTH(5));
            const words two3 = add_bits(&ones[r], BOTH(6), BOTH(7));
            const words four1 = add_bits(&twos[r], two2, two3);
            eights[r] += bits_of_bytes(add_bits(&fours[r], four0, four1));
#undef BOTH
        }
    GD_UNROLL for (int r = 0; r < MR; ++r) {
        /* At most 7 * 8 a byte are left in the adders. */
        const bytes two = bits_of_bytes(twos[r]), four = bits_of_bytes(fours[r]);
        const words left = sum_of_bytes(bits_of_bytes(ones[r]) + (two + two) + 4 * four);
        uint64_t *const to = counts + r * RUN;
        const words total = load(to) + left + 8 * sum_of_bytes(eights[r]);
        memcpy(to, &total, sizeof total);
    }
}

/* ---------------------------------------------------------------- from counts to results */

GD_DEFINE_FINISH_TRUTHS(GD_INLINE, finish, double)

/* One row's results: `a` is its count of bits, b those of the columns. The metric is a constant
 * where it matters, so that the loop is one of vectors. */
GD_INLINE void finish_row(const gd_metric metric, const uint64_t *counts, double a, const double *b,
                          double columns, ptrdiff_t count, double *out)
{
    for (ptrdiff_t c = 0; c < count; ++c) {
        /* A count below 2**52, put under the exponent of 2**52, is that much more than it. */
        const uint64_t encoded = counts[c] | UINT64_C(0x4330000000000000);
        double tt;
        memcpy(&tt, &encoded, sizeof tt);
        tt -= 0x1p52;
        const double tf = a - tt, ft = b[c] - tt;
        out[c] = finish(metric, tt, tf, ft, columns - tt - tf - ft);
    }
}

typedef void finish_fn(const uint64_t *counts, double a, const double *b, double columns,
                       ptrdiff_t count, double *out);
#define FOR_METRICS(X) \
    X(GD_DICE)         \
    X(GD_JACCARD)      \
    X(GD_KULCZYNSKI1)  \
    X(GD_ROGERSTANIMOTO) X(GD_RUSSELLRAO) X(GD_SOKALSNEATH) X(GD_YULE) X(GD_HAMMING)
#define DEFINE(metric)                                                                             \
    static void finish_##metric(const uint64_t *counts, double a, const double *b, double columns, \
                                ptrdiff_t count, double *out)                                      \
    {                                                                                              \
        finish_row(metric, counts, a, b, columns, count, out);                                     \
    }
FOR_METRICS(DEFINE)
#define ENTRY(metric) [metric] = finish_##metric,
static finish_fn *const finishes[GD_METRIC_COUNT] = {FOR_METRICS(ENTRY)};
#undef DEFINE
#undef ENTRY

/* ---------------------------------------------------------------- cutting up */

static ptrdiff_t round_up(ptrdiff_t x, ptrdiff_t to) { return gd_ceil_div(x, to) * to; }

/* Words of 64 bits in a row as packed here: whole steps of the adders, at least one. */
static ptrdiff_t depth_of(const gd_matrix *x)
{
    return x->cols > 0 ? round_up(x->cols / 2, EIGHT) : EIGHT;
}

/* Copies up to `depth` words from word k on of a row, `step` words apart; zeros beyond its end,
 * and instead of a row that does not exist. */
static void pack(const gd_matrix *x, ptrdiff_t row, ptrdiff_t k, ptrdiff_t depth, uint64_t *to,
                 ptrdiff_t step)
{
    const int32_t *const from = (const int32_t *)x->data + row * x->row_stride;
    const ptrdiff_t real = row < x->rows ? gd_least(depth, x->cols / 2 - k) : 0;
    for (ptrdiff_t e = 0; e < real; ++e)
        memcpy(to + e * step, from + 2 * (k + e), sizeof *to);
    for (ptrdiff_t e = real < 0 ? 0 : real; e < depth; ++e)
        to[e * step] = 0;
}

/* Fills out[row : row + ROWS, column : column + RUN], as far as they exist. */
static void block(const gd_cdist *call, ptrdiff_t row, ptrdiff_t column, int stream)
{
    _Alignas(64) uint64_t a[ROWS * SLAB], counts[ROWS * RUN] = {0};
    _Alignas(64) double run[RUN];
    _Alignas(64) float narrow[RUN];
    const gd_matrix *const out = &call->out;
    const ptrdiff_t depth = depth_of(&call->b);
    const ptrdiff_t rows = gd_least(ROWS, out->rows - row),
                    cols = gd_least(RUN, out->cols - column);

    for (ptrdiff_t k = 0; k < depth; k += SLAB) {
        const ptrdiff_t slab = gd_least(SLAB, depth - k);
        for (ptrdiff_t r = 0; r < round_up(rows, MR); ++r)
            pack(&call->a, row + r, k, slab, a + r * SLAB, 1);
        for (ptrdiff_t c = 0; c < cols; c += LANES) {
            const uint64_t *b =
                (const uint64_t *)call->launch.workspace + (column + c) * depth + k * LANES;
            for (ptrdiff_t r = 0; r < rows; r += MR)
                count(a + r * SLAB, b, slab, counts + r * RUN + c);
        }
    }
    for (ptrdiff_t r = 0; r < rows; ++r) {
        const ptrdiff_t at = (row + r) * out->row_stride + column;
        finishes[call->metric](counts + r * RUN, call->a_terms[row + r], call->b_terms + column,
                               call->weight_sum, cols, run);
        if (out->dtype == GD_F32) {
            for (ptrdiff_t c = 0; c < cols; ++c)
                narrow[c] = (float)run[c];
            gd_store_run((float *)out->data + at, narrow, (size_t)cols * sizeof(float), stream);
        }
        else {
            gd_store_run((double *)out->data + at, run, (size_t)cols * sizeof(double), stream);
        }
    }
    if (stream)
        gd_stream_end();
}

/* A call that all members work on. */
typedef struct bits_job {
    const gd_cdist *call;
    uint64_t *packed;
    ptrdiff_t runs; /* in a row */
    int stream;
} bits_job;

static void pack_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const bits_job *const job = context;
    const ptrdiff_t depth = depth_of(&job->call->b);
    (void)member;
    for (ptrdiff_t j = first; j < last; ++j)
        pack(&job->call->b, j, 0, depth, job->packed + j / LANES * LANES * depth + j % LANES,
             LANES);
}

static void do_blocks(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const bits_job *const job = context;
    (void)member;
    for (ptrdiff_t t = first; t < last; ++t)
        block(job->call, t / job->runs * ROWS, t % job->runs * RUN, job->stream);
}

gd_status GD_ISA_NAME(gd_cpu_cdist_bits)(gd_cdist *call, gd_error *err)
{
    (void)err;
    const ptrdiff_t m = call->out.rows, n = call->out.cols, depth = depth_of(&call->b);
    const size_t size = call->out.dtype == GD_F32 ? sizeof(float) : sizeof(double);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)(round_up(n, LANES) * depth) * sizeof(uint64_t);
        return GD_OK;
    }
    bits_job job = {call, call->launch.workspace, (n + RUN - 1) / RUN,
                    gd_worth_streaming(m, n, size)};
    const double pairs = (double)m * (double)n;
    /* Waking threads costs about as much as 2**16 words of pairs on one. */
    const int members = pairs * (double)depth > 0x1p16 ? gd_team_size() : 1;
    gd_team_run(members, round_up(n, LANES), 0, pack_some, &job);
    gd_team_run(members, (m + ROWS - 1) / ROWS * job.runs, 1, do_blocks, &job);
    return GD_OK;
}
