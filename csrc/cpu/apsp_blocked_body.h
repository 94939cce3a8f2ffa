/* apsp_blocked_body.h: the part of apsp_blocked.c that depends on the element type. Included once
 * per type and semiring, with T the type, V its vector, P the vector of integers as wide, N(x) the
 * name x with a suffix, LOAD_TAGS, STORE_TAGS and SPLAT_TAG to get predecessors in and out of P,
 * NO_PATH the least value that stands for no path, PUT(a, b, one) the length of two paths put
 * together, and PUT_EACH(a, b, one, shared) the same with a in memory. It undefines N, PUT and
 * PUT_EACH. */

enum { N(lanes) = sizeof(V) / sizeof(T), N(width) = NV * N(lanes) };
_Static_assert(N(width) % MR == 0 && N(width) % MR_TAGS == 0, "strips are whole micro-tiles");
_Static_assert(BLOCK_SMALL % N(width) == 0 && BLOCK_LARGE % N(width) == 0,
               "blocks are whole strips");

/* A place in a matrix: lengths, and predecessors laid out alike (or NULL). */
typedef struct N(part) {
    T *d;
    int32_t *p;
    ptrdiff_t stride;
} N(part);

GD_INLINE N(part) N(at)(const N(part) x, ptrdiff_t row, ptrdiff_t column)
{
    const ptrdiff_t i = row * x.stride + column;
    return (N(part)){x.d + i, x.p ? x.p + i : NULL, x.stride};
}

/* ---------------------------------------------------------------- the micro-tile */

/* In registers. Functions that take `rows` and `tags` are compiled with both known. */
typedef struct N(tile) {
    V d[MR][NV];
    P p[MR][NV];
} N(tile);

/* Also asks for the tile to the right, which is next in these rows: memory would not keep up. */
GD_INLINE void N(load)(N(tile) * x, const N(part) c, const int rows, const gd_tags tags)
{
    FOR_TILE (r, v) {
        const ptrdiff_t i = r * c.stride + v * N(lanes);
        x->d[r][v] = gd_load(c.d + i);
        fetch(c.d + i, sizeof(T) * N(width));
        if (tags) {
            x->p[r][v] = LOAD_TAGS(c.p + i);
            fetch(c.p + i, sizeof(int32_t) * N(width));
        }
    }
}

GD_INLINE void N(store)(const N(tile) * x, const N(part) c, const int rows, const gd_tags tags)
{
    FOR_TILE (r, v) {
        const ptrdiff_t i = r * c.stride + v * N(lanes);
        gd_store(c.d + i, x->d[r][v]);
        if (tags)
            STORE_TAGS(c.p + i, x->p[r][v]);
    }
}

/* Coefficients of pivot k. As `at`, but what is known when compiling is not asked in the loop. */
GD_INLINE N(part) N(row_of)(const N(part) a, ptrdiff_t k, const gd_tags tags)
{
    return (N(part)){a.d + k * a.stride, tags == OF_COEFFICIENT ? a.p + k * a.stride : NULL, 0};
}

/* Offers row b of a pivot to every row r of the tile but `except`, with a[r] put before it. */
GD_INLINE void N(offer)(N(tile) * x, const N(part) a, const V b[NV], const P b_tags[NV],
                        const V one, const int except, const bool shared, const int rows,
                        const gd_tags tags)
{
    FOR_TILE (r, v) {
        const V length = PUT_EACH(a.d + r, b[v], one, shared);
        if (r == except)
            continue;
        if (tags == NO_TAGS)
            x->d[r][v] = gd_min(length, x->d[r][v]);
        else
            gd_take_less(&x->d[r][v], &x->p[r][v], length,
                         tags == OF_ROW ? b_tags[v] : SPLAT_TAG(a.p[r]));
    }
}

