/* minplus_tile_body.h: the part of minplus_tile.c that depends on the semiring's loop and the type.
 * Included once for each, with
 *
 *     N(x)                     the name x with a suffix
 *     E                        the type of an element
 *     T, V, ELEMENTS           a word, its vector, how many elements of a line it holds
 *     NEUTRAL                  the word that changes no result
 *     ENTER(x, flip), LEAVE(y, flip)    element to word and back
 *     MARKS(x, flip)           whether run shall tell that there is such an element
 *     BETTER(c, x, flip)       the better of two elements, c as given
 *     FOLD(c, a, b, one)       a result and the operands of one more term: vectors, the place of a
 *                              word of A, one of ones
 *     FOLD_UNMARKED            the same where no element marks, if that is faster
 *     FOLD_SHARED              the same where gd_pipes_are_shared(), likewise
 *
 * all of which it undefines. */

enum { N(lanes) = sizeof(V) / sizeof(T), N(width) = NV * N(lanes) };

/* ---------------------------------------------------------------- packing */

/* One element of each line into its word, at bit e of words that have room for several. */
GD_INLINE bool N(enter)(const E *from, ptrdiff_t count, ptrdiff_t line_step, ptrdiff_t e, bool flip,
                        T *restrict word)
{
    bool marked = false;
    (void)e;
    for (ptrdiff_t r = 0; r < count; ++r) {
        const E element = from[r * line_step];
        marked |= MARKS(element, flip);
#if ELEMENTS > 1
        word[r] |= (T)((uint32_t)ENTER(element, flip) << e);
#else
        word[r] = ENTER(element, flip);
#endif
    }
    return marked;
}

/* Packs `count` lines of x, `line_step` apart, into the words of a strip of `width` lines: to[w *
 * width + r]. Elements of a line are `step` apart. Where x ends come neutral elements. */
GD_INLINE bool N(pack)(const E *x, ptrdiff_t count, ptrdiff_t line_step, ptrdiff_t depth,
                       ptrdiff_t step, ptrdiff_t words, const int width, bool flip, T *to)
{
    bool marked = false;
    for (ptrdiff_t w = 0; w < words; ++w) {
        T *const word = to + w * width;
        for (ptrdiff_t r = 0; r < width; ++r)
            word[r] = NEUTRAL;
        for (ptrdiff_t e = 0; e < ELEMENTS && w * ELEMENTS + e < depth; ++e) {
            const E *const from = x + (w * ELEMENTS + e) * step;
            if (count == width) /* a constant, of whole vectors */
                marked |= N(enter)(from, width, line_step, e, flip, word);
            else
                marked |= N(enter)(from, count, line_step, e, flip, word);
        }
    }
    return marked;
}

/* A strip of MR rows of A. */
static bool N(pack_left)(const gd_matrix *a, const product_plan *plan, ptrdiff_t strip, T *to)
{
    return N(pack)((const E *)a->data + strip * MR * a->row_stride,
                   gd_least(MR, a->rows - strip * MR), a->row_stride, a->cols, 1, plan->words, MR,
                   plan->flip, to + strip * MR * plan->words);
}

/* A panel of columns of B. */
static bool N(pack_right)(const gd_matrix *b, const product_plan *plan, ptrdiff_t panel, T *to)
{
    return N(pack)((const E *)b->data + panel * N(width),
                   gd_least(N(width), b->cols - panel * N(width)), 1, b->rows, b->row_stride,
                   plan->words, N(width), plan->flip, to + panel * N(width) * plan->words);
}

/* ---------------------------------------------------------------- the register tile */

typedef void N(tile_fn)(const T *a, const T *b, ptrdiff_t words, bool first, T *out);

