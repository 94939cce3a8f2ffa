/* cdist_tile_body.h: the part of cdist_tile.c that depends on the element type. Included once per
 * type, with T the type, V its vector, N(x) the name x with the type's suffix, and GUARDED 1 for
 * the type whose sums of squares are checked for lost range (float32). */

enum { N(lanes) = sizeof(V) / sizeof(T), N(width) = NV * N(lanes) };

#include "put_body.h"

/* Adds a dimension of mr rows and nv vectors of columns to their sums, or begins these with it. */
GD_INLINE void N(add_dimension)(const gd_metric metric, const int mr, const int nv,
                                const bool begins, const T *a, const T *b, const V one,
                                V (*acc)[NV])
{
    V column[NV];
    GD_UNROLL for (int v = 0; v < nv; ++v)
        column[v] = gd_load(b + v * N(lanes));
    FOR_TILE (r, v) {
        if (metric == GD_INNER_PRODUCT) {
            acc[r][v] = PICK(TERM, metric, acc[r][v], gd_splat(a[r]), column[v]);
        }
        else {
            const V apart = FUSES_DIFFERENCE(metric, v) ? gd_fused_minus_each(column[v], one, a + r)
                                                        : gd_minus_each(column[v], a + r);
            acc[r][v] = begins ? GD_FIRST_TERM(metric, apart)
                               : PICK(TERM, metric, acc[r][v], apart, (V){0});
        }
    }
}

/* Computes one tile over a group of `depth` dimensions. `a` holds mr rows and `b` nv vectors of
 * columns, both with the dimension as the slow index. Unless `first`, out holds the totals of the
 * groups before; if `last`, it receives distances, or if then `queue` is not NULL, totals. Returns
 * true if it left totals there of which some lost range.
 *
 * If it `puts`, it stores what waits in the queue, a line beside each dimension, so that roots and
 * the way to memory take no time of their own: they hardly need the pipes of the sums. */
GD_INLINE bool N(tile)(const gd_metric metric, const int mr, const int nv, const bool puts,
                       const T *a, const T *b, ptrdiff_t depth, bool first, bool last, T *out,
                       ptrdiff_t stride, N(queue) * queue)
{
    V acc[MR][NV], total[MR][NV], one = gd_splat((T)1);
    GD_OPAQUE(one);
    for (ptrdiff_t k = 0;;) {
        const ptrdiff_t end = k + GD_FOLD < depth ? k + GD_FOLD : depth;
        const bool alone = k == 0;
        N(share) share = {.lines = 0};
        if (puts)
            share = N(take_share)(queue, end - k - 1);
        if (GD_HAS_FIRST_TERM(metric) && k < end) {
            N(add_dimension)(metric, mr, nv, true, a + k * mr, b + k * nv * N(lanes), one, acc);
            ++k;
        }
        else
            FOR_TILE (r, v)
                acc[r][v] = (V){0};
        for (const ptrdiff_t busy = puts ? k + share.lines : k; k < busy; ++k) {
            N(put_line)(metric, queue, &share);
            N(add_dimension)(metric, mr, nv, false, a + k * mr, b + k * nv * N(lanes), one, acc);
        }
        for (; k < end; ++k)
            N(add_dimension)(metric, mr, nv, false, a + k * mr, b + k * nv * N(lanes), one, acc);
        /* The registers are the accumulators'; totals wait on the stack, touched once a fold. */
        if (!alone)
            FOR_TILE (r, v)
                acc[r][v] = PICK(JOIN, metric, total[r][v], acc[r][v]);
        if (k == depth)
            break;
        FOR_TILE (r, v)
            total[r][v] = acc[r][v];
    }
    if (!first)
        FOR_TILE (r, v)
            acc[r][v] = PICK(JOIN, metric, gd_load(out + r * stride + v * N(lanes)), acc[r][v]);

    bool lost = false;
    if (last) {
#if GUARDED
        if (GD_CAN_LOSE_RANGE(metric)) {
            gd_range seen = gd_no_range();
            FOR_TILE (r, v)
                gd_see(metric, &seen, acc[r][v]);
            lost = gd_saw_loss(metric, &seen);
        }
#endif
        if (!lost && queue == NULL)
            FOR_TILE (r, v)
                acc[r][v] = PICK(FINISH, metric, acc[r][v]);
    }
    FOR_TILE (r, v)
        gd_store(out + r * stride + v * N(lanes), acc[r][v]);
    return lost;
}

