/* apsp_lanes_body.h: the part of apsp_lanes.c that depends on the element type. Included once per
 * type, with T the type, V its vector, M a vector of its comparisons, P the vector of predecessors
 * beside it, N(x) the name x with a suffix, SQUARE and TAGS the vectors of lengths and of
 * predecessors that TRANSPOSE and TRANSPOSE_TAGS turn, LOAD_TAGS, STORE_TAGS and SPLAT_TAG to get
 * predecessors in and out of P, NONE what stands for no edge, NO_PATH the least value that stands
 * for no path, LARGEST the largest weight, FLOATING whether there are others than numbers, and then
 * WHOLE_FROM, from where on all are whole. */

enum { N(lanes) = sizeof(V) / sizeof(T) };

/* Graphs in lanes: `width` rows and columns of vectors, element [i, j] of `count` graphs at
 * d[(i * width + j) * lanes]; predecessors alike, or NULL; and the pivots' rows as they were at
 * their stages. */
typedef struct N(group) {
    const gd_apsp_batch *call;
    const gd_batch_graph *graphs;
    ptrdiff_t count, width;
    T *d, *rows;
    int32_t *p, *row_tags;
    bool odd[N(lanes)]; /* a weight is not what the type takes */
} N(group);

GD_INLINE V N(pick)(M mask, V yes, V no) { return (V)(((M)yes & mask) | ((M)no & ~mask)); }

/* ---------------------------------------------------------------- weights in */

/* `count` weights of another type than T, as T has them: no edges where they are `absent` or not
 * finite, and after them. Nothing is jumped over, since nobody can guess where edges are. */
GD_INLINE void N(convert)(const gd_matrix *w, ptrdiff_t at, ptrdiff_t count, bool one_is,
                          double absent, T *to, bool *odd)
{
    enum { PART = sizeof(gd_vf64) / sizeof(double) };
    const gd_vf64 most = gd_splat((double)LARGEST);
    const gd_vf64 none = gd_splat(one_is ? absent : (double)NAN);
    double given[N(lanes)];
    gd_vi64 bad = {0};
    for (ptrdiff_t c = count; c < N(lanes); ++c)
        given[c] = (double)INFINITY;
    switch (w->dtype) {
        case GD_F32:
            for (ptrdiff_t c = 0; c < count; ++c)
                given[c] = (double)((const float *)w->data)[at + c];
            break;
        case GD_F64:
            for (ptrdiff_t c = 0; c < count; ++c)
                given[c] = ((const double *)w->data)[at + c];
            break;
        default:
            for (ptrdiff_t c = 0; c < count; ++c)
                given[c] = (double)((const int32_t *)w->data)[at + c];
    }
    GD_UNROLL for (int c = 0; c < N(lanes); c += PART) {
        const gd_vf64 x = gd_load(given + c), clipped = gd_max(gd_min(x, most), -most);
        const gd_vi64 edge = (gd_abs(x) <= gd_splat(DBL_MAX)) & (x != none);
        const gd_vf64 far = gd_splat((double)NONE);
        const gd_vf64 held = (gd_vf64)((edge & (gd_vi64)clipped) | (~edge & (gd_vi64)far));
        gd_store(given + c, held);
        bad |= edge & (held != x);
    }
    for (int c = 0; c < N(lanes); ++c)
        to[c] = (T)given[c];
    for (int c = 0; c < N(lanes) && !FLOATING; c += PART) {
        double whole[PART];
        for (int e = 0; e < PART; ++e)
            whole[e] = (double)to[c + e];
        bad |= gd_load(whole) != gd_load(given + c);
    }
    *odd |= gd_any((gd_vi32)bad);
}

