/* perron_pattern.c: where a matrix of perron has elements, and whether its graph holds together.
 *
 * Only matrices with zeros or flaws come here; a positive matrix is irreducible. The graph has an
 * edge from i to j where element (i, j) is not 0, as bits: a node's neighbours that were not yet
 * seen are one word operation for 64 of them, so both searches of the whole graph read the pattern
 * once. */
#include "perron_pattern.h"

#include <float.h>
#include <stdatomic.h>
#include <string.h>

#include "device.h"
#include "team.h"

static ptrdiff_t words_of(ptrdiff_t n) { return (n + 63) / 64; }

/* ---------------------------------------------------------------- looking at elements */

static double element(const gd_matrix *a, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t at = i * a->row_stride + j * a->col_stride;
    return a->dtype == GD_F32 ? ((const float *)a->data)[at] : ((const double *)a->data)[at];
}

/* A matrix that all members look at. */
typedef struct looking {
    const gd_matrix *a;
    uint64_t *pattern;
    _Atomic ptrdiff_t flaw_at, empty_row; /* the first found; PTRDIFF_MAX for none */
} looking;

static void note_first(ptrdiff_t at, _Atomic ptrdiff_t *first)
{
    ptrdiff_t seen = atomic_load(first);
    while (at < seen && !atomic_compare_exchange_weak(first, &seen, at)) {
    }
}

static void look_at_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    looking *const l = context;
    const ptrdiff_t n = l->a->rows, words = words_of(n);
    ptrdiff_t flaw_at = PTRDIFF_MAX, empty_row = PTRDIFF_MAX;
    (void)member;
    for (ptrdiff_t i = first; i < last; ++i) {
        uint64_t any = 0;
        for (ptrdiff_t w = 0; w < words; ++w) {
            uint64_t word = 0;
            for (ptrdiff_t j = 64 * w; j < 64 * w + 64 && j < n; ++j) {
                const double e = element(l->a, i, j);
                word |= (uint64_t)(e != 0) << j % 64;
                if (!(e >= 0 && e <= DBL_MAX) && flaw_at == PTRDIFF_MAX) {
                    flaw_at = i * n + j; /* the first of these rows' */
                }
            }
            l->pattern[i * words + w] = word;
            any |= word;
        }
        if (any == 0 && empty_row == PTRDIFF_MAX) {
            empty_row = i;
        }
    }
    note_first(flaw_at, &l->flaw_at);
    note_first(empty_row, &l->empty_row);
}

gd_status gd_cpu_perron_look(const gd_matrix *a, void *stream, void *scratch, uint64_t *pattern,
                             gd_perron_facts *facts, gd_error *err)
{
    looking all = {a, pattern, PTRDIFF_MAX, PTRDIFF_MAX};
    const ptrdiff_t n = a->rows;
    (void)stream, (void)scratch, (void)err;
    gd_team_run(n > 128 ? gd_team_size() : 1, n, 0, look_at_some, &all);
    const ptrdiff_t flaw_at = all.flaw_at, empty_row = all.empty_row;
    facts->flaw_at = flaw_at == PTRDIFF_MAX ? -1 : flaw_at;
    facts->flaw = facts->flaw_at < 0 ? 0 : element(a, flaw_at / n, flaw_at % n);
    facts->empty_row = empty_row == PTRDIFF_MAX ? -1 : empty_row;
    return GD_OK;
}

/* ---------------------------------------------------------------- transposition of bits */

/* 64 x 64 bits in place: halves of a block change places, then halves of those. */
static void transpose_block(uint64_t block[64])
{
    uint64_t mask = 0x00000000ffffffff;
    for (int size = 32; size > 0; size /= 2, mask ^= mask << size) {
        for (int i = 0; i < 64; i = (i + size + 1) & ~size) {
            const uint64_t moved = (block[i] >> size ^ block[i + size]) & mask;
            block[i] ^= moved << size;
            block[i + size] ^= moved;
        }
    }
}

typedef struct transposition {
    const uint64_t *from;
    uint64_t *to;
    ptrdiff_t n;
} transposition;

