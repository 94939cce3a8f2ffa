/* cdist_thin_body.h: the part of cdist_thin.c that depends on the element type. Included once per
 * type, with T the type, V its vector, N(x) the name x with the type's suffix, TRANSPOSE what
 * transposes a square of vectors, SEPARATE what takes pairs apart, and GUARDED 1 for the type whose
 * sums of squares are checked for lost range (float32). */

enum { N(lanes) = sizeof(V) / sizeof(T), N(squares) = GD_FOLD / N(lanes) };

static const T *N(row)(const thin_rows *x, ptrdiff_t i)
{
    return (const T *)x->data + i * x->stride;
}

/* Distances from sums; those of metrics with the same terms differ here alone. */
GD_INLINE V N(finish)(gd_metric metric, V sum)
{
    return metric == GD_EUCLIDEAN ? GD_FINISH_EUCLIDEAN(sum)
           : metric == GD_COSINE  ? GD_FINISH_COSINE(sum)
                                  : sum;
}

/* ---------------------------------------------------------------- strips */

/* Adds `depth` dimensions, from k on, to the sums of `few` rows. */
GD_INLINE void N(add_terms)(const gd_metric terms, const int few, const V *x, const int depth,
                            const T *const *singles, ptrdiff_t k, V *acc)
{
    GD_UNROLL for (int r = 0; r < few; ++r) GD_UNROLL
        for (int i = 0; i < depth; ++i)
            acc[r] = PICK(TERM, terms, acc[r], gd_splat(singles[r][k + i]), x[i]);
}

/* The last dimensions, `count` of them, fewer than a square has. */
GD_INLINE void N(add_tail)(const gd_metric terms, const int few, const T *rows, ptrdiff_t stride,
                           ptrdiff_t count, const T *const *tails, V *acc)
{
    V x[N(lanes)];
#ifdef TRANSPOSE_HALVES
    enum { HALF = N(lanes) / 2 };
    if (count <= HALF) { /* a vector holds two rows */
        GD_UNROLL for (int i = 0; i < HALF; ++i, rows += stride) {
            GD_FORGET(rows);
            x[i] = gd_load_firsts(rows, rows + HALF * stride, count);
        }
        TRANSPOSE_HALVES(x);
        N(add_terms)(terms, few, x, HALF, tails, 0, acc);
        return;
    }
#endif
    GD_UNROLL for (int i = 0; i < N(lanes); ++i, rows += stride) {
        GD_FORGET(rows);
        x[i] = gd_load_first(rows, count);
    }
    TRANSPOSE(x);
    N(add_terms)(terms, few, x, N(lanes), tails, 0, acc);
}

/* The sums of `few` rows and the `lanes` rows from `rows` on, `stride` apart. tails: the few rows'
 * dimensions of the last square, filled up. */
GD_INLINE void N(sum_up)(const gd_metric terms, const int few, const T *rows, ptrdiff_t stride,
                         ptrdiff_t d, const T *const *singles, const T *const *tails, V *sum)
{
    const ptrdiff_t ahead = N(lanes) * stride * (ptrdiff_t)sizeof(T);
    V total[FEW] = {{0}}, acc[FEW], x[N(lanes)];
    if (d < N(lanes)) { /* else the way to the loops costs more than all there is to do */
        GD_UNROLL for (int r = 0; r < few; ++r)
            sum[r] = (V){0};
        if (d == 1 && stride == 1) {
            x[0] = gd_load(rows);
            N(add_terms)(terms, few, x, 1, tails, 0, sum);
        }
        else if (d == 2 && stride == 2) {
            SEPARATE(gd_load(rows), gd_load(rows + N(lanes)), x);
            N(add_terms)(terms, few, x, 2, tails, 0, sum);
        }
        else {
            /* The hardware foresees no loads of parts of vectors: from memory they would take up to
             * six times as long. */
            const ptrdiff_t apart = stride * (ptrdiff_t)sizeof(T);
            for (ptrdiff_t at = 0; at<ahead; at += apart> GD_LINE ? apart : GD_LINE)
                gd_fetch(rows, STRIPS_AHEAD * ahead + at);
            N(add_tail)(terms, few, rows, stride, d, tails, sum);
        }
        return;
    }
    for (ptrdiff_t group = 0; group < d; group += GD_GROUP) {
        const ptrdiff_t end = group + GD_GROUP < d ? group + GD_GROUP : d;
        for (ptrdiff_t fold = group; fold < end; fold += GD_FOLD) {
            ptrdiff_t k = fold;
            GD_UNROLL for (int r = 0; r < few; ++r)
                acc[r] = (V){0};
            GD_UNROLL for (int s = 0; s < N(squares); ++s)
                if (k + N(lanes) <= d) {
                    const T *row = rows + k;
                    GD_UNROLL for (int i = 0; i < N(lanes); ++i, row += stride) {
                        GD_FORGET(row);
                        x[i] = gd_load(row);
                        gd_fetch(row, ahead);
                    }
                    TRANSPOSE(x);
                    N(add_terms)(terms, few, x, N(lanes), singles, k, acc);
                    k += N(lanes);
                }
            if (k < d && k < fold + GD_FOLD)
                N(add_tail)(terms, few, rows + k, stride, d - k, tails, acc);
            GD_UNROLL for (int r = 0; r < few; ++r)
                total[r] = fold == group ? acc[r] : PICK(JOIN, terms, total[r], acc[r]);
        }
        GD_UNROLL for (int r = 0; r < few; ++r)
            sum[r] = group == 0 ? total[r] : PICK(JOIN, terms, sum[r], total[r]);
    }
}