/* `count` weights from element `at` on, no edges after them. */
GD_INLINE V N(take)(const gd_graph *graph, ptrdiff_t at, ptrdiff_t count, bool *odd)
{
    const gd_matrix *w = &graph->weights;
    const double absent = graph->no_edge == GD_NO_EDGE_ZERO ? 0.0 : graph->sentinel;
    const bool one_is = graph->no_edge != GD_NO_EDGE_INFINITE;
    V x;
    if (w->dtype == DTYPE && count == N(lanes)) {
        x = gd_load((const T *)w->data + at);
    }
    else {
        T some[N(lanes)];
        bool unasked = false;
        bool *const wrong = graph->unweighted ? &unasked : odd; /* it is an edge all the same */
        if (count == N(lanes))                                  /* a constant */
            N(convert)(w, at, N(lanes), one_is, absent, some, wrong);
        else
            N(convert)(w, at, count, one_is, absent, some, wrong);
        x = gd_load(some);
        const M there = (M)(x != gd_splat((T)NONE));
        return graph->unweighted ? N(pick)(there, gd_splat((T)1), x) : x;
    }
    const bool named = one_is && absent >= -(double)LARGEST && absent <= (double)LARGEST &&
                       (double)(T)absent == absent;
    M edge = named ? (M)(x != gd_splat((T)absent)) : ~(M){0};
#if FLOATING
    edge &= (M)(gd_abs(x) <= gd_splat((T)LARGEST));
#else
    const V most = gd_splat((T)LARGEST);
    *odd |= gd_any(edge & ((x > most) | (x < -most)));
#endif
    return N(pick)(edge, graph->unweighted ? gd_splat((T)1) : x, gd_splat((T)NONE));
}

static void N(gather)(N(group) * g)
{
    const gd_apsp_batch *const call = g->call;
    const ptrdiff_t width = g->width;
    for (ptrdiff_t i = 0; i < width; ++i)
        for (ptrdiff_t j = 0; j < width; j += N(lanes)) {
            SQUARE square[N(lanes)];
            for (int lane = 0; lane < N(lanes); ++lane) {
                const gd_batch_graph *const graph = &g->graphs[lane];
                ptrdiff_t count = 0, at = 0;
                if (lane < g->count && i < graph->n) {
                    count = gd_least(N(lanes), gd_most(graph->n - j, 0));
                    at = graph->at + i * (call->pitch > 0 ? call->pitch : graph->n) + j;
                }
                square[lane] = (SQUARE)N(take)(&call->graph, at, count, &g->odd[lane]);
            }
            TRANSPOSE(square);
            for (ptrdiff_t e = 0; e < gd_least(N(lanes), width - j); ++e)
                gd_store(g->d + (i * width + j + e) * N(lanes), (V)square[e]);
        }
}

/* Makes matrices of lists of edges. Where an edge is given twice, the lightest counts. */
static void N(scatter)(N(group) * g)
{
    const gd_apsp_batch *const call = g->call;
    gd_graph one = call->graph;
    one.no_edge = GD_NO_EDGE_INFINITE;
    for (ptrdiff_t i = 0; i < g->width * g->width; ++i)
        gd_store(g->d + i * N(lanes), gd_splat((T)NONE));
    for (ptrdiff_t lane = 0; lane < g->count; ++lane) {
        const gd_batch_graph *const graph = &g->graphs[lane];
        for (ptrdiff_t e = graph->first_edge; e < graph->last_edge; ++e) {
            T *const to = g->d + (call->tails[e] * g->width + call->heads[e]) * N(lanes) + lane;
            const T x =
                call->graph.weights.data == NULL ? (T)1 : N(take)(&one, e, 1, &g->odd[lane])[0];
            *to = x < *to ? x : *to;
        }
    }
}

/* The better of the edges there and back. Where the larger is better they are not negated yet. */
static void N(mirror)(N(group) * g)
{
    const bool flip = g->call->graph.flip;
    for (ptrdiff_t i = 0; i < g->width; ++i)
        for (ptrdiff_t j = 0; j < i; ++j) {
            T *const there = g->d + (i * g->width + j) * N(lanes);
            T *const back = g->d + (j * g->width + i) * N(lanes);
            const V x = gd_load(there), y = gd_load(back), none = gd_splat((T)NONE);
            V best = gd_min(x, y);
            if (flip) {
                const V larger = gd_max(x, y);
                best = N(pick)((M)(larger == none), best, larger);
            }
            gd_store(there, best);
            gd_store(back, best);
        }
}

