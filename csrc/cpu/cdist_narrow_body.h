/* cdist_narrow_body.h: the part of cdist_narrow.c that depends on the element type. Included once
 * per type, with T the type, V its vector, O the result's type and N(x) the name x with a suffix;
 * GUARDED as one_sum_body.h has it, PERIODIC where columns are those of a box, and the METRICS. */

enum {
    N(lanes) = sizeof(V) / sizeof(T),
    N(line) = GD_LINE / sizeof(O),
    N(store) = sizeof(T) / sizeof(O), /* vectors of T that make one of O */
    /* Of VECTORS, so many roots are by the unit of roots while multiplications make the others. */
    N(by_unit) = sizeof(T) == sizeof(float) ? 3 : 1,
};

/* One row of A and a chunk's columns. */
typedef struct N(run) {
    const T *row, *planes;
#if PERIODIC
    T half[MOST_DIMS], rest[MOST_DIMS]; /* of the columns' lengths; less the size of the row */
#endif
    ptrdiff_t d, width, count;
    const gd_matrix *b;
    ptrdiff_t column; /* of B's rows, the first in the planes */
    O *to;
    bool stream;
} N(run);

/* Finishes the sums of columns [c, c + count) one by one, of which some lost range. */
static __attribute__((noinline)) void N(recompute_sums)(gd_metric metric, const N(run) * run,
                                                        ptrdiff_t c, ptrdiff_t count, T *sums)
{
    const T *y = (const T *)run->b->data + (run->column + c) * run->b->row_stride;
    for (ptrdiff_t i = 0; i < count; ++i, y += run->b->row_stride)
        sums[i] = N(recompute)(metric, sums[i], run->row, y, run->d);
}

/* The distances of `vectors` vectors of columns from c on, of which the last may lie past `count`
 * of them. dims: how many dimensions there are, if that is a constant. */
GD_INLINE void N(distances)(const gd_metric metric, const int dims, const int vectors,
                            const N(run) * run, ptrdiff_t c, ptrdiff_t count, V *result)
{
    const ptrdiff_t d = dims > 0 ? dims : run->d;
    const T *plane = run->planes + c;
    GD_UNROLL for (int v = 0; v < vectors; ++v)
        result[v] = (V){0};
    for (ptrdiff_t k = 0; k < d; ++k, plane += run->width) {
        const V row = gd_splat(run->row[k]);
        GD_UNROLL for (int v = 0; v < vectors; ++v) {
            const V column = gd_load(plane + v * N(lanes));
#if PERIODIC
            const V rest = gd_splat(run->half[k]) - gd_abs(column);
            const V apart = gd_apart(row, gd_splat(run->rest[k]), column, rest);
            result[v] = PICK(TERM, metric, result[v], apart, (V){0});
#else
            result[v] = PICK(TERM, metric, result[v], row, column);
#endif
        }
    }
    if (!N(any_lost)(metric, result, vectors)) {
        GD_UNROLL for (int v = 0; v < vectors; ++v)
            result[v] = metric != GD_EUCLIDEAN     ? PICK(FINISH, metric, result[v])
                        : v % VECTORS < N(by_unit) ? gd_sqrt(result[v])
                                                   : gd_multiplied_root(result[v]);
        return;
    }
    T sums[VECTORS * N(lanes)];
    GD_UNROLL for (int v = 0; v < vectors; ++v)
        gd_store(sums + v * N(lanes), result[v]);
    N(recompute_sums)(metric, run, c, count, sums);
    GD_UNROLL for (int v = 0; v < vectors; ++v)
        result[v] = gd_load(sums + v * N(lanes));
}

/* Stores a vector of results, which N(store) vectors make. */
GD_INLINE void N(put)(O *to, const V *result, const bool stream)
{
#if PERIODIC
    const gd_vf32 x = N(store) == 2 ? joined(result[0], result[N(store) - 1]) : (gd_vf32)result[0];
#else
    const gd_vf32 x = (gd_vf32)result[0];
#endif
    if (stream)
        gd_stream(to, x);
    else
        memcpy(to, &x, sizeof x);
}

/* At most a line, which is not streamed. */
GD_INLINE void N(put_part)(const gd_metric metric, const int dims, const N(run) * run, ptrdiff_t c,
                           ptrdiff_t count)
{
    enum { FEW = N(line) / N(lanes) };
    V result[FEW];
    O at[N(line)];
    N(distances)(metric, dims, FEW, run, c, count, result);
    GD_UNROLL for (int v = 0; v < FEW; v += N(store))
        N(put)(at + v * N(lanes), result + v, false);
    memcpy(run->to + c, at, (size_t)count * sizeof(O));
}