typedef bool N(tile_fn)(const T *a, const T *b, ptrdiff_t depth, bool first, bool last, T *out,
                        ptrdiff_t stride, N(queue) * queue);

/* One function per metric, height and number of vectors: all are constants where it matters. */
#define DEFINE_TILE(metric, mr, nv, suffix, puts)                                               \
    static bool N(tile_##metric##_##mr##_##nv##suffix)(const T *a, const T *b, ptrdiff_t depth, \
                                                       bool first, bool last, T *out,           \
                                                       ptrdiff_t stride, N(queue) * queue)      \
    {                                                                                           \
        return N(tile)(metric, mr, nv, puts, a, b, depth, first, last, out, stride, queue);     \
    }
#define DEFINE(metric, nv) DEFINE_TILE(metric, MR, nv, , false) DEFINE_TILE(metric, 1, nv, , false)
#define DEFINE_ALL(metric) FOR_NV(DEFINE, metric)
FOR_METRICS(DEFINE_ALL)
#define ENTRY(metric, nv) [nv] = N(tile_##metric##_MR_##nv),
#define ENTRY_ALONE(metric, nv) [nv] = N(tile_##metric##_1_##nv),
#define ENTRIES(metric) [metric] = {{FOR_NV(ENTRY, metric)}, {FOR_NV(ENTRY_ALONE, metric)}},
/* [metric][whether the row is alone][vectors] */
static N(tile_fn) *const N(tiles)[GD_METRIC_COUNT][2][NV + 1] = {FOR_METRICS(ENTRIES)};
/* Whole tiles that store what waits. */
#define DEFINE_PUTTING(metric) DEFINE_TILE(metric, MR, NV, _putting, true)
FOR_METRICS(DEFINE_PUTTING)
#define ENTRY_PUTTING(metric) [metric] = N(tile_##metric##_MR_NV_putting),
static N(tile_fn) *const N(putting_tiles)[GD_METRIC_COUNT] = {FOR_METRICS(ENTRY_PUTTING)};
#undef DEFINE_PUTTING
#undef ENTRY_PUTTING
#undef DEFINE
#undef DEFINE_TILE
#undef DEFINE_ALL
#undef ENTRY
#undef ENTRY_ALONE
#undef ENTRIES

static N(tile_fn) * N(tile_for)(gd_metric metric, bool alone, int nv, const N(queue) * queue)
{
    const bool waits = queue != NULL && queue->rows + queue->lines > 0 && queue->metric == metric;
    return waits && !alone && nv == NV ? N(putting_tiles)[metric] : N(tiles)[metric][alone][nv];
}

#if GUARDED
/* Finishes a tile whose totals partly lost range: those lanes are summed again in float64. Slow per
 * lane only by the width of a double, so even inputs full of equal rows (whose zeros come here,
 * being indistinguishable from underflow) keep a fraction of the speed. */
static __attribute__((noinline)) void N(rescue)(gd_metric metric, const T *a, int mr, const T *b,
                                                ptrdiff_t width, ptrdiff_t d, T *out,
                                                ptrdiff_t stride)
{
    for (int r = 0; r < mr; ++r, out += stride) {
        bool lost[N(width)], any = false;
        for (ptrdiff_t c = 0; c < width; ++c) {
            lost[c] = gd_lost_range(metric, out[c]);
            any |= lost[c];
        }
        double exact[N(width)] = {0};
        for (ptrdiff_t k = 0; any && k < d; ++k)
            for (ptrdiff_t c = 0; c < width; ++c)
                exact[c] += gd_wide_term(metric, a[k * mr + r], b[k * width + c]);
        for (ptrdiff_t c = 0; c < width; ++c)
            if (metric == GD_EUCLIDEAN)
                out[c] = lost[c] ? (T)__builtin_sqrt(exact[c]) : __builtin_sqrtf(out[c]);
            else if (lost[c])
                out[c] = (T)exact[c];
    }
}
#endif