/* c[r, j] = min(c[r, j], PUT(a[k, r], b[k, j])) over the pivots from <= k < to. */
GD_INLINE void N(product_of)(const N(part) c, const N(part) a, const N(part) b, ptrdiff_t from,
                             ptrdiff_t to, const bool shared, const int rows, const gd_tags tags)
{
    N(tile) x;
    V one = gd_splat((T)1);
    GD_OPAQUE(one);
    N(load)(&x, c, rows, tags);
    for (ptrdiff_t k = from; k < to; ++k) {
        V row[NV];
        P row_tags[NV] = {{0}};
        GD_UNROLL for (int v = 0; v < NV; ++v) {
            row[v] = gd_load(b.d + k * N(width) + v * N(lanes));
            if (tags == OF_ROW)
                row_tags[v] = LOAD_TAGS(b.p + k * N(width) + v * N(lanes));
        }
        N(offer)(&x, N(row_of)(a, k, tags), row, row_tags, one, -1, shared, rows, tags);
    }
    N(store)(&x, c, rows, tags);
}

static void N(product)(const N(part) c, const N(part) a, const N(part) b, ptrdiff_t from,
                       ptrdiff_t to, const gd_tags tags)
{
    if (from < to && gd_pipes_are_shared())
        WITH_TAGS(N(product_of), c, a, b, from, to, true);
    else if (from < to)
        WITH_TAGS(N(product_of), c, a, b, from, to, false);
}

/* Relaxes a tile whose own rows are the pivots. Each goes to `snapshot` at its own stage, when
 * it holds still, and is then offered to the others. */
GD_INLINE void N(triangle_of)(const N(part) c, const N(part) a, const N(part) snapshot,
                              const int rows, const gd_tags tags)
{
    N(tile) x;
    V one = gd_splat((T)1);
    GD_OPAQUE(one);
    N(load)(&x, c, rows, tags);
    GD_UNROLL for (int k = 0; k < rows; ++k) {
        V row[NV];
        P row_tags[NV] = {{0}};
        GD_UNROLL for (int v = 0; v < NV; ++v) {
            row[v] = x.d[k][v];
            gd_store(snapshot.d + k * N(width) + v * N(lanes), row[v]);
            if (tags == OF_ROW) {
                row_tags[v] = x.p[k][v];
                STORE_TAGS(snapshot.p + k * N(width) + v * N(lanes), row_tags[v]);
            }
        }
        N(offer)(&x, N(row_of)(a, k, tags), row, row_tags, one, k, false, rows, tags);
    }
    N(store)(&x, c, rows, tags);
}

static void N(triangle)(const N(part) c, const N(part) a, const N(part) snapshot,
                        const gd_tags tags)
{
    WITH_TAGS(N(triangle_of), c, a, snapshot);
}

/* ---------------------------------------------------------------- the phases */

/* Phase 1: the diagonal tile in sequence, its rows and columns recorded stage by stage. */
static void N(close_diagonal)(const N(part) c, const N(part) rows, const N(part) columns,
                              ptrdiff_t size, ptrdiff_t pivots)
{
    for (ptrdiff_t k = 0; k < size; ++k) {
        const N(part) row = N(at)(rows, k, 0), ck = N(at)(c, k, 0);
        memcpy(row.d, ck.d, (size_t)size * sizeof(T));
        if (c.p)
            memcpy(row.p, ck.p, (size_t)size * sizeof(int32_t));
        for (ptrdiff_t i = 0; i < size; ++i)
            columns.d[k * columns.stride + i] = c.d[i * c.stride + k];
        for (ptrdiff_t i = 0; i < size && k < pivots; ++i) {
            const N(part) ci = N(at)(c, i, 0);
            const V a = gd_splat(ci.d[k]), one = gd_splat((T)1);
            for (ptrdiff_t j = 0; j < size; j += N(lanes)) {
                V x = gd_load(ci.d + j);
                if (c.p) {
                    P tags = LOAD_TAGS(ci.p + j);
                    gd_take_less(&x, &tags, PUT(a, gd_load(row.d + j), one), LOAD_TAGS(row.p + j));
                    STORE_TAGS(ci.p + j, tags);
                }
                else
                    x = gd_min(PUT(a, gd_load(row.d + j), one), x);
                gd_store(ci.d + j, x);
            }
        }
    }
}

/* Phase 2 on a strip whose rows are the block's pivots; a[k, i] is what the diagonal tile held in
 * row i, column k at stage k. Tile by tile the rows catch up with the pivots above and pass their
 * own, which leaves the snapshots complete; then they take the pivots below. */
