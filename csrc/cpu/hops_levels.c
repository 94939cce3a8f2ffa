/* hops_levels.c: numbers of hops between all nodes of a graph of few edges, by sets of bits.
 *
 * A node's set holds those targets that are `level` hops away from it. It is what its successors'
 * sets of the level before have, without what it has met already; so each level goes once over the
 * edges into those nodes whose sets are not empty. Targets are taken CHUNK at a time: then the sets
 * of all nodes stay in the second cache, and members of the team need not wait for each other.
 *
 * Floor: the result's bytes, where there are few levels. A graph with many levels has sets of few
 * targets, down to one, and then this is a search from every node by itself, in edges x n steps.
 * Where these become so many that Floyd-Warshall is quicker, it is given up (gd_hops). */
#include <stdatomic.h>
#include <string.h>

#include "cpu/pass.h"
#include "cpu/simd.h"
#include "kernels.h"
#include "sizes.h"
#include "team.h"

/* Targets at a time, in words of 32: a cache line. */
enum {
    WORDS = 16,
    CHUNK = 32 * WORDS,
    LANES = sizeof(gd_vi32) / sizeof(int32_t),
    NV = WORDS / LANES
};
/* Up to this many bits of a word are stored one by one. */
enum { FEW = 3 };

typedef struct target_set {
    gd_vi32 v[NV];
} target_set;

/* What one member works with: each node's set of this level and of the next, and what it has met;
 * which nodes' sets are not empty; and which are in the next level's list. */
typedef struct level_sets {
    int32_t *now, *next, *met, *live, *found;
    uint8_t *listed;
} level_sets;

typedef struct hops_job {
    gd_hops *call;
    const int32_t *first, *tails; /* edges by their heads */
    char *memory;
    size_t bytes;
    _Atomic double steps;
    gd_passed passed;
    gd_error *err;
} hops_job;

GD_INLINE target_set load_set(const int32_t *sets, ptrdiff_t node)
{
    target_set x;
    GD_UNROLL for (int v = 0; v < NV; ++v)
        x.v[v] = gd_load(sets + node * WORDS + v * LANES);
    return x;
}

GD_INLINE void store_set(int32_t *sets, ptrdiff_t node, target_set x)
{
    GD_UNROLL for (int v = 0; v < NV; ++v)
        gd_store(sets + node * WORDS + v * LANES, x.v[v]);
}

/* Writes `value` to those of 32 elements that `bits` has, `count` of which there are. */
#define DEFINE_STORE(name, T, V, M, I)                                                 \
    GD_INLINE void name(T *to, uint32_t bits, ptrdiff_t count, T value)                \
    {                                                                                  \
        enum { N = sizeof(V) / sizeof(T) };                                            \
        if (__builtin_popcount(bits) <= FEW || count < 32) {                           \
            for (; bits != 0; bits &= bits - 1)                                        \
                to[__builtin_ctz(bits)] = value;                                       \
            return;                                                                    \
        }                                                                              \
        M lane;                                                                        \
        for (int i = 0; i < N; ++i)                                                    \
            lane[i] = (I)1 << i;                                                       \
        GD_UNROLL for (int i = 0; i < 32; i += N) {                                    \
            const M some = ((M){0} + (I)(bits >> i)) & lane, mask = (M)(some == lane); \
            const V old = gd_load(to + i), fresh = gd_splat(value);                    \
            gd_store(to + i, (V)(((M)fresh & mask) | ((M)old & ~mask)));               \
        }                                                                              \
    }
DEFINE_STORE(store_f32, float, gd_vf32, gd_vi32, int32_t)
DEFINE_STORE(store_f64, double, gd_vf64, gd_vi64, int64_t)
DEFINE_STORE(store_i32, int32_t, gd_vi32, gd_vi32, int32_t)