static void transpose_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const transposition *const t = context;
    const ptrdiff_t words = words_of(t->n);
    (void)member;
    for (ptrdiff_t down = first; down < last; ++down) {
        for (ptrdiff_t across = 0; across < words; ++across) {
            uint64_t block[64] = {0};
            for (ptrdiff_t i = 0; i < 64 && 64 * down + i < t->n; ++i) {
                block[i] = t->from[(64 * down + i) * words + across];
            }
            transpose_block(block);
            for (ptrdiff_t i = 0; i < 64 && 64 * across + i < t->n; ++i) {
                t->to[(64 * across + i) * words + down] = block[i];
            }
        }
    }
}

static void transpose(const uint64_t *from, uint64_t *to, ptrdiff_t n)
{
    transposition all = {from, to, n};
    const ptrdiff_t words = words_of(n);
    gd_team_run(words > 8 ? gd_team_size() : 1, words, 0, transpose_some, &all);
}

/* ---------------------------------------------------------------- strongly connected components */

/* A search in depth through a graph of bits. */
typedef struct search {
    ptrdiff_t n;
    uint64_t *fresh;  /* nodes not yet seen */
    ptrdiff_t *stack; /* the way down to the node at hand */
} search;

/* Visits all fresh nodes that `root` leads to and writes them to `order` as they are left; returns
 * how many. */
static ptrdiff_t visit(const search *s, const uint64_t *graph, ptrdiff_t root, ptrdiff_t *order)
{
    const ptrdiff_t words = words_of(s->n);
    ptrdiff_t depth = 0, left = 0;
    s->stack[depth++] = root;
    s->fresh[root / 64] &= ~(UINT64_C(1) << root % 64);
    while (depth > 0) {
        const uint64_t *row = graph + s->stack[depth - 1] * words;
        ptrdiff_t w = 0;
        while (w < words && (row[w] & s->fresh[w]) == 0) {
            ++w;
        }
        if (w == words) {
            order[left++] = s->stack[--depth];
            continue;
        }
        const uint64_t found = row[w] & s->fresh[w];
        s->fresh[w] ^= found & -found;
        s->stack[depth++] = 64 * w + __builtin_ctzll(found);
    }
    return left;
}

static void all_fresh(const search *s)
{
    memset(s->fresh, 0, (size_t)words_of(s->n) * sizeof(uint64_t));
    for (ptrdiff_t i = 0; i < s->n; ++i) {
        s->fresh[i / 64] |= UINT64_C(1) << i % 64;
    }
}

static bool is_fresh(const search *s, ptrdiff_t i) { return s->fresh[i / 64] >> i % 64 & 1; }

/* Kosaraju's method: nodes in the order in which a search leaves them, then searches against the
 * edges from the last left on; each finds one component. */
gd_status gd_perron_components(const uint64_t *pattern, ptrdiff_t n, gd_perron_split *split,
                               gd_error *err)
{
    /* The graph turned round, three lists of nodes, a bit for each. */
    const gd_device host = {GD_CPU, 0};
    const size_t bits = (size_t)words_of(n) * sizeof(uint64_t);
    const size_t graph = (size_t)n * bits, list = (size_t)n * sizeof(ptrdiff_t);
    void *memory;
    gd_status status =
        gd_alloc(host, NULL, graph + 3 * list + bits, "the search of A's graph", &memory, err);
    *split = (gd_perron_split){.components = 0};
    if (status != GD_OK) {
        return status;
    }
    uint64_t *turned = memory;
    ptrdiff_t *order = (ptrdiff_t *)((char *)memory + graph), *members = order + n, left = 0;
    const search s = {n, (uint64_t *)(members + 2 * n), members + n};
    transpose(pattern, turned, n);
    all_fresh(&s);
    for (ptrdiff_t i = 0; i < n; ++i) {
        left += is_fresh(&s, i) ? visit(&s, pattern, i, order + left) : 0;
    }
    all_fresh(&s);
    while (left > 0) {
        const ptrdiff_t root = order[--left];
        if (is_fresh(&s, root)) {
            const ptrdiff_t count = visit(&s, turned, root, members);
            /* The first found leads to others, if there are any, and none of them back. */
            if (split->components++ == 0) {
                split->source = root;
                split->source_size = count;
            }
            else {
                split->other = root;
            }
        }
    }
    gd_free(host, NULL, memory);
    return GD_OK;
}