/* Writes the results of the few rows and the others but the first `known`. */
GD_INLINE void N(put)(const thin_plan *plan, const int few, const V *results, int known, T *to)
{
    const int count = (int)plan->few.count;
    if (plan->many_stride == 1 && known == 0) {
        GD_UNROLL for (int r = 0; r < few; ++r)
            if (r < count)
                gd_store(to + r * plan->few_stride, results[r]);
    }
    else {
        T at[FEW][N(lanes)];
        GD_UNROLL for (int r = 0; r < few; ++r)
            gd_store(at[r], results[r]);
        for (int i = known; i < N(lanes); ++i)
            for (int r = 0; r < count; ++r)
                to[r * plan->few_stride + i * plan->many_stride] = at[r][i];
    }
}

/* Strips [from, to) of the operand with many rows. The few are computed as `few` are. */
GD_INLINE void N(some_strips)(const gd_metric terms, const int few, const thin_plan *plan,
                              ptrdiff_t from, ptrdiff_t to)
{
    const ptrdiff_t d = plan->d, left = d % N(lanes), many = plan->many.count;
    const gd_metric metric = plan->metric;
    const T *singles[FEW], *tails[FEW];
    T tail[FEW][N(lanes)];
    for (int r = 0; r < few; ++r) {
        singles[r] = N(row)(&plan->few, r < plan->few.count ? r : 0);
        for (int i = 0; i < N(lanes); ++i)
            tail[r][i] = i < left ? singles[r][d - left + i] : (T)-0.0;
        tails[r] = tail[r];
    }
    for (; from < to; ++from) {
        /* The last strip ends with the last row, and begins with some of the strip before. */
        const ptrdiff_t begin = from * N(lanes), past = begin + N(lanes) - many;
        const int known = past > 0 ? (int)past : 0;
        const T *const rows = N(row)(&plan->many, begin - known);
        V sum[FEW] = {{0}};
        N(sum_up)(terms, few, rows, plan->many.stride, d, singles, tails, sum);
        const bool lost = N(any_lost)(metric, sum, few);
        GD_UNROLL for (int r = 0; r < few; ++r)
            if (!lost)
                sum[r] = N(finish)(metric, sum[r]);
            else
                for (int i = 0; i < N(lanes); ++i)
                    sum[r][i] = N(recompute)(metric, sum[r][i], singles[r],
                                             rows + i * plan->many.stride, d);
        N(put)(plan, few, sum, known, (T *)plan->out + (begin - known) * plan->many_stride);
    }
}

