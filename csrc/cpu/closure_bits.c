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
 * Floor: n**3 / 2048 look-ups, two a cycle with AVX-512. What binds is the way to the rows, which
 * each block of pivots reads and writes once in every chunk: one Zen 5 core makes 1.2 G look-ups a
 * second at n = 2000 (3.2 ms) and 0.7 G at n = 8000 (360 ms), on graphs where all rows change. */
#include "kernels.h"
#include "pass.h"
#include "simd.h"

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

static ptrdiff_t least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }

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

/* Of the pivots among themselves. */
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

gd_status GD_ISA_NAME(gd_cpu_closure_bits)(gd_closure *call, gd_error *err)
{
    const ptrdiff_t n = call->n;
    if (call->launch.sizing) {
        call->rows = (n + 63) / 64 * 64;
        call->words = (n + 32 * CHUNK - 1) / (32 * CHUNK) * CHUNK;
        call->launch.workspace_bytes = (size_t)call->rows * sizeof(pivot_set);
        return GD_OK;
    }
    pivot_set *const reached = call->launch.workspace, tile[PIVOTS];
    const ptrdiff_t chunks = call->words / CHUNK, spans = (n + SPAN - 1) / SPAN;
    gd_status status = GD_OK; /* written in the last loop of a round only, so one in the others */
#pragma omp parallel if (n >= PARALLEL_FROM)
    for (ptrdiff_t first = 0; first < n && status == GD_OK; first += PIVOTS) {
        const pivot_block b = {call, first, least(PIVOTS, call->rows - first), reached};
        chunk_bits unions[PIVOTS / GROUP * UNIONS];
#pragma omp for
        for (ptrdiff_t i = 0; i < call->rows; ++i)
            reached[i] = set_at(call, i, first, b.pivots);
#pragma omp single
        {
            memcpy(tile, reached + first, (size_t)b.pivots * sizeof *tile);
            close_tile(tile, b.pivots);
        }
#pragma omp for
        for (ptrdiff_t c = 0; c < chunks; ++c)
            close_pivot_rows(&b, c * CHUNK, tile, unions);
#pragma omp for schedule(dynamic)
        for (ptrdiff_t task = 0; task < chunks * spans; ++task) {
            const ptrdiff_t from = task % spans * SPAN;
            const double part = (double)task / (double)(chunks * spans);
            if (gd_goes_on(&call->launch, ((double)first + part * PIVOTS) / (double)n, &status,
                           err))
                close_rows(&b, task / spans * CHUNK, from, least(from + SPAN, n), unions);
        }
    }
    return status;
}
