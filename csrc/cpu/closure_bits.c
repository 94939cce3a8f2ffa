/* closure_bits.c: the transitive closure of a graph, on packed bits.
 *
 * Warshall's loop, "whoever reaches k reaches what k reaches", for a block of pivots at a time:
 * 1 the pivots' own tile is closed bit by bit; 2 the pivots' rows take in what the closed tile
 * says; 3 every row takes in the rows of those pivots that it reaches. As nothing but "or" is done,
 * the order does not matter.
 *
 * Step 3 is nearly all of the work. It goes by tables: of every four pivots' rows all 16 unions are
 * made once, and then a look-up and an "or" serve four pivots (Arlazarov, Dinic, Kronrod, Faradzev:
 * On economical construction of the transitive closure of a directed graph, 1970). The tables of a
 * chunk of columns, a cache line wide, stay in the first cache.
 *
 * Up to 64 nodes a row is a word, and the textbook's loop on words has nothing to prepare.
 *
 * Where edges are few there is another form, on one thread: strongly connected components, found
 * by depth-first search (Tarjan: Depth-first search and linear graph algorithms, 1972), are
 * complete one after the other, and those that their edges lead to are complete before. So the row
 * of a component, which all of its nodes share, is the union of its nodes' own rows and of the
 * complete rows of the nodes in it that are in none of those joined before: less than a union an
 * edge.
 *
 * Floor: n**3 / 2048 look-ups, two a cycle with AVX-512. What binds is the way to the rows, which
 * each block of pivots reads and writes once in every chunk: one Zen 5 core makes 1.2 G look-ups a
 * second at n = 2000 (3.2 ms) and 0.7 G at n = 8000 (360 ms), on graphs where all rows change. */
#include "kernels.h"
#include "pass.h"
#include "simd.h"
#include "sizes.h"
#include "team.h"

/* A word of pivots is 64 bits; blocks of two such words make a table of 32 KiB a chunk. */
enum { PIVOT_WORDS = 2, PIVOTS = 64 * PIVOT_WORDS, GROUP = 4, UNIONS = 1 << GROUP };
enum { LANES = sizeof(gd_vi32) / sizeof(int32_t), CHUNK = 16, NV = CHUNK / LANES };
/* Smaller matrices are not worth waking threads for. */
enum { PARALLEL_FROM = 512, SPAN = 512 };
/* Rows lie too far apart for the processor to guess the next one. */
enum { AHEAD = 8 };

typedef struct chunk_bits {
    gd_vi32 v[NV];
} chunk_bits;

typedef struct pivot_set {
    uint64_t of[PIVOT_WORDS];
} pivot_set;

/* A block of pivots: the first, how many, and the column of sets of them that rows reach. */
typedef struct pivot_block {
    const gd_closure *call;
    ptrdiff_t first, pivots;
    const pivot_set *reached;
} pivot_block;

GD_INLINE int32_t *row_at(const gd_closure *call, ptrdiff_t row, ptrdiff_t word)
{
    return (int32_t *)call->bits + row * call->words + word;
}

GD_INLINE chunk_bits load_chunk(const int32_t *p)
{
    chunk_bits x;
    GD_UNROLL for (int v = 0; v < NV; ++v)
        x.v[v] = gd_load(p + v * LANES);
    return x;
}
GD_INLINE void store_chunk(int32_t *p, chunk_bits x)
{
    GD_UNROLL for (int v = 0; v < NV; ++v)
        gd_store(p + v * LANES, x.v[v]);
}
GD_INLINE void join(chunk_bits *x, const chunk_bits *y)
{
    GD_UNROLL for (int v = 0; v < NV; ++v)
        x->v[v] |= y->v[v];
}

/* A hint; the address may lie past the matrix. */
GD_INLINE void fetch(const int32_t *row, ptrdiff_t words)
{
    __builtin_prefetch((const void *)((uintptr_t)row + (size_t)words * sizeof *row), 1);
}

GD_INLINE pivot_set set_at(const gd_closure *call, ptrdiff_t row, ptrdiff_t first, ptrdiff_t pivots)
{
    pivot_set set = {{0}};
    memcpy(&set, row_at(call, row, first / 32), (size_t)pivots / 8);
    return set;
}