/* How many vectors hold the columns of panel p, of n columns in all; NV but for the last panel. */
static int N(vectors)(ptrdiff_t p, ptrdiff_t n)
{
    const ptrdiff_t left = n - p * N(width);
    return left < N(width) ? (int)((left + N(lanes) - 1) / N(lanes)) : NV;
}

static void N(pack_panels)(const gd_matrix *b, ptrdiff_t panel, ptrdiff_t end, T *to)
{
    for (; panel < end; ++panel, to += N(width) * b->cols)
        N(pack)(b, panel * N(width), N(vectors)(panel, b->rows) * N(lanes), to);
}

/* Rows that share tiles, as far as a chunk of panels goes. */
typedef struct N(strip) {
    const T *a, *b;        /* packed rows, packed columns */
    ptrdiff_t rows;        /* one by itself, or up to MR */
    ptrdiff_t panel, past; /* panels [panel, past) */
    T *tile;               /* totals */
    ptrdiff_t stride;
    T *to; /* the result */
    ptrdiff_t cols;
    T *kept; /* see put_body.h */
    bool continues, goes_on;
} N(strip);

/* Sums up dimensions k to k + depth of a strip. Returns whether totals lost range;
 * then all are distances, which they are without a queue anyway. */
static bool N(sum_up)(const gd_cdist *call, const N(strip) * strip, ptrdiff_t k, ptrdiff_t depth,
                      N(queue) * queue)
{
    const ptrdiff_t d = call->a.cols, n = call->out.cols;
    const bool alone = strip->rows == 1;
    const int mr = alone ? 1 : MR;
    bool lost[MAX_CHUNK], any_lost = false;
    for (ptrdiff_t p = 0; p < strip->past - strip->panel; ++p) {
        const int nv = N(vectors)(strip->panel + p, n);
        N(tile_fn) *const tile = N(tile_for)(call->metric, alone, nv, queue);
        ptrdiff_t group = k;
        do {
            const ptrdiff_t dims = gd_least(k + depth - group, GD_GROUP);
            lost[p] = tile(strip->a + group * mr,
                           strip->b + p * N(width) * d + group * nv * N(lanes), dims, group == 0,
                           group + dims == d, strip->tile + p * N(width), strip->stride, queue);
            group += dims;
        } while (group < k + depth);
        any_lost |= lost[p];
    }
#if GUARDED
    for (ptrdiff_t p = 0; p < strip->past - strip->panel && any_lost; ++p)
        if (lost[p] || queue != NULL)
            N(rescue)(call->metric, strip->a, mr, strip->b + p * N(width) * d,
                      N(vectors)(strip->panel + p, n) * N(lanes), d, strip->tile + p * N(width),
                      strip->stride);
#endif
    return any_lost;
}

/* Stores a strip's totals as distances, or has them wait in the queue for that. */
static void N(hand_over)(const gd_cdist *call, const tile_plan *plan, const N(strip) * strip,
                         bool distances, N(queue) * queue)
{
    if (queue != NULL) {
        N(put_all)(queue);
        *queue = (N(queue)){.row = strip->tile,
                            .row_to = strip->to,
                            .rows = strip->rows,
                            .cols = strip->cols,
                            .from_stride = strip->stride,
                            .to_stride = call->out.row_stride,
                            .metric = distances ? GD_SQEUCLIDEAN : call->metric,
                            .stream = plan->stream,
                            .kept = plan->kept > 0 ? strip->kept : NULL,
                            .continues = strip->continues,
                            .goes_on = strip->goes_on,
                            .hidden = call->a.cols >= HIDDEN_FROM};
        if (!plan->defers)
            N(put_all)(queue);
    }
    else { /* nothing to do on the way */
        for (ptrdiff_t i = 0; i < strip->rows; ++i)
            memcpy(strip->to + i * call->out.row_stride, strip->tile + i * strip->stride,
                   (size_t)strip->cols * sizeof(T));
    }
}

