/* ceilings.c: how fast this processor moves memory and does arithmetic, measured by doing nothing
 * else. A kernel is judged by the share of these that it reaches in the same run.
 *
 * Memory: every thread streams through its share of the workspace past the caches. Arithmetic:
 * every thread keeps CHAINS vectors in registers, each one step of an endless recurrence. Two
 * vectors an instruction's latency of 4 to 6 cycles are in flight on the widest processors, so 12
 * chains keep every port busy, and with their constants they fit the 16 registers of AVX2. AVX-512
 * has twice as many, which leaves room for less than perfect orders. The loops over the chains have
 * to be unrolled: else a compiler keeps the vectors in memory, whose latency then is what counts
 * (0.6 multiply-adds a cycle instead of 2). */
#include "cpu/simd.h"
#include "kernels.h"
#include "team.h"

#if defined(__AVX512F__)
enum { CHAINS = 24 };
#else
enum { CHAINS = 12 };
#endif
enum { LANES = GD_VEC_BYTES / sizeof(double), STEPS = 1 << 20 };

/* Shares of whole vectors; what is left at the end of the buffer is not moved, and not counted. */
static ptrdiff_t vectors(const gd_ceiling *call) { return (ptrdiff_t)(call->bytes / GD_VEC_BYTES); }

static gd_status reserve(gd_ceiling *call, size_t bytes, double work)
{
    call->launch.workspace_bytes = bytes;
    call->work = work;
    return GD_OK;
}

/* ---------------------------------------------------------------- memory */

/* Vectors that all members move, each a share of them. */
typedef struct moving {
    char *to;
    const char *from;
    ptrdiff_t count;
    int members;
} moving;

/* Where the share of member `share` begins, of vectors in steps. */
static ptrdiff_t share_begin(const moving *m, ptrdiff_t share, ptrdiff_t step)
{
    return m->count / step * share / m->members * step;
}

static void write_share(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const moving *const m = context;
    char *const to = m->to;
    (void)member;
    for (ptrdiff_t i = share_begin(m, first, 1); i < share_begin(m, last, 1); ++i)
        gd_stream(to + i * GD_VEC_BYTES, gd_splat(1.0f));
}

gd_status GD_ISA_NAME(gd_cpu_ceiling_write)(gd_ceiling *call, gd_error *err)
{
    (void)err;
    moving all = {call->launch.workspace, NULL, vectors(call), gd_team_size()};
    if (call->launch.sizing)
        return reserve(call, call->bytes, (double)all.count * GD_VEC_BYTES);
    gd_team_run_together(all.members, write_share, &all);
    return GD_OK;
}

enum { SUMS = 8, LANES_F32 = GD_VEC_BYTES / sizeof(float) };

/* The sum goes into the share, lest the compiler drop what nobody asks for. */
static void read_share(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const moving *const m = context;
    const ptrdiff_t first = share_begin(m, begin, SUMS), last = share_begin(m, end, SUMS);
    float *const data = (float *)m->to;
    gd_vf32 sums[SUMS] = {{0}};
    (void)member;
    for (ptrdiff_t i = first; i < last; i += SUMS)
        for (int s = 0; s < SUMS; ++s)
            sums[s] += gd_load(data + (i + s) * LANES_F32);
    for (int s = 1; s < SUMS; ++s)
        sums[0] += sums[s];
    if (first < last)
        gd_store(data + first * LANES_F32, sums[0]);
}

/* Pages that were never written would all be read from one page of zeros, so the first call writes
 * the buffer, which its last vector then tells the others. */
gd_status GD_ISA_NAME(gd_cpu_ceiling_read)(gd_ceiling *call, gd_error *err)
{
    const ptrdiff_t count = vectors(call) / SUMS * SUMS;
    float *data = call->launch.workspace;
    if (call->launch.sizing)
        return reserve(call, call->bytes, (double)count * GD_VEC_BYTES);
    if (count > 0 && data[count * LANES_F32 - 1] != 1.0f) {
        const gd_status status = GD_ISA_NAME(gd_cpu_ceiling_write)(call, err);
        if (status != GD_OK)
            return status;
    }
    moving all = {call->launch.workspace, NULL, count, gd_team_size()};
    gd_team_run_together(all.members, read_share, &all);
    return GD_OK;
}

static void copy_share(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const moving *const m = context;
    (void)member;
    for (ptrdiff_t i = share_begin(m, first, 1); i < share_begin(m, last, 1); ++i)
        gd_stream(m->to + i * GD_VEC_BYTES, gd_load((const float *)(m->from + i * GD_VEC_BYTES)));
}

/* There and back: pages that were never written would all be read from one page of zeros, so the
 * first call writes both buffers, and the later ones measure. */
gd_status GD_ISA_NAME(gd_cpu_ceiling_copy)(gd_ceiling *call, gd_error *err)
{
    (void)err;
    ptrdiff_t count = vectors(call), size = count * GD_VEC_BYTES;
    if (call->launch.sizing)
        return reserve(call, 2 * call->bytes, 4.0 * (double)size);
    char *one = call->launch.workspace, *other = one + size;
    moving there = {other, one, count, gd_team_size()}, back = {one, other, count, there.members};
    gd_team_run_together(there.members, copy_share, &there);
    gd_team_run_together(back.members, copy_share, &back);
    return GD_OK;
}

/* ---------------------------------------------------------------- arithmetic */

/* One item of work a thread, not one thread an item: what was counted is done even where the system
 * grants fewer threads. The workspace takes the results, so that no compiler drops them. */
#define DEFINE_ARITHMETIC(name, step)                                                       \
    static void do_##name(void *results, ptrdiff_t first, ptrdiff_t last, int member)       \
    {                                                                                       \
        (void)member;                                                                       \
        for (ptrdiff_t i = first; i < last; ++i) {                                          \
            gd_vf64 x[CHAINS], a = gd_splat(0.999), b = gd_splat(0.001), sum = {0};         \
            GD_UNROLL for (int c = 0; c < CHAINS; ++c)                                      \
                x[c] = gd_splat((double)c);                                                 \
            for (int s = 0; s < STEPS; ++s) GD_UNROLL                                       \
                for (int c = 0; c < CHAINS; ++c)                                            \
                    x[c] = step;                                                            \
            GD_UNROLL for (int c = 0; c < CHAINS; ++c)                                      \
                sum += x[c];                                                                \
            gd_store((double *)results + i * LANES, sum);                                   \
        }                                                                                   \
    }                                                                                       \
    gd_status GD_ISA_NAME(gd_cpu_ceiling_##name)(gd_ceiling * call, gd_error * err)         \
    {                                                                                       \
        (void)err;                                                                          \
        const int items = gd_team_size();                                                   \
        if (call->launch.sizing)                                                            \
            return reserve(call, (size_t)items * GD_VEC_BYTES,                              \
                           (double)items * STEPS * CHAINS * LANES);                         \
        gd_team_run_together((int)(call->launch.workspace_bytes / GD_VEC_BYTES), do_##name, \
                             call->launch.workspace);                                       \
        return GD_OK;                                                                       \
    }

DEFINE_ARITHMETIC(fma, gd_fma(x[c], a, b))

/* As the kernels have it: minima have to themselves the pipes that they share with plain sums. */
#if defined(__FMA__)
DEFINE_ARITHMETIC(minplus, gd_min(gd_fma(x[c], a, b), a))
#else
DEFINE_ARITHMETIC(minplus, gd_min(x[c] + b, a))
#endif