/* Closes the pivots among themselves. */
static void close_tile(pivot_set *sets, ptrdiff_t pivots)
{
    for (ptrdiff_t k = 0; k < pivots; ++k)
        for (ptrdiff_t i = 0; i < pivots; ++i)
            if (sets[i].of[k / 64] >> k % 64 & 1)
                for (int w = 0; w < PIVOT_WORDS; ++w)
                    sets[i].of[w] |= sets[k].of[w];
}

/* unions[g * UNIONS + s]: of those rows of group g that s has bits for. */
static void make_unions(const pivot_block *b, ptrdiff_t word, chunk_bits *unions)
{
    for (ptrdiff_t g = 0; g < b->pivots / GROUP; ++g, unions += UNIONS) {
        unions[0] = (chunk_bits){{{0}}};
        for (int s = 1; s < UNIONS; ++s) {
            unions[s] = load_chunk(row_at(b->call, b->first + g * GROUP + __builtin_ctz(s), word));
            join(&unions[s], &unions[s & (s - 1)]);
        }
    }
}

GD_INLINE void join_set(chunk_bits *x, const pivot_set *set, const chunk_bits *unions,
                        ptrdiff_t words)
{
    for (ptrdiff_t w = 0; w < words; ++w, unions += 64 / GROUP * UNIONS) GD_UNROLL
        for (int g = 0; g < 64 / GROUP; ++g)
            join(x, &unions[g * UNIONS + (set->of[w] >> g * GROUP) % UNIONS]);
}

/* Step 2 in one chunk of columns: sets are of the closed tile. All is read before it is written. */
static void close_pivot_rows(const pivot_block *b, ptrdiff_t word, const pivot_set *sets,
                             chunk_bits *unions)
{
    make_unions(b, word, unions);
    for (ptrdiff_t i = 0; i < b->pivots; ++i) {
        int32_t *const row = row_at(b->call, b->first + i, word);
        chunk_bits x = load_chunk(row);
        join_set(&x, &sets[i], unions, b->pivots / 64);
        store_chunk(row, x);
    }
}

/* Step 3 in one chunk of columns of some rows. The pivots' own rows are done; it is no harm there,
 * but others read them. */
static void close_rows(const pivot_block *b, ptrdiff_t word, ptrdiff_t from, ptrdiff_t to,
                       chunk_bits *unions)
{
    make_unions(b, word, unions);
    for (ptrdiff_t i = from; i < to; ++i) {
        const pivot_set *set = &b->reached[i];
        if ((set->of[0] | set->of[PIVOT_WORDS - 1]) == 0 ||
            (i >= b->first && i < b->first + b->pivots))
            continue;
        int32_t *const row = row_at(b->call, i, word);
        fetch(row, AHEAD * b->call->words);
        chunk_bits x = load_chunk(row);
        join_set(&x, set, unions, b->pivots / 64);
        store_chunk(row, x);
    }
}
_Static_assert(PIVOT_WORDS == 2, "close_rows asks both words of a set");

/* ---------------------------------------------------------------- few nodes */

enum { WORD = 64 };

static void close_words(const gd_closure *call)
{
    const ptrdiff_t n = call->n;
    uint64_t rows[WORD];
    for (ptrdiff_t i = 0; i < n; ++i)
        memcpy(&rows[i], row_at(call, i, 0), sizeof rows[i]);
    for (ptrdiff_t k = 0; k < n; ++k) {
        const uint64_t pivot = rows[k];
        for (ptrdiff_t i = 0; i < n; ++i)
            rows[i] |= pivot & (0 - (rows[i] >> k & 1));
    }
    for (ptrdiff_t i = 0; i < n; ++i)
        memcpy(row_at(call, i, 0), &rows[i], sizeof rows[i]);
}

/* ---------------------------------------------------------------- few edges */

/* What depth-first search knows of the nodes: the number in which they were met, from 1 on; the
 * least number that is reached from below; the search's path and, of its nodes, the word that is
 * looked through and its bits that are left; nodes of components that are not complete. */