/* Fills out[row : row + plan->rows, the columns of panels [panel, panels_end)]. */
static void N(block)(const gd_cdist *call, const tile_plan *plan, T *own, ptrdiff_t row,
                     ptrdiff_t panel, ptrdiff_t panels_end)
{
    const ptrdiff_t d = call->a.cols, n = call->out.cols, stride = plan->chunk * N(width);
    const ptrdiff_t rows = gd_least(plan->rows, call->a.rows - row), first_panel = panel;
    T *const a = own, *const kept = a + plan->rows * d, *const stage = kept + plan->kept;
    T *const own_b = stage + plan->staged * stride;
    for (ptrdiff_t r = 0; r < rows; r += MR)
        N(pack)(&call->a, row + r, rows - r == 1 ? 1 : MR, a + r * d);

    for (; panel < panels_end; panel += plan->chunk) {
        const ptrdiff_t column = panel * N(width);
        N(strip)
        strip = {.b = (const T *)call->launch.workspace + column * d,
                 .panel = panel,
                 .past = gd_least(panel + plan->chunk, panels_end),
                 .continues = panel > first_panel,
                 .goes_on = panel + plan->chunk < panels_end};
        strip.cols = gd_least(strip.past * N(width), n) - column;
        if (plan->blocks == 1) {
            N(pack_panels)(&call->b, panel, strip.past, own_b);
            strip.b = own_b;
        }
        N(queue) waiting = {.rows = 0};
        N(queue) *const queue = plan->stream || plan->defers ? &waiting : NULL;
        ptrdiff_t k = 0;
        do {
            const ptrdiff_t depth = gd_least(plan->slab, d - k);
            for (ptrdiff_t r = 0; r < rows; r += MR) {
                strip.a = a + r * d;
                strip.rows = gd_least(rows - r, MR);
                strip.kept = kept + r * N(per_line);
                strip.to = (T *)call->out.data + (row + r) * call->out.row_stride + column;
                /* A whole tile goes straight to its place, unless that waits, or is to be streamed
                 * to. */
                const bool direct = queue == NULL && depth == d && strip.cols % N(width) == 0 &&
                                    (strip.rows == MR || strip.rows == 1);
                strip.tile = direct ? strip.to : stage + r % plan->staged * stride;
                strip.stride = direct ? call->out.row_stride : stride;
                const bool lost = N(sum_up)(call, &strip, k, depth, queue);
                if (k + depth == d && !direct)
                    N(hand_over)(call, plan, &strip, lost, queue);
            }
            k += depth;
        } while (k < d);
        N(put_all)(&waiting);
    }
    if (plan->stream)
        gd_stream_end();
}

static void N(pack_some)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const tile_job *const job = context;
    T *const packed = job->call->launch.workspace;
    (void)member;
    N(pack_panels)(&job->call->b, first, last, packed + first * N(width) * job->call->b.cols);
}

static void N(do_tasks)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const tile_job *const job = context;
    const tile_plan *const plan = job->plan;
    T *const mine = (T *)((char *)job->call->launch.workspace + plan->shared_bytes +
                          (size_t)member * plan->own_bytes);
    for (ptrdiff_t t = first; t < last; ++t) {
        const ptrdiff_t span = t % plan->spans;
        N(block)(job->call, plan, mine, t / plan->spans * plan->rows,
                 plan->panels * span / plan->spans, plan->panels * (span + 1) / plan->spans);
    }
}

static void N(run)(const gd_cdist *call, const tile_plan *plan)
{
    tile_job job = {call, plan};
    if (plan->blocks > 1)
        gd_team_run(plan->threads, plan->panels, 0, N(pack_some), &job);
    gd_team_run(plan->threads, plan->blocks * plan->spans, 1, N(do_tasks), &job);
}

#undef T
#undef V
#undef N
#undef GUARDED