/* What the weights are, in each lane; they become what kernels see (gd_apsp). */
static void N(prepare)(N(group) * g)
{
    const gd_apsp_batch *const call = g->call;
    const V none = gd_splat((T)NONE), zero = {0};
    V lowest = {0}, highest = {0};
    M fractions = {0};
    for (ptrdiff_t i = 0; i < g->width * g->width; ++i) {
        T *const at = g->d + i * N(lanes);
        V x = gd_load(at);
        const M edge = (M)(x != none);
        lowest = gd_min(x, lowest);
        highest = gd_max((V)((M)x & edge), highest);
#if FLOATING
        const V shift = gd_splat((T)WHOLE_FROM), size = gd_min(gd_abs(x), shift);
        fractions |= (M)(((size + shift) - shift) != size);
#endif
        x = call->graph.flip ? N(pick)(edge, zero - x, none) : x + zero;
        gd_store(at, x);
    }
    for (ptrdiff_t lane = 0; lane < g->count; ++lane) {
        gd_batch_facts *const facts = &call->facts[g->graphs[lane].index];
        *facts = (gd_batch_facts){
            .max_abs = fmax((double)highest[lane], -(double)lowest[lane]),
            .negative = lowest[lane] < 0,
            /* what was rounded on the way here need not have been whole */
            .fractional = fractions[lane] != 0 ||
                          (FLOATING && sizeof(T) == 4 && call->graph.weights.dtype == GD_F64),
            .alone = g->odd[lane],
        };
    }
    for (ptrdiff_t i = 0; i < g->width; ++i) {
        T *const at = g->d + (i * g->width + i) * N(lanes);
        const V least = gd_splat((T)(-NONE));
        gd_store(at, call->semiring == GD_MIN_MAX ? least : gd_min(gd_load(at), zero));
    }
    for (ptrdiff_t i = 0; i < g->width * g->width && g->p != NULL; ++i) {
        const ptrdiff_t row = i / g->width;
        V best = none;
        P tag = SPLAT_TAG(GD_NO_PREDECESSOR);
        if (i % g->width != row)
            gd_take_less(&best, &tag, gd_load(g->d + i * N(lanes)), SPLAT_TAG((int32_t)row));
        STORE_TAGS(g->p + i * N(lanes), tag);
    }
}

/* ---------------------------------------------------------------- the loop */

/* Offers the records of `pivots` stages to a row, whose columns from `pivot` on are theirs: what it
 * holds there at each stage comes first. Compiled with all but the addresses known. */
GD_INLINE void N(offer)(const N(group) * g, ptrdiff_t row, ptrdiff_t pivot, const int first,
                        const int pivots, const bool adds, const bool tags)
{
    const ptrdiff_t width = g->width;
    T *const d = g->d + row * width * N(lanes);
    int32_t *const p = tags ? g->p + row * width * N(lanes) : NULL;
    const T *const rows = g->rows + first * width * N(lanes);
    const int32_t *const row_tags = tags ? g->row_tags + first * width * N(lanes) : NULL;
    V held[PIVOTS];
    GD_UNROLL for (int k = 0; k < pivots; ++k) {
        V x = gd_load(d + (pivot + k) * N(lanes));
        GD_UNROLL for (int q = 0; q < k; ++q) {
            const V other = gd_load(rows + (q * width + pivot + k) * N(lanes));
            x = gd_min(adds ? held[q] + other : gd_max(held[q], other), x);
        }
        held[k] = x;
    }
    for (ptrdiff_t j = 0; j < width; ++j) {
        V x = gd_load(d + j * N(lanes));
        P tag = {0};
        if (tags)
            tag = LOAD_TAGS(p + j * N(lanes));
        GD_UNROLL for (int k = 0; k < pivots; ++k) {
            const V other = gd_load(rows + (k * width + j) * N(lanes));
            const V length = adds ? held[k] + other : gd_max(held[k], other);
            if (tags)
                gd_take_less(&x, &tag, length, LOAD_TAGS(row_tags + (k * width + j) * N(lanes)));
            else
                x = gd_min(length, x);
        }
        gd_store(d + j * N(lanes), x);
        if (tags)
            STORE_TAGS(p + j * N(lanes), tag);
    }
}