/* The targets of a set, counted from `from` on, are so many hops away from a node. */
static void write_level(const gd_hops *call, ptrdiff_t node, ptrdiff_t from, const int32_t *set,
                        ptrdiff_t level)
{
    const gd_matrix *const out = &call->out;
    const ptrdiff_t at = node * out->row_stride + from;
    for (ptrdiff_t w = 0; w < WORDS; ++w) {
        const uint32_t bits = (uint32_t)set[w];
        const ptrdiff_t to = at + 32 * w, count = call->n - from - 32 * w;
        if (bits == 0)
            continue;
        if (out->dtype == GD_F32)
            store_f32((float *)out->data + to, bits, count, (float)level);
        else if (out->dtype == GD_F64)
            store_f64((double *)out->data + to, bits, count, (double)level);
        else
            store_i32((int32_t *)out->data + to, bits, count, (int32_t)level);
    }
}

static void fill_columns(const gd_hops *call, ptrdiff_t from, ptrdiff_t count)
{
    const gd_matrix *const out = &call->out;
    for (ptrdiff_t i = 0; i < call->n; ++i) {
        const ptrdiff_t at = i * out->row_stride + from;
        for (ptrdiff_t j = 0; j < count; ++j) {
            if (out->dtype == GD_F32)
                ((float *)out->data)[at + j] = (float)call->unreachable;
            else if (out->dtype == GD_F64)
                ((double *)out->data)[at + j] = call->unreachable;
            else
                ((int32_t *)out->data)[at + j] = (int32_t)call->unreachable;
        }
    }
}

/* One level more, of which `found` lists the nodes whose sets are not empty; returns how many. */
static ptrdiff_t go_on(const hops_job *job, level_sets *s, ptrdiff_t live, ptrdiff_t from,
                       ptrdiff_t level, double *steps)
{
    ptrdiff_t listed = 0, kept = 0;
    for (ptrdiff_t l = 0; l < live; ++l) {
        const int32_t head = s->live[l];
        const target_set there = load_set(s->now, head);
        *steps += job->first[head + 1] - job->first[head];
        for (int32_t e = job->first[head]; e < job->first[head + 1]; ++e) {
            const int32_t tail = job->tails[e];
            target_set x = there;
            if (s->listed[tail]) {
                const target_set other = load_set(s->next, tail);
                GD_UNROLL for (int v = 0; v < NV; ++v)
                    x.v[v] |= other.v[v];
            }
            else {
                s->listed[tail] = 1;
                s->found[listed++] = tail;
            }
            store_set(s->next, tail, x);
        }
    }
    for (ptrdiff_t l = 0; l < listed; ++l) {
        const int32_t node = s->found[l];
        target_set fresh = load_set(s->next, node), met = load_set(s->met, node);
        gd_vi32 any = {0};
        s->listed[node] = 0;
        GD_UNROLL for (int v = 0; v < NV; ++v) {
            fresh.v[v] &= ~met.v[v];
            met.v[v] |= fresh.v[v];
            any |= fresh.v[v];
        }
        if (gd_any(any)) {
            store_set(s->next, node, fresh);
            store_set(s->met, node, met);
            write_level(job->call, node, from, s->next + (ptrdiff_t)node * WORDS, level);
            s->found[kept++] = node;
        }
    }
    return kept;
}

GD_INLINE void swap(int32_t **x, int32_t **y)
{
    int32_t *const kept = *x;
    *x = *y;
    *y = kept;
}