typedef struct search {
    gd_closure *call;
    int32_t *met, *low, *path, *word, *open;
    uint32_t *left;
    int32_t *joined; /* a row */
    ptrdiff_t depth, opened;
    int32_t count;
} search;

enum { LISTS = 6 };

static void join_rows(int32_t *to, const int32_t *from, ptrdiff_t words)
{
    for (ptrdiff_t w = 0; w < words; w += CHUNK) {
        chunk_bits x = load_chunk(to + w);
        const chunk_bits y = load_chunk(from + w);
        join(&x, &y);
        store_chunk(to + w, x);
    }
}

/* The nodes from `from` on in the list of open ones are a component; where their edges lead out of
 * it, `met` is negative: complete. */
static void complete(search *s, ptrdiff_t from)
{
    gd_closure *const call = s->call;
    const ptrdiff_t words = call->words;
    int32_t *const row = row_at(call, s->open[from], 0);
    for (ptrdiff_t i = from + 1; i < s->opened; ++i)
        join_rows(row, row_at(call, s->open[i], 0), words);
    memset(s->joined, 0, (size_t)words * sizeof *s->joined);
    for (ptrdiff_t w = 0; w < words; ++w)
        for (uint32_t bits = (uint32_t)row[w] & ~(uint32_t)s->joined[w]; bits != 0;
             bits = bits & (bits - 1) & ~(uint32_t)s->joined[w]) {
            const ptrdiff_t node = 32 * w + __builtin_ctz(bits);
            if (s->met[node] < 0)
                join_rows(s->joined, row_at(call, node, 0), words);
        }
    join_rows(row, s->joined, words);
    for (ptrdiff_t i = from; i < s->opened; ++i) {
        const int32_t node = s->open[i];
        s->met[node] = -1;
        if (s->opened - from > 1)
            row[node / 32] |= (int32_t)(UINT32_C(1) << node % 32);
    }
    for (ptrdiff_t i = from + 1; i < s->opened; ++i)
        memcpy(row_at(call, s->open[i], 0), row, (size_t)words * sizeof *row);
    s->opened = from;
}

static void enter(search *s, int32_t node)
{
    s->met[node] = s->low[node] = ++s->count;
    s->path[s->depth] = node;
    s->word[s->depth] = 0;
    s->left[s->depth++] = (uint32_t)*row_at(s->call, node, 0);
    s->open[s->opened++] = node;
}

/* The next node that an edge of the path's last one leads to, -1 after the last. */
static ptrdiff_t next_of(search *s)
{
    const ptrdiff_t top = s->depth - 1;
    while (s->left[top] == 0) {
        if (++s->word[top] == s->call->words)
            return -1;
        s->left[top] = (uint32_t)*row_at(s->call, s->path[top], s->word[top]);
    }
    const ptrdiff_t node = 32 * (ptrdiff_t)s->word[top] + __builtin_ctz(s->left[top]);
    s->left[top] &= s->left[top] - 1;
    return node;
}

static void visit(search *s, int32_t root)
{
    enter(s, root);
    while (s->depth > 0) {
        const int32_t node = s->path[s->depth - 1];
        const ptrdiff_t to = next_of(s);
        if (to >= 0 && s->met[to] == 0) {
            enter(s, (int32_t)to);
        }
        else if (to >= 0) {
            if (s->met[to] > 0 && s->met[to] < s->low[node])
                s->low[node] = s->met[to];
        }
        else {
            if (--s->depth > 0 && s->low[node] < s->low[s->path[s->depth - 1]])
                s->low[s->path[s->depth - 1]] = s->low[node];
            if (s->low[node] == s->met[node]) {
                ptrdiff_t from = s->opened - 1;
                while (s->open[from] != node)
                    --from;
                complete(s, from);
            }
        }
    }
}