static void N(close_strip)(const N(part) c, const N(part) a, const N(part) snapshot, ptrdiff_t size,
                           ptrdiff_t pivots, const gd_tags tags)
{
    const int rows = tags ? MR_TAGS : MR;
    for (ptrdiff_t i = 0; i < size; i += rows) {
        N(product)(N(at)(c, i, 0), N(at)(a, 0, i), snapshot, 0, gd_least(i, pivots), tags);
        N(triangle)(N(at)(c, i, 0), N(at)(a, i, i), N(at)(snapshot, i, 0), tags);
    }
    for (ptrdiff_t i = 0; i < size; i += rows)
        N(product)(N(at)(c, i, 0), N(at)(a, 0, i), snapshot, i + rows, pivots, tags);
}

/* Whether any of it is a path: strips of a sparse graph start without. The first row mostly tells.
 */
static bool N(reached)(const N(part) c, ptrdiff_t rows)
{
    for (ptrdiff_t i = 0; i < rows; ++i)
        for (ptrdiff_t j = 0; j < N(width); ++j)
            if (c.d[i * c.stride + j] < NO_PATH)
                return true;
    return false;
}

static bool N(close_row_strip)(const N(part) c, const N(part) columns, const N(part) snapshot,
                               ptrdiff_t size, ptrdiff_t pivots)
{
    if (!N(reached)(c, pivots))
        return false;
    N(close_strip)(c, columns, snapshot, size, pivots, c.p ? OF_ROW : NO_TAGS);
    return true;
}

static void N(transpose)(const N(part) to, const N(part) from, ptrdiff_t rows, ptrdiff_t columns)
{
    for (ptrdiff_t i = 0; i < rows; ++i)
        for (ptrdiff_t j = 0; j < columns; ++j)
            to.d[j * to.stride + i] = from.d[i * from.stride + j];
    for (ptrdiff_t i = 0; i < rows && to.p; ++i)
        for (ptrdiff_t j = 0; j < columns; ++j)
            to.p[j * to.stride + i] = from.p[i * from.stride + j];
}

/* A strip of the column panel, turned over, is one of the row panel, but for the predecessors: they
 * lie along the diagonal tile's rows. Its snapshots come out as phase 3 reads them. */
static bool N(close_column_strip)(const N(part) c, const N(part) rows, const N(part) snapshot,
                                  ptrdiff_t size, ptrdiff_t pivots)
{
    T d[BLOCK_LARGE * N(width)];
    int32_t p[BLOCK_LARGE * N(width)];
    const N(part) turned = {d, c.p ? p : NULL, N(width)};
    N(transpose)(turned, c, N(width), size);
    if (!N(reached)(turned, pivots))
        return false;
    N(close_strip)(turned, rows, snapshot, size, pivots, c.p ? OF_COEFFICIENT : NO_TAGS);
    N(transpose)(c, turned, size, N(width));
    return true;
}

/* Phase 3: strips of a row of tiles times strips of columns. */
static void N(close_rest)(const N(part) c, const N(part) a, const N(part) b, const bool *reached,
                          ptrdiff_t first, ptrdiff_t last, ptrdiff_t block, ptrdiff_t pivots)
{
    const gd_tags tags = c.p ? OF_ROW : NO_TAGS;
    const int rows = tags ? MR_TAGS : MR;
    for (ptrdiff_t j = first; j < last; ++j)
        for (ptrdiff_t r = 0; r < N(width) && reached[j]; r += rows)
            N(product)(N(at)(c, r, j * N(width)), N(at)(a, 0, r), N(at)(b, j * block, 0), 0, pivots,
                       tags);
}

/* Strip `row` right of the diagonal, turned over, becomes the column below it, as far as `end`. */
static void N(mirror)(const N(part) c, ptrdiff_t row, ptrdiff_t end)
{
    const ptrdiff_t at = row * N(width);
    for (ptrdiff_t j = at + N(width); j < end * N(width); j += N(width))
        N(transpose)(N(at)(c, j, at), N(at)(c, at, j), N(width), N(width));
}