/* All paths to CHUNK targets from `from` on. */
static void do_chunk(hops_job *job, level_sets *s, ptrdiff_t from)
{
    const gd_hops *const call = job->call;
    const ptrdiff_t n = call->n, count = gd_least(CHUNK, n - from);
    const double most = job->call->most_steps;
    ptrdiff_t live = count;
    fill_columns(call, from, count);
    for (ptrdiff_t i = 0; i < n; ++i) {
        store_set(s->met, i, (target_set){{{0}}});
        s->listed[i] = 0;
    }
    for (ptrdiff_t j = 0; j < count; ++j) {
        const ptrdiff_t node = from + j;
        memset(s->now + node * WORDS, 0, WORDS * sizeof *s->now);
        s->now[node * WORDS + j / 32] = (int32_t)(UINT32_C(1) << j % 32);
        s->met[node * WORDS + j / 32] = s->now[node * WORDS + j / 32];
        s->live[j] = (int32_t)node;
        write_level(call, node, from, s->now + node * WORDS, 0);
    }
    for (ptrdiff_t level = 1; live > 0 && level <= call->most_hops; ++level) {
        double steps = 0;
        live = go_on(job, s, live, from, level, &steps);
        steps += atomic_load_explicit(&job->steps, memory_order_relaxed);
        atomic_store_explicit(&job->steps, steps, memory_order_relaxed); /* may forget a few */
        if (steps > most)
            return;
        swap(&s->now, &s->next);
        swap(&s->live, &s->found);
    }
}

static void do_chunks(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    hops_job *const job = context;
    const ptrdiff_t n = job->call->n;
    const size_t sets = (size_t)n * WORDS;
    level_sets s;
    s.now = (int32_t *)(job->memory + (size_t)member * job->bytes);
    s.next = s.now + sets;
    s.met = s.next + sets;
    s.live = s.met + sets;
    s.found = s.live + n;
    s.listed = (uint8_t *)(s.found + n);
    for (ptrdiff_t chunk = begin; chunk < end; ++chunk) {
        const double done = (double)chunk * CHUNK / (double)n;
        const bool worth =
            atomic_load_explicit(&job->steps, memory_order_relaxed) <= job->call->most_steps;
        if (gd_goes_on(&job->call->launch, done, member, &job->passed, job->err) && worth)
            do_chunk(job, &s, chunk * CHUNK);
    }
}

/* Lists the edges by their heads, without those from a node to itself. */
static void turn_edges(const gd_hops *call, int32_t *first, int32_t *tails)
{
    const ptrdiff_t n = call->n;
    for (ptrdiff_t j = 0; j <= n; ++j)
        first[j] = 0;
    for (int fill = 0; fill < 2; ++fill) {
        for (ptrdiff_t i = 0; i < n; ++i)
            for (ptrdiff_t w = 0; w < call->words; ++w)
                for (uint32_t bits = call->bits[i * call->words + w]; bits; bits &= bits - 1) {
                    const ptrdiff_t j = 32 * w + __builtin_ctz(bits);
                    if (j != i && fill)
                        tails[first[j]++] = (int32_t)i;
                    else if (j != i)
                        ++first[j + 1];
                }
        for (ptrdiff_t j = 0; j < n && !fill; ++j)
            first[j + 1] += first[j];
    }
    for (ptrdiff_t j = n; j > 0; --j) /* each has become the next one's */
        first[j] = first[j - 1];
    first[0] = 0;
}

gd_status GD_ISA_NAME(gd_cpu_hops_levels)(gd_hops *call, gd_error *err)
{
    const ptrdiff_t n = call->n;
    const size_t sets = (size_t)n * WORDS * sizeof(int32_t);
    const size_t lists = (size_t)n * (2 * sizeof(int32_t) + 1);
    const size_t edges = ((size_t)(n + 1 + call->edges) * sizeof(int32_t) + 63) / 64 * 64;
    hops_job job = {.call = call, .passed = GD_OK, .err = err};
    job.bytes = (3 * sets + lists + 63) / 64 * 64;
    if (call->launch.sizing) {
        call->members = (int)gd_most(1, gd_least(gd_team_size(), gd_ceil_div(n, CHUNK)));
        call->launch.workspace_bytes = edges + (size_t)call->members * job.bytes;
        return GD_OK;
    }
    int32_t *const first = call->launch.workspace;
    turn_edges(call, first, first + n + 1);
    job.first = first;
    job.tails = first + n + 1;
    job.memory = (char *)call->launch.workspace + edges;
    gd_team_run(call->members, gd_ceil_div(n, CHUNK), 1, do_chunks, &job);
    call->gave_up = job.steps > call->most_steps;
    return job.passed;
}