typedef void (*N(strips_fn))(const thin_plan *plan, ptrdiff_t from, ptrdiff_t to);
#define DEFINE_STRIPS(terms, few)                                                              \
    static void N(strips_##terms##_##few)(const thin_plan *plan, ptrdiff_t from, ptrdiff_t to) \
    {                                                                                          \
        N(some_strips)(terms, few, plan, from, to);                                            \
    }
#define DEFINE(terms) DEFINE_STRIPS(terms, 1) DEFINE_STRIPS(terms, 2) DEFINE_STRIPS(terms, 4)
FOR_TERMS(DEFINE)
#define ENTRIES(terms) \
    [terms] = {N(strips_##terms##_1), N(strips_##terms##_2), N(strips_##terms##_4)},
/* [terms][whether it is one row, two, or up to four] */
static const N(strips_fn) N(strips_of)[GD_METRIC_COUNT][3] = {FOR_TERMS(ENTRIES)};
#undef DEFINE
#undef DEFINE_STRIPS
#undef ENTRIES

static void N(some_of_strips)(void *the_plan, ptrdiff_t first, ptrdiff_t last, int member)
{
    const thin_plan *const plan = the_plan;
    const int form = plan->few.count == 1 ? 0 : plan->few.count == 2 ? 1 : 2;
    (void)member;
    N(strips_of)[plan->terms][form](plan, first, last);
}

static void N(strips)(thin_plan *plan)
{
    gd_team_run(plan->threads, (plan->many.count + N(lanes) - 1) / N(lanes), 0, N(some_of_strips),
                plan);
}

/* ---------------------------------------------------------------- deep */

/* A fold of a row's `lanes` groups, from dimension k of them on, transposed. */
GD_INLINE void N(take_fold)(const T *x, ptrdiff_t k, ptrdiff_t d, V *to)
{
    const bool whole = k + (N(lanes) - 1) * GD_GROUP + GD_FOLD <= d;
    GD_UNROLL for (int s = 0; s < N(squares); ++s) {
        V *const square = to + s * N(lanes);
        const ptrdiff_t at = k + s * N(lanes);
        V v[N(lanes)];
        if (whole) GD_UNROLL
            for (int i = 0; i < N(lanes); ++i)
                v[i] = gd_load(x + at + i * GD_GROUP);
        else GD_UNROLL
            for (int i = 0; i < N(lanes); ++i)
                v[i] = gd_load_first(x + at + i * GD_GROUP, d - at - i * GD_GROUP);
        TRANSPOSE(v);
        GD_UNROLL for (int i = 0; i < N(lanes); ++i)
            square[i] = v[i];
    }
}

/* Pairs of a deep call, filled up to whole vectors. */
static ptrdiff_t N(pairs)(const thin_plan *plan)
{
    return (plan->few.count * plan->many.count + N(lanes) - 1) / N(lanes) * N(lanes);
}

/* Joins a fold's sums of two rows of A with two of B to their totals, which begin with `first`. */
GD_INLINE void N(add_fold)(const gd_metric terms, const V *const *a, const V *const *b, bool first,
                           V *const *totals)
{
    V acc[2][2] = {{{0}}};
    GD_UNROLL for (int k = 0; k < GD_FOLD; ++k) GD_UNROLL
        for (int i = 0; i < 2; ++i) GD_UNROLL
            for (int j = 0; j < 2; ++j)
                acc[i][j] = PICK(TERM, terms, acc[i][j], a[i][k], b[j][k]);
    GD_UNROLL for (int i = 0; i < 2; ++i) GD_UNROLL
        for (int j = 0; j < 2; ++j)
            totals[i][j] = first ? acc[i][j] : PICK(JOIN, terms, totals[i][j], acc[i][j]);
}

/* The sums of all pairs over groups [group, group + lanes), into sums[group][pair]. */
GD_INLINE void N(chunk)(const gd_metric terms, const thin_plan *plan, ptrdiff_t group, V *own,
                        T *sums)
{
    const ptrdiff_t m = plan->few.count, n = plan->many.count, d = plan->d, cols = n + n % 2;
    const ptrdiff_t pairs = N(pairs)(plan);
    V *const a = own, *const b = a + m * GD_FOLD, *const totals = b + n * GD_FOLD;
    for (ptrdiff_t fold = 0; fold < GD_GROUP && group * GD_GROUP + fold < d; fold += GD_FOLD) {
        const ptrdiff_t k = group * GD_GROUP + fold;
        for (ptrdiff_t i = 0; i < m; ++i)
            N(take_fold)(N(row)(&plan->few, i), k, d, a + i * GD_FOLD);
        for (ptrdiff_t j = 0; j < n; ++j)
            N(take_fold)(N(row)(&plan->many, j), k, d, b + j * GD_FOLD);
        for (ptrdiff_t i = 0; i < m; i += 2)
            for (ptrdiff_t j = 0; j < n; j += 2) { /* the last row stands in for one beyond */
                const V *const of_a[] = {a + i * GD_FOLD, a + (i + (i + 1 < m)) * GD_FOLD};
                const V *const of_b[] = {b + j * GD_FOLD, b + (j + (j + 1 < n)) * GD_FOLD};
                V *const at[] = {totals + i * cols + j, totals + (i + 1) * cols + j};
                N(add_fold)(terms, of_a, of_b, fold == 0, at);
            }
    }
    for (ptrdiff_t i = 0; i < m; ++i)
        for (ptrdiff_t j = 0; j < n; ++j)
            for (int lane = 0; lane < N(lanes); ++lane)
                sums[(group + lane) * pairs + i * n + j] = totals[i * cols + j][lane];
    for (int lane = 0; lane < N(lanes); ++lane)
        for (ptrdiff_t beyond = m * n; beyond < pairs; ++beyond)
            sums[(group + lane) * pairs + beyond] = 1;
}

/* The distances of all pairs from the sums of their groups. */
GD_INLINE void N(join_groups)(const gd_metric terms, const thin_plan *plan, const T *sums)
{
    const gd_metric metric = plan->metric;
    const ptrdiff_t m = plan->few.count, n = plan->many.count;
    const ptrdiff_t groups = (plan->d + GD_GROUP - 1) / GD_GROUP, stride = N(pairs)(plan);
    for (ptrdiff_t pair = 0; pair < m * n; pair += N(lanes)) {
        T found[N(lanes)];
        V sum = gd_load(sums + pair);
        for (ptrdiff_t g = 1; g < groups; ++g)
            sum = PICK(JOIN, terms, sum, gd_load(sums + g * stride + pair));
        const bool lost = N(any_lost)(metric, &sum, 1);
        gd_store(found, lost ? sum : N(finish)(metric, sum));
        for (ptrdiff_t p = pair; p < m * n && p < pair + N(lanes); ++p) {
            const ptrdiff_t i = p / n, j = p % n;
            T *const to = (T *)plan->out + i * plan->few_stride + j * plan->many_stride;
            *to = lost ? N(recompute)(metric, found[p - pair], N(row)(&plan->few, i),
                                      N(row)(&plan->many, j), plan->d)
                       : found[p - pair];
        }
    }
}

typedef void (*N(chunk_fn))(const thin_plan *plan, ptrdiff_t group, V *own, T *sums);
typedef void (*N(join_fn))(const thin_plan *plan, const T *sums);
#define DEFINE(terms)                                                                     \
    static void N(chunk_##terms)(const thin_plan *plan, ptrdiff_t group, V *own, T *sums) \
    {                                                                                     \
        N(chunk)(terms, plan, group, own, sums);                                          \
    }                                                                                     \
    static void N(join_##terms)(const thin_plan *plan, const T *sums)                     \
    {                                                                                     \
        N(join_groups)(terms, plan, sums);                                                \
    }
FOR_TERMS(DEFINE)
#define ENTRIES(terms) [terms] = {N(chunk_##terms), N(join_##terms)},
static const struct {
    N(chunk_fn) chunk;
    N(join_fn) join;
} N(deep_of)[GD_METRIC_COUNT] = {FOR_TERMS(ENTRIES)};
#undef DEFINE
#undef ENTRIES

/* Groups are taken by as many as a vector has lanes. */
static ptrdiff_t N(chunks)(const thin_plan *plan)
{
    return (plan->d + N(lanes) * GD_GROUP - 1) / (N(lanes) * GD_GROUP);
}

static ptrdiff_t N(sums_bytes)(const thin_plan *plan)
{
    return N(chunks)(plan) * N(lanes) * N(pairs)(plan) * (ptrdiff_t)sizeof(T);
}

/* A thread's folds and totals. */
static ptrdiff_t N(own_bytes)(const thin_plan *plan)
{
    const ptrdiff_t m = plan->few.count, n = plan->many.count;
    return ((m + n) * GD_FOLD + (m + m % 2) * (n + n % 2)) * (ptrdiff_t)sizeof(V);
}

static size_t N(deep_bytes)(const thin_plan *plan)
{
    return (size_t)(N(sums_bytes)(plan) + plan->threads * N(own_bytes)(plan));
}

/* A deep call: the sums of all chunks, then each member's folds and totals. */
typedef struct N(deep_call) {
    const thin_plan *plan;
    T *sums;
    char *own;
    ptrdiff_t own_bytes;
} N(deep_call);

static void N(some_chunks)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const N(deep_call) *const call = context;
    const N(chunk_fn) chunk = N(deep_of)[call->plan->terms].chunk;
    for (ptrdiff_t c = first; c < last; ++c)
        chunk(call->plan, c * N(lanes), (V *)(call->own + member * call->own_bytes), call->sums);
}

static void N(deep)(thin_plan *plan, void *workspace, size_t bytes)
{
    const ptrdiff_t own_bytes = N(own_bytes)(plan);
    N(deep_call) all = {plan, workspace, (char *)workspace + N(sums_bytes)(plan), own_bytes};
    const int threads =
        gd_team_that_fits(bytes, (size_t)N(sums_bytes)(plan), (size_t)own_bytes, plan->threads);
    gd_team_run(threads, N(chunks)(plan), 0, N(some_chunks), &all);
    N(deep_of)[plan->terms].join(plan, all.sums);
}

#undef T
#undef V
#undef N
#undef TRANSPOSE
#undef TRANSPOSE_HALVES
#undef SEPARATE
#undef GUARDED