/* A call, and the round that all members are in: pivots k and on, of the strips first and on. The
 * matrix is `down` strips high and `strips` wide, which differ where it is a band of rows. */
typedef struct N(job) {
    const gd_apsp *call;
    N(part) c, a, b, rows, columns; /* the matrix and the snapshots */
    bool *a_reached, *b_reached, half;
    ptrdiff_t block, down, strips, spans;
    ptrdiff_t k, size, pivots, first, last;
    double before, share; /* of the call's work: before this round, and in it */
    gd_passed passed;
    gd_error *err;
} N(job);

static void N(do_diagonal)(const N(job) * j)
{
    for (ptrdiff_t i = j->first; i < j->last && j->half; ++i)
        N(mirror)(j->c, i, j->last);
    N(close_diagonal)(N(at)(j->c, j->k, j->k), j->rows, j->columns, j->size, j->pivots);
    for (ptrdiff_t i = j->first; i < j->last; ++i)
        j->a_reached[i] = j->b_reached[i] = false; /* closed already */
}

static void N(do_panels)(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const N(job) *const j = context;
    (void)member;
    for (ptrdiff_t task = begin; task < end; ++task) {
        const ptrdiff_t i = task / 2, at = i * N(width);
        if ((i >= j->first && i < j->last) || (j->half && task % 2 == (i > j->first)))
            continue;
        if (task % 2)
            j->a_reached[i] = N(close_column_strip)(
                N(at)(j->c, at, j->k), j->rows, N(at)(j->a, i * j->block, 0), j->size, j->pivots);
        else
            j->b_reached[i] = N(close_row_strip)(N(at)(j->c, j->k, at), j->columns,
                                                 N(at)(j->b, i * j->block, 0), j->size, j->pivots);
    }
}

/* Rows stay together, for the caches; many threads also share out each row. */
static void N(do_rest)(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    N(job) *const j = context;
    const ptrdiff_t strips = j->strips, spans = j->spans;
    for (ptrdiff_t task = begin; task < end; ++task) {
        const ptrdiff_t i = task / spans, span = task % spans;
        const double done = j->before + j->share * (double)task / (double)(j->down * spans);
        if (gd_goes_on(&j->call->launch, done, member, &j->passed, j->err) && j->a_reached[i])
            N(close_rest)(N(at)(j->c, i * N(width), 0), N(at)(j->a, i * j->block, 0), j->b,
                          j->b_reached, gd_most(j->half ? i : 0, strips * span / spans),
                          strips * (span + 1) / spans, j->block, j->pivots);
    }
}

static void N(mirror_some)(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const N(job) *const j = context;
    (void)member;
    for (ptrdiff_t i = begin; i < end; ++i)
        N(mirror)(j->c, i, j->strips);
}

static gd_status N(run)(gd_apsp *call, gd_error *err)
{
    const ptrdiff_t n = call->n, strips = (n + N(width) - 1) / N(width), side = strips * N(width);
    const ptrdiff_t block = n < LARGE_FROM ? BLOCK_SMALL : BLOCK_LARGE;
    const size_t panel = (size_t)(side * block), square = (size_t)(block * block);
    const bool paths = call->pred != NULL, half = call->symmetric && !paths;
    if (call->launch.sizing) {
        /* Rows a multiple of 2 KiB apart share too few sets of the caches (20-40 % slower). */
        call->padded = side + (side * (ptrdiff_t)sizeof(T) % 2048 == 0 ? N(width) : 0);
        call->launch.workspace_bytes = 2 * (panel + square) * sizeof(T) +
                                       (paths ? panel + square : 0) * sizeof(int32_t) +
                                       2 * (size_t)strips * sizeof(bool);
        return GD_OK;
    }
    /* Snapshots of the column panel a and of the row panel b, strip by strip and in those pivot by
     * pivot; of the diagonal tile's rows and columns, pivot by pivot. */
    T *d = call->launch.workspace;
    int32_t *p = (int32_t *)(d + 2 * (panel + square));
    bool *a_reached = (bool *)(p + (paths ? panel + square : 0));
    const int members = n < PARALLEL_FROM ? 1 : gd_team_size();
    N(job)
    job = {
        .call = call,
        .c = {call->dist, call->pred, call->padded},
        .a = {d, NULL, N(width)},
        .b = {half ? d : d + panel, paths ? p : NULL, N(width)},
        .rows = {d + 2 * panel, paths ? p + panel : NULL, block},
        .columns = {d + 2 * panel + square, NULL, block},
        .a_reached = a_reached,
        .b_reached = half ? a_reached : a_reached + strips,
        .half = half,
        .block = block,
        .down = strips,
        .strips = strips,
        .spans = gd_least(strips, 1 + 4 * members / strips),
        .passed = GD_OK,
        .err = err,
    };
    for (; job.k < n && job.passed == GD_OK; job.k += block) {
        job.size = gd_least(block, side - job.k);
        job.pivots = gd_least(block, n - job.k);
        job.before = (double)job.k / (double)n;
        job.share = (double)job.pivots / (double)n;
        job.first = job.k / N(width);
        job.last = job.first + job.size / N(width);
        N(do_diagonal)(&job);
        gd_team_run(members, 2 * strips, 1, N(do_panels), &job);
        gd_team_run(members, strips * job.spans, 1, N(do_rest), &job);
    }
    gd_team_run(members, half ? strips : 0, 1, N(mirror_some), &job);
    return job.passed;
}