GD_INLINE void N(close_of)(const N(group) * g, const bool adds, const bool tags)
{
    const ptrdiff_t width = g->width;
    const size_t row_size = (size_t)width * N(lanes);
    for (ptrdiff_t pivot = 0; pivot < width; pivot += PIVOTS) {
        const int pivots = (int)gd_least(PIVOTS, width - pivot);
        for (int k = 0; k < pivots; ++k) {
            const ptrdiff_t row = pivot + k;
            for (int q = 0; q < k; ++q)
                N(offer)(g, row, pivot + q, q, 1, adds, tags);
            memcpy(g->rows + (size_t)k * row_size, g->d + (size_t)row * row_size,
                   row_size * sizeof(T));
            if (tags)
                memcpy(g->row_tags + (size_t)k * row_size, g->p + (size_t)row * row_size,
                       row_size * sizeof(int32_t));
        }
        for (int k = 0; k < pivots; ++k)
            for (int q = k + 1; q < pivots; ++q)
                N(offer)(g, pivot + k, pivot + q, q, 1, adds, tags);
        for (ptrdiff_t row = 0; row < width; ++row) {
            if (row == pivot)
                row += pivots;
            if (row < width && pivots == PIVOTS)
                N(offer)(g, row, pivot, 0, PIVOTS, adds, tags);
            for (int q = 0; row < width && pivots < PIVOTS && q < pivots; ++q)
                N(offer)(g, row, pivot + q, q, 1, adds, tags);
        }
    }
}

static void N(close)(const N(group) * g)
{
    const bool adds = g->call->semiring == GD_MIN_PLUS;
    if (g->p != NULL)
        adds ? N(close_of)(g, true, true) : N(close_of)(g, false, true);
    else
        adds ? N(close_of)(g, true, false) : N(close_of)(g, false, false);
}

/* ---------------------------------------------------------------- lengths out */

static V N(delivered)(const N(group) * g, ptrdiff_t i, ptrdiff_t j)
{
    const gd_apsp_batch *const call = g->call;
    const V x = gd_load(g->d + (i * g->width + j) * N(lanes)), zero = {0};
    const bool flip = call->graph.flip;
    if (!FLOATING && call->semiring == GD_MIN_MAX && i == j)
        return gd_splat((T)(flip ? INT32_MAX : INT32_MIN));
    return N(pick)((M)(x < gd_splat((T)NO_PATH)), flip ? zero - x : x,
                   gd_splat((T)call->unreachable));
}

static TAGS N(delivered_tags)(const N(group) * g, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t at = (i * g->width + j) * N(lanes);
    V best = gd_splat((T)NO_PATH);
    P tag = SPLAT_TAG(GD_NO_PREDECESSOR);
    int32_t some[N(lanes)];
    TAGS tags;
    gd_take_less(&best, &tag, gd_load(g->d + at), LOAD_TAGS(g->p + at));
    STORE_TAGS(some, tag);
    memcpy(&tags, some, sizeof tags);
    return tags;
}

/* What a padded graph has beyond its nodes. */
static void N(fill_outside)(const gd_apsp_batch *call, const gd_batch_graph *graph)
{
    for (ptrdiff_t i = 0; i < call->pitch && graph->n < call->pitch; ++i)
        for (ptrdiff_t j = i < graph->n ? graph->n : 0; j < call->pitch; ++j) {
            ((T *)call->out)[graph->at + i * call->pitch + j] = (T)call->unreachable;
            if (call->pred != NULL)
                call->pred[graph->at + i * call->pitch + j] = GD_NO_PREDECESSOR;
        }
}