/* out[r, j] becomes the better of itself, unless `first`, and the terms of a slab. */
#define DEFINE_TILE(name, fold)                                                                    \
    static void name(const T *a, const T *b, ptrdiff_t words, bool first, T *out)                  \
    {                                                                                              \
        V acc[MR][NV], one = gd_splat((T)1);                                                       \
        GD_OPAQUE(one);                                                                            \
        FOR_TILE (r, v)                                                                            \
            acc[r][v] = first ? gd_splat((T)NEUTRAL) : gd_load(out + r * N(width) + v * N(lanes)); \
        for (ptrdiff_t w = 0; w < words; ++w) {                                                    \
            V column[NV];                                                                          \
            GD_UNROLL for (int v = 0; v < NV; ++v)                                                 \
                column[v] = gd_load(b + w * N(width) + v * N(lanes));                              \
            GD_UNROLL for (int r = 0; r < MR; ++r) {                                               \
                const T *const row = a + w * MR + r;                                               \
                GD_UNROLL for (int v = 0; v < NV; ++v)                                             \
                    acc[r][v] = fold(acc[r][v], row, column[v], one);                              \
            }                                                                                      \
        }                                                                                          \
        FOR_TILE (r, v)                                                                            \
            gd_store(out + r * N(width) + v * N(lanes), acc[r][v]);                                \
    }
DEFINE_TILE(N(tile), FOLD)
#ifdef FOLD_UNMARKED
DEFINE_TILE(N(tile_unmarked), FOLD_UNMARKED)
#endif
#ifdef FOLD_SHARED
DEFINE_TILE(N(tile_shared), FOLD_SHARED)
#endif
#undef DEFINE_TILE

/* ---------------------------------------------------------------- the whole */

/* Writes a strip's words of one panel to their places in the result. */
static void N(finish)(const gd_minplus *call, bool flip, ptrdiff_t row, ptrdiff_t col,
                      const T *from)
{
    const ptrdiff_t rows = gd_least(MR, call->out.rows - row);
    const ptrdiff_t cols = gd_least(N(width), call->out.cols - col);
    for (ptrdiff_t r = 0; r < rows; ++r, from += N(width)) {
        E *const to = (E *)call->out.data + (row + r) * call->out.row_stride + col;
        if (call->c.data == NULL) {
            for (ptrdiff_t j = 0; j < cols; ++j)
                to[j] = LEAVE(from[j], flip);
        }
        else {
            const E *const c = (const E *)call->c.data + (row + r) * call->c.row_stride + col;
            for (ptrdiff_t j = 0; j < cols; ++j) {
                const E x = LEAVE(from[j], flip);
                to[j] = BETTER(c[j], x, flip);
            }
        }
    }
}

/* A block of rows times a chunk of panels; `own` is the thread's. */
static void N(block)(const gd_minplus *call, const product_plan *plan, N(tile_fn) * tile,
                     const T *left, const T *right, ptrdiff_t first_strip, ptrdiff_t first_panel,
                     T *own)
{
    const ptrdiff_t strips = gd_least(plan->block, plan->strips - first_strip);
    const ptrdiff_t panels = gd_least(CHUNK, plan->panels - first_panel), words = plan->words;
    ptrdiff_t w = 0;
    do { /* once even without words, for the neutral elements */
        const ptrdiff_t slab = gd_least(SLAB, words - w);
        const T *b = right + first_panel * N(width) * words + w * N(width);
        for (ptrdiff_t p = 0; p < panels; ++p, b += N(width) * words) {
            const T *a = left + first_strip * MR * words + w * MR;
            for (ptrdiff_t s = 0; s < strips; ++s, a += MR * words) {
                T *const to = own + (p * strips + s) * MR * N(width);
                tile(a, b, slab, w == 0, to);
                if (w + slab == words)
                    N(finish)(call, plan->flip, (first_strip + s) * MR,
                              (first_panel + p) * N(width), to);
            }
        }
        w += slab;
    } while (w < words);
}