/* ---------------------------------------------------------------- a band of rows */

/* Rows of a band, or strips of phase 3, and the rows of snapshots by which bands know each other. A
 * row of snapshots is a row of the matrix at its own stage. */
GD_INLINE void N(copy_rows)(const N(part) to, const N(part) from, ptrdiff_t rows, ptrdiff_t columns)
{
    for (ptrdiff_t k = 0; k < rows; ++k) {
        memcpy(to.d + k * to.stride, from.d + k * from.stride, (size_t)columns * sizeof(T));
        if (to.p)
            memcpy(to.p + k * to.stride, from.p + k * from.stride,
                   (size_t)columns * sizeof(int32_t));
    }
}

typedef struct N(band_job) {
    N(job) all;
    N(part) snapshots;            /* of this round's pivots */
    ptrdiff_t above;              /* strips of the matrix above the band */
    bool own;                     /* whether the pivots are rows of the band that are not spared */
    ptrdiff_t spared, spared_end; /* strips of the band that are left alone */
} N(band_job);

/* Phase 2: a strip of the band's part of the pivots' columns, or one of the pivots' rows, which
 * the band closes and records if they are its own, and reads if they are not. */
static void N(do_band_panels)(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const N(band_job) *const band = context;
    const N(job) *const j = &band->all;
    (void)member;
    for (ptrdiff_t task = begin; task < end; ++task) {
        const bool of_rows = task >= j->down;
        const ptrdiff_t i = of_rows ? task - j->down : task, at = i * N(width);
        if (!of_rows) {
            const bool diagonal = band->above + i >= j->first && band->above + i < j->last;
            const bool spared = i >= band->spared && i < band->spared_end;
            j->a_reached[i] =
                !diagonal && !spared &&
                N(close_column_strip)(N(at)(j->c, at, j->k), j->rows, N(at)(j->a, i * j->block, 0),
                                      j->size, j->pivots);
            continue;
        }
        const N(part) strip = N(at)(j->b, i * j->block, 0), row = N(at)(band->snapshots, 0, at);
        const bool diagonal = i >= j->first && i < j->last;
        if (!band->own) {
            N(copy_rows)(strip, row, j->pivots, N(width));
            j->b_reached[i] = !diagonal && N(reached)(strip, j->pivots);
            continue;
        }
        if (diagonal) {
            N(copy_rows)(row, N(at)(j->rows, 0, at - j->k), j->pivots, N(width));
            j->b_reached[i] = false;
            continue;
        }
        const N(part) c = N(at)(j->c, j->k - band->above * N(width), at);
        j->b_reached[i] = N(close_row_strip)(c, j->columns, strip, j->size, j->pivots);
        N(copy_rows)(row, j->b_reached[i] ? strip : c, j->pivots, N(width));
    }
}