static void N(deliver)(const N(group) * g)
{
    const gd_apsp_batch *const call = g->call;
    const ptrdiff_t width = g->width;
    for (ptrdiff_t i = 0; i < width; ++i)
        for (ptrdiff_t j = 0; j < width; j += N(lanes)) {
            SQUARE square[N(lanes)];
            TAGS tags[N(lanes)];
            for (ptrdiff_t e = 0; e < N(lanes); ++e) {
                square[e] = (SQUARE)N(delivered)(g, i, gd_least(j + e, width - 1));
                if (g->p != NULL)
                    tags[e] = N(delivered_tags)(g, i, gd_least(j + e, width - 1));
            }
            TRANSPOSE(square);
            if (g->p != NULL)
                TRANSPOSE_TAGS(tags);
            for (ptrdiff_t lane = 0; lane < g->count; ++lane) {
                const gd_batch_graph *const graph = &g->graphs[lane];
                const ptrdiff_t inside = i < graph->n ? gd_most(graph->n - j, 0) : 0;
                const size_t count = (size_t)gd_least(N(lanes), inside);
                const ptrdiff_t at = graph->at + i * (call->pitch > 0 ? call->pitch : graph->n) + j;
                if (count == N(lanes))
                    memcpy((T *)call->out + at, &square[lane], sizeof(V));
                else
                    memcpy((T *)call->out + at, &square[lane], count * sizeof(T));
                if (g->p != NULL)
                    memcpy(call->pred + at, &tags[lane], count * sizeof(int32_t));
            }
        }
    for (ptrdiff_t lane = 0; lane < g->count; ++lane) {
        const gd_batch_graph *const graph = &g->graphs[lane];
        gd_batch_facts *const facts = &call->facts[graph->index];
        for (ptrdiff_t i = 0; i < graph->n && call->semiring == GD_MIN_PLUS; ++i)
            facts->on_cycle |= g->d[(i * width + i) * N(lanes) + lane] < 0;
        N(fill_outside)(call, graph);
    }
}

/* ---------------------------------------------------------------- groups */

typedef struct N(job) {
    gd_apsp_batch *call;
    ptrdiff_t groups;
    gd_passed passed;
    gd_error *err;
} N(job);

/* Elements of a group's matrix and of the records, in T and in int32. */
static size_t N(elements)(ptrdiff_t width) { return (size_t)((width + PIVOTS) * width * N(lanes)); }

static size_t N(bytes)(const gd_apsp_batch *call, ptrdiff_t width)
{
    return N(elements)(width) * (sizeof(T) + (call->pred != NULL ? sizeof(int32_t) : 0));
}

static void N(do_group)(const gd_apsp_batch *call, ptrdiff_t first, void *memory)
{
    const gd_batch_graph *const graphs = call->graphs + first;
    N(group)
    g = {.call = call, .graphs = graphs, .count = gd_least(N(lanes), call->count - first)};
    g.width = graphs[g.count - 1].n;
    if (g.width > GD_LANES_MOST || (g.width > FEW && SPARE * g.count < N(lanes))) {
        for (ptrdiff_t i = 0; i < g.count; ++i)
            call->facts[graphs[i].index] = (gd_batch_facts){.alone = true};
        return;
    }
    g.d = memory;
    g.rows = g.d + g.width * g.width * N(lanes);
    if (call->pred != NULL) {
        g.p = (int32_t *)(g.d + N(elements)(g.width));
        g.row_tags = g.p + g.width * g.width * N(lanes);
    }
    if (call->tails != NULL)
        N(scatter)(&g);
    else
        N(gather)(&g);
    if (!call->graph.directed)
        N(mirror)(&g);
    N(prepare)(&g);
    N(close)(&g);
    N(deliver)(&g);
}

/* The largest come first, lest one is left over in the end. */
static void N(do_groups)(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    N(job) *const job = context;
    const gd_apsp_batch *const call = job->call;
    const size_t bytes = call->launch.workspace_bytes / (size_t)call->members;
    for (ptrdiff_t task = begin; task < end; ++task) {
        const double done = (double)task / (double)job->groups;
        if (gd_goes_on(&call->launch, done, member, &job->passed, job->err))
            N(do_group)(call, (job->groups - 1 - task) * N(lanes),
                        (char *)call->launch.workspace + (size_t)member * bytes);
    }
}

static gd_status N(run)(gd_apsp_batch *call, gd_error *err)
{
    N(job) job = {call, gd_ceil_div(call->count, N(lanes)), GD_OK, err};
    if (call->launch.sizing) {
        ptrdiff_t width = 0;
        for (ptrdiff_t i = call->count - 1; i >= 0 && width == 0; --i)
            width = call->graphs[i].n <= GD_LANES_MOST ? call->graphs[i].n : 0;
        call->members = (int)gd_most(1, gd_least(gd_team_size(), job.groups));
        call->launch.workspace_bytes =
            (size_t)call->members * ((N(bytes)(call, width) + 63) / 64 * 64);
        return GD_OK;
    }
    gd_team_run(call->members, job.groups, 1, N(do_groups), &job);
    return job.passed;
}