static product_plan N(plan)(const gd_minplus *call)
{
    const double updates =
        (double)call->out.rows * (double)call->out.cols * (double)(call->a.cols + 8);
    const ptrdiff_t strips = (call->out.rows + MR - 1) / MR;
    const ptrdiff_t panels = (call->out.cols + N(width) - 1) / N(width);
    const ptrdiff_t words = (call->a.cols + ELEMENTS - 1) / ELEMENTS;
    /* Waking threads costs about as much as 2**18 updates on one. */
    const ptrdiff_t threads = call->alone || updates < 0x1p18 ? 1 : gd_team_size();
    return (product_plan){
        .strips = strips,
        .panels = panels,
        .words = words,
        .left_bytes = ((size_t)(strips * MR * words) * sizeof(T) + 63) / 64 * 64,
        .right_bytes = (size_t)(panels * N(width) * words) * sizeof(T),
        .own_bytes = (size_t)(STRIPS * MR * CHUNK * N(width)) * sizeof(T),
        .block = strips * panels < 4 * threads * STRIPS * CHUNK ? FEWER_STRIPS : STRIPS,
        .threads = (int)threads,
    };
}

/* A call that all members work on. */
typedef struct N(job) {
    const gd_minplus *call;
    const product_plan *plan;
    T *left, *right;
    char *own; /* each member's */
    N(tile_fn) * tile;
    _Atomic bool marked;
    gd_passed passed;
    gd_error *err;
} N(job);

static void N(pack_some_left)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    N(job) *const j = context;
    bool marked = false;
    (void)member;
    for (ptrdiff_t s = first; s < last; ++s)
        marked |= N(pack_left)(&j->call->a, j->plan, s, j->left);
    if (marked)
        j->marked = true;
}

static void N(pack_some_right)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    N(job) *const j = context;
    bool marked = false;
    (void)member;
    for (ptrdiff_t p = first; p < last; ++p)
        marked |= N(pack_right)(&j->call->b, j->plan, p, j->right);
    if (marked)
        j->marked = true;
}

static void N(do_blocks)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    N(job) *const j = context;
    const product_plan *const plan = j->plan;
    const ptrdiff_t chunks = chunks_of(plan), all = blocks_of(plan) * chunks;
    T *const mine = (T *)(j->own + (size_t)member * plan->own_bytes);
    for (ptrdiff_t t = first; t < last; ++t)
        if (gd_goes_on(&j->call->launch, (double)t / (double)all, member, &j->passed, j->err))
            N(block)(j->call, plan, j->tile, j->left, j->right, t / chunks * plan->block,
                     t % chunks * CHUNK, mine);
}

/* *has_mark becomes whether an element marks. */
static gd_status N(run)(const gd_minplus *call, const product_plan *plan, bool *has_mark,
                        gd_error *err)
{
    char *const workspace = call->launch.workspace;
    N(job)
    job = {
        .call = call,
        .plan = plan,
        .left = (T *)workspace,
        .right = (T *)(workspace + plan->left_bytes),
        .own = workspace + plan->left_bytes + plan->right_bytes,
        .passed = GD_OK,
        .err = err,
    };
    gd_team_run(plan->threads, plan->strips, 0, N(pack_some_left), &job);
    gd_team_run(plan->threads, plan->panels, 0, N(pack_some_right), &job);
    *has_mark = job.marked;
#if defined(FOLD_UNMARKED)
    job.tile = *has_mark ? N(tile) : N(tile_unmarked);
#elif defined(FOLD_SHARED)
    job.tile = gd_pipes_are_shared() ? N(tile_shared) : N(tile);
#else
    job.tile = N(tile);
#endif
    gd_team_run(plan->threads, blocks_of(plan) * chunks_of(plan), 1, N(do_blocks), &job);
    return job.passed;
}

#undef N
#undef E
#undef T
#undef V
#undef ELEMENTS
#undef NEUTRAL
#undef ENTER
#undef LEAVE
#undef MARKS
#undef BETTER
#undef FOLD
#undef FOLD_UNMARKED
#undef FOLD_SHARED
