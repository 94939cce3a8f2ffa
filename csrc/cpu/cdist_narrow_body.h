/* cdist_narrow_body.h: the part of cdist_narrow.c that depends on the element type. Included once
 * per type, with T the type, V its vector and N(x) the name x with the type's suffix. */

enum { N(lanes) = sizeof(V) / sizeof(T), N(line) = LINE / sizeof(T) };

/* One row of A and a chunk's columns. */
typedef struct N(run) {
    const T *row, *planes;
    ptrdiff_t d, width, count;
    const gd_matrix *b;
    ptrdiff_t column; /* of B's rows, the first in the planes */
    T *to;
    bool stream;
} N(run);

/* Finishes the sums of columns [c, c + count) one by one, of which some lost range. */
static __attribute__((noinline)) void N(mend_sums)(gd_metric metric, const N(run) * run,
                                                   ptrdiff_t c, ptrdiff_t count, T *sums)
{
    const T *y = (const T *)run->b->data + (run->column + c) * run->b->row_stride;
    for (ptrdiff_t i = 0; i < count; ++i, y += run->b->row_stride)
        sums[i] = N(mend)(metric, sums[i], run->row, y, run->d);
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
        GD_UNROLL for (int v = 0; v < vectors; ++v)
            result[v] = PICK(TERM, metric, result[v], row, gd_load(plane + v * N(lanes)));
    }
    if (!N(any_lost)(metric, result, vectors)) {
        GD_UNROLL for (int v = 0; v < vectors; ++v)
            result[v] = PICK(FINISH, metric, result[v]);
        return;
    }
    T sums[VECTORS * N(lanes)];
    GD_UNROLL for (int v = 0; v < vectors; ++v)
        gd_store(sums + v * N(lanes), result[v]);
    N(mend_sums)(metric, run, c, count, sums);
    GD_UNROLL for (int v = 0; v < vectors; ++v)
        result[v] = gd_load(sums + v * N(lanes));
}

/* At most a line, which is not streamed. */
GD_INLINE void N(put_part)(const gd_metric metric, const int dims, const N(run) * run, ptrdiff_t c,
                           ptrdiff_t count)
{
    enum { FEW = LINE / GD_VEC_BYTES };
    V result[FEW];
    T at[N(line)];
    N(distances)(metric, dims, FEW, run, c, count, result);
    GD_UNROLL for (int v = 0; v < FEW; ++v)
        gd_store(at + v * N(lanes), result[v]);
    memcpy(run->to + c, at, (size_t)count * sizeof(T));
}

GD_INLINE void N(put_run)(const gd_metric metric, const int dims, const N(run) * run)
{
    T *const to = run->to;
    const bool stream = run->stream;
    const ptrdiff_t count = run->count, head = -(uintptr_t)to % LINE / sizeof(T);
    ptrdiff_t c = stream ? gd_least(head, count) : 0;
    if (c > 0)
        N(put_part)(metric, dims, run, 0, c);
    for (; c + VECTORS * N(lanes) <= count; c += VECTORS * N(lanes)) {
        V result[VECTORS];
        N(distances)(metric, dims, VECTORS, run, c, VECTORS * N(lanes), result);
        if (stream) GD_UNROLL
            for (int v = 0; v < VECTORS; ++v)
                gd_stream(to + c + v * N(lanes), (gd_vf32)result[v]);
        else GD_UNROLL
            for (int v = 0; v < VECTORS; ++v)
                gd_store(to + c + v * N(lanes), result[v]);
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
FOR_METRICS(DEFINE)
#define ENTRIES(metric)                                                        \
    [metric] = {N(put_##metric##_0), N(put_##metric##_1), N(put_##metric##_2), \
                N(put_##metric##_3), N(put_##metric##_4)},
/* [metric][dimensions, or 0 for any number of them] */
static N(run_fn) *const N(runs_of)[GD_METRIC_COUNT][KNOWN_DIMS + 1] = {FOR_METRICS(ENTRIES)};
#undef DEFINE
#undef DEFINE_FOR
#undef ENTRIES

static void N(do_tasks)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const narrow_job *const job = context;
    const gd_cdist *const call = job->call;
    const narrow_plan *const plan = job->plan;
    const gd_matrix *const a = &call->a;
    N(run_fn) *const put = N(runs_of)[call->metric][a->cols <= KNOWN_DIMS ? a->cols : 0];
    T *const planes = (T *)((char *)call->launch.workspace + (size_t)member * plan->own_bytes);
    for (ptrdiff_t t = first; t < last; ++t) {
        const ptrdiff_t column = t % plan->spans * plan->chunk, row = t / plan->spans * plan->rows;
        N(run)
        run = {.planes = planes,
               .d = a->cols,
               .width = plan->width,
               .count = gd_least(plan->chunk, call->out.cols - column),
               .b = &call->b,
               .column = column,
               .stream = plan->stream};
        N(pack)(&call->b, column, plan->width, planes);
        for (ptrdiff_t i = row; i < gd_least(row + plan->rows, a->rows); ++i) {
            run.row = (const T *)a->data + i * a->row_stride;
            run.to = (T *)call->out.data + i * call->out.row_stride + column;
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