/* Nodes from n on have no edges, whatever lies there. */
static void N(fill_padding)(const gd_apsp_band *band, T far, T loop)
{
    T *const d = band->dist;
    for (ptrdiff_t i = 0; i < band->rows; ++i)
        for (ptrdiff_t j = band->first + i < band->n ? band->n : 0; j < band->padded; ++j) {
            d[i * band->padded + j] = j == band->first + i ? loop : far;
            if (band->pred != NULL)
                band->pred[i * band->padded + j] = GD_NO_PREDECESSOR;
        }
}

static gd_status N(run_band)(gd_apsp_band *call, const gd_apsp *whole, T far, T loop, gd_error *err)
{
    const ptrdiff_t block = call->n < LARGE_FROM ? BLOCK_SMALL : BLOCK_LARGE;
    const size_t columns = (size_t)(block * call->rows), square = (size_t)(block * block);
    const bool paths = call->pred != NULL;
    if (call->launch.sizing) {
        call->step = BAND_STEP;
        call->padded = (call->n + BAND_STEP - 1) / BAND_STEP * BAND_STEP;
        const size_t rows = (size_t)(block * call->padded), each = sizeof(T) + sizeof(int32_t);
        call->snapshot_bytes = (size_t)(call->pivots * call->padded) * (paths ? each : sizeof(T));
        call->launch.workspace_bytes = (columns + rows + 2 * square) * sizeof(T) +
                                       (paths ? rows + square : 0) * sizeof(int32_t) +
                                       (size_t)((call->rows + call->padded) / N(width));
        return GD_OK;
    }
    const size_t rows = (size_t)(block * call->padded);
    T *const d = call->launch.workspace, *const kept = call->snapshots;
    int32_t *const p = (int32_t *)(d + columns + rows + 2 * square);
    int32_t *const kept_p = (int32_t *)(kept + call->pivots * call->padded);
    bool *const reached = (bool *)(p + (paths ? rows + square : 0));
    const int members = gd_team_size();
    const ptrdiff_t end = call->pivot + call->pivots;
    N(band_job)
    band = {
        .all = {.call = whole,
                .c = {call->dist, call->pred, call->padded},
                .a = {d, NULL, N(width)},
                .b = {d + columns, paths ? p : NULL, N(width)},
                .rows = {d + columns + rows, paths ? p + rows : NULL, block},
                .columns = {d + columns + rows + square, NULL, block},
                .a_reached = reached,
                .b_reached = reached + call->rows / N(width),
                .block = block,
                .down = call->rows / N(width),
                .strips = call->padded / N(width),
                .passed = GD_OK,
                .err = err},
        .above = call->first / N(width),
        .own = call->pivot >= call->first && call->pivot < call->first + call->rows &&
               !(call->pivot >= call->spared && call->pivot < call->spared + call->spared_rows),
        .spared = (call->spared - call->first) / N(width),
        .spared_end = (call->spared + call->spared_rows - call->first) / N(width),
    };
    N(job) *const j = &band.all;
    j->spans = gd_least(j->strips, 1 + 4 * members / j->down);
    const double each = call->share / (double)call->pivots;
    if (!call->filled)
        N(fill_padding)(call, far, loop);
    for (j->k = call->pivot; j->k < end && j->passed == GD_OK; j->k += block) {
        j->size = j->pivots = gd_least(block, end - j->k);
        j->first = j->k / N(width);
        j->last = j->first + j->size / N(width);
        j->before = call->done + each * (double)(j->k - call->pivot);
        j->share = each * (double)j->pivots;
        const ptrdiff_t at = (j->k - call->pivot) * call->padded;
        band.snapshots = (N(part)){kept + at, paths ? kept_p + at : NULL, call->padded};
        if (band.own)
            N(close_diagonal)(N(at)(j->c, j->k - call->first, j->k), j->rows, j->columns, j->size,
                              j->pivots);
        else
            N(copy_rows)(j->rows, N(at)(band.snapshots, 0, j->k), j->pivots, j->size);
        gd_team_run(members, j->down + j->strips, 1, N(do_band_panels), &band);
        gd_team_run(members, j->down * j->spans, 1, N(do_rest), j);
    }
    return j->passed;
}

#undef N
#undef PUT
#undef PUT_EACH