static gd_status close_components(gd_closure *call, gd_error *err)
{
    const ptrdiff_t n = call->n;
    int32_t *const lists = call->launch.workspace;
    search s = {call,
                lists,
                lists + n,
                lists + 2 * n,
                lists + 3 * n,
                lists + 4 * n,
                (uint32_t *)lists + 5 * n,
                lists + LISTS * n,
                0,
                0,
                0};
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; i < n; ++i)
        s.met[i] = 0;
    for (int32_t i = 0; i < n && status == GD_OK; ++i) {
        if (s.met[i] == 0)
            visit(&s, i);
        status = gd_pass(&call->launch, (double)i / (double)n, err);
    }
    return status;
}

static bool has_few_edges(const gd_closure *call)
{
    ptrdiff_t edges = 0;
    for (ptrdiff_t i = 0; i < call->n; ++i)
        for (ptrdiff_t w = 0; w < call->words; ++w)
            edges += __builtin_popcount((uint32_t)*row_at(call, i, w));
    return gd_closure_has_few_edges(call->n, edges);
}

/* ---------------------------------------------------------------- many edges */

/* A call, and the round that all members are in. */
typedef struct closing {
    gd_closure *call;
    pivot_block block;
    pivot_set *reached, tile[PIVOTS];
    gd_passed passed;
    gd_error *err;
} closing;

static void find_sets(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const closing *const c = context;
    const pivot_block *const b = &c->block;
    (void)member;
    for (ptrdiff_t i = begin; i < end; ++i)
        c->reached[i] = set_at(c->call, i, b->first, b->pivots);
}

static void do_pivot_rows(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const closing *const c = context;
    chunk_bits unions[PIVOTS / GROUP * UNIONS];
    (void)member;
    for (ptrdiff_t chunk = begin; chunk < end; ++chunk)
        close_pivot_rows(&c->block, chunk * CHUNK, c->tile, unions);
}

static ptrdiff_t spans_of(ptrdiff_t n) { return (n + SPAN - 1) / SPAN; }

static void do_rows(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    closing *const c = context;
    const ptrdiff_t n = c->call->n, spans = spans_of(n), tasks = c->call->words / CHUNK * spans;
    chunk_bits unions[PIVOTS / GROUP * UNIONS];
    for (ptrdiff_t task = begin; task < end; ++task) {
        const ptrdiff_t from = task % spans * SPAN;
        const double part = (double)task / (double)tasks;
        const double done = ((double)c->block.first + part * PIVOTS) / (double)n;
        if (gd_goes_on(&c->call->launch, done, member, &c->passed, c->err))
            close_rows(&c->block, task / spans * CHUNK, from, gd_least(from + SPAN, n), unions);
    }
}

gd_status GD_ISA_NAME(gd_cpu_closure_bits)(gd_closure *call, gd_error *err)
{
    const ptrdiff_t n = call->n;
    if (call->launch.sizing) {
        call->rows = (n + 63) / 64 * 64;
        call->words = (n + 32 * CHUNK - 1) / (32 * CHUNK) * CHUNK;
        call->launch.workspace_bytes = (size_t)call->rows * sizeof(pivot_set);
        const size_t lists = (size_t)(LISTS * n + call->words) * sizeof(int32_t);
        if (call->launch.workspace_bytes < lists)
            call->launch.workspace_bytes = lists;
        return GD_OK;
    }
    if (n <= WORD) {
        close_words(call);
        return GD_OK;
    }
    if (has_few_edges(call))
        return close_components(call, err);
    const ptrdiff_t chunks = call->words / CHUNK;
    const int members = n < PARALLEL_FROM ? 1 : gd_team_size();
    closing all = {.call = call, .reached = call->launch.workspace, .passed = GD_OK, .err = err};
    for (ptrdiff_t first = 0; first < n && all.passed == GD_OK; first += PIVOTS) {
        all.block = (pivot_block){call, first, gd_least(PIVOTS, call->rows - first), all.reached};
        gd_team_run(members, call->rows, 0, find_sets, &all);
        memcpy(all.tile, all.reached + first, (size_t)all.block.pivots * sizeof *all.tile);
        close_tile(all.tile, all.block.pivots);
        gd_team_run(members, chunks, 0, do_pivot_rows, &all);
        gd_team_run(members, chunks * spans_of(n), 1, do_rows, &all);
    }
    return all.passed;
}