GD_INLINE void N(put_run)(const gd_metric metric, const int dims, const N(run) * run)
{
    O *const to = run->to;
    const bool stream = run->stream;
    const ptrdiff_t count = run->count, head = -(uintptr_t)to % GD_LINE / sizeof(O);
    ptrdiff_t c = stream ? gd_least(head, count) : 0;
    if (c > 0)
        N(put_part)(metric, dims, run, 0, c);
    for (; c + VECTORS * N(lanes) <= count; c += VECTORS * N(lanes)) {
        V result[VECTORS];
        N(distances)(metric, dims, VECTORS, run, c, VECTORS * N(lanes), result);
        GD_UNROLL for (int v = 0; v < VECTORS; v += N(store))
            N(put)(to + c + v * N(lanes), result + v, stream);
    }
    for (; c < count; c += N(line))
        N(put_part)(metric, dims, run, c, gd_least(N(line), count - c));
}

typedef void N(run_fn)(const N(run) * run);
#define DEFINE_FOR(metric, dims) \
    static void N(put_##metric##_##dims)(const N(run) * run) { N(put_run)(metric, dims, run); }
#define DEFINE(metric)    \
    DEFINE_FOR(metric, 0) \
    DEFINE_FOR(metric, 1) DEFINE_FOR(metric, 2) DEFINE_FOR(metric, 3) DEFINE_FOR(metric, 4)
METRICS(DEFINE)
#define ENTRIES(metric)                                                        \
    [metric] = {N(put_##metric##_0), N(put_##metric##_1), N(put_##metric##_2), \
                N(put_##metric##_3), N(put_##metric##_4)},
/* [metric][dimensions, or 0 for any number of them] */
static N(run_fn) *const N(runs_of)[GD_METRIC_COUNT][KNOWN_DIMS + 1] = {METRICS(ENTRIES)};
#undef DEFINE
#undef DEFINE_FOR
#undef ENTRIES

/* Where tasks of the same rows meet, `column` or a few columns later: where a line of the result
 * begins, if it is streamed. Of a line that two of them wrote a part the rest would be read from
 * memory first, which took up to half of a call. */
static ptrdiff_t N(bound)(const narrow_plan *plan, const O *to, ptrdiff_t column, ptrdiff_t n)
{
    if (plan->stream && column > 0 && column < n)
        column += (ptrdiff_t)(-(uintptr_t)(to + column) % GD_LINE / sizeof(O));
    return gd_least(column, n);
}

static void N(do_tasks)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const narrow_job *const job = context;
    const gd_cdist *const call = job->call;
    const narrow_plan *const plan = job->plan;
    const gd_matrix *const a = &call->a;
    const ptrdiff_t n = call->out.cols;
    N(run_fn) *const put = N(runs_of)[call->metric][a->cols <= KNOWN_DIMS ? a->cols : 0];
    T *const planes = (T *)((char *)call->launch.workspace + (size_t)member * plan->own_bytes);
    for (ptrdiff_t t = first; t < last; ++t) {
        const ptrdiff_t column = t % plan->spans * plan->chunk, row = t / plan->spans * plan->rows;
        N(run)
        run = {.d = a->cols, .width = plan->width, .b = &call->b, .stream = plan->stream};
#if PERIODIC
        T images[MOST_DIMS];
        (sizeof(O) == sizeof(T) ? pack_f64 : pack_wide)(&call->b, column, plan->width, planes);
        wrap(call->box, run.d, plan->width, planes);
        run.row = images;
#else
        N(pack)(&call->b, column, plan->width, planes);
#endif
        for (ptrdiff_t i = row; i < gd_least(row + plan->rows, a->rows); ++i) {
            const O *const given = (const O *)a->data + i * a->row_stride;
#if PERIODIC
            for (ptrdiff_t k = 0; k < run.d; ++k) {
                images[k] = gd_wrapped((T)given[k], call->box[k]);
                run.half[k] = call->box[k] / 2;
                run.rest[k] = run.half[k] - fabs(images[k]);
            }
#else
            run.row = given;
#endif
            O *const to = (O *)call->out.data + i * call->out.row_stride;
            run.column = N(bound)(plan, to, column, n);
            run.planes = planes + (run.column - column);
            run.count = N(bound)(plan, to, column + plan->chunk, n) - run.column;
            run.to = to + run.column;
            put(&run);
        }
    }
    if (plan->stream)
        gd_stream_end();
}

#undef T
#undef V
#undef N
#undef GUARDED
#undef O
#undef PERIODIC
#undef METRICS
