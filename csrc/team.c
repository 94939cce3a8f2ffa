/* team.c: the team of threads behind team.h.
 *
 * A call in progress has a slot of a fixed table. The slot's ticket, one word, tells which call it
 * is, how many more members may join it and how many of its chunks nobody has begun; chunks are
 * taken by compare-and-swap on the whole word, so that a worker which comes late, however late,
 * takes nothing. Workers count what they have done in the slot, and the caller waits for chunks,
 * not for threads: a worker may sleep wherever it holds no chunk.
 *
 * Who has nothing to do watches a bell that every call rings, and sleeps after a while. The caller
 * watches for the chunks that others hold, then sleeps too: a worker that lost its core in the
 * midst of one may get the caller's. How long they watch is less than libgomp does; on 2 cores that
 * 25 other processes wanted as well, 0.2 to 1 ms and 0.05 to 0.3 ms could not be told apart. */
#define _GNU_SOURCE /* sched_getaffinity, pthread_setname_np, syscall */
#include "team.h"

#include "sizes.h"

#include <limits.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 64, /* calls at once that get help */
    LEFT_BITS = 22,
    ROOM_BITS = 10,
    CHUNKS_A_MEMBER = 4, /* of equal ones */
    LINE = 128,          /* bytes: two lines of a cache are fetched together */
};
_Static_assert(GD_MOST_MEMBERS < 1 << ROOM_BITS, "members have to fit the ticket");

#define MOST_LEFT (((ptrdiff_t)1 << LEFT_BITS) - 1)
#define ONE_MEMBER ((uint64_t)1 << LEFT_BITS)
#define STACK_BYTES ((size_t)2 << 20)
#define WORKER_WATCHES 1e-3 /* seconds; between phases and calls in a row nobody should sleep */
#define CALLER_WATCHES 300e-6
#define HIRE_AGAIN 1.0 /* seconds after the system refused a thread */
#define TOGETHER 0.1

/* From the top: the call's number, the room for members, the chunks that nobody has begun. */
typedef uint64_t ticket;

static int left_of(ticket t) { return (int)(t & (uint64_t)MOST_LEFT); }
static int room_of(ticket t) { return (int)(t >> LEFT_BITS & GD_MOST_MEMBERS); }
static uint64_t number_of(ticket t) { return t >> (LEFT_BITS + ROOM_BITS); }
static ticket without_chunks(ticket t) { return t & ~(uint64_t)MOST_LEFT; }

typedef struct work {
    gd_team_part *part;
    void *context;
    ptrdiff_t count, grain;
    int chunks, members;
} work;

/* A place for one call. `work` may be read by the caller and by who has taken a chunk. */
typedef struct slot {
    _Alignas(LINE) _Atomic ticket ticket;
    _Atomic bool taken;
    work work;
    _Alignas(LINE) _Atomic uint32_t done; /* chunks, by workers */
    _Atomic bool caller_sleeps;
} slot;

/* What the calling thread knows of its call. */
typedef struct call {
    slot *slot;
    ticket held;        /* back from others while the process forks */
    int mine;           /* chunks that the caller took */
    struct call *outer; /* that this one is a part of */
} call;

static slot slots[SLOTS];
static _Alignas(LINE) _Atomic uint32_t bell;
static _Alignas(LINE) _Atomic int slots_used; /* those from here on have never been taken */
static _Atomic int workers, sleepers;
static pthread_mutex_t hiring = PTHREAD_MUTEX_INITIALIZER;
static double refused_at = -HIRE_AGAIN; /* guarded by `hiring` */
static _Thread_local call *innermost;

/* ---------------------------------------------------------------- waiting */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* Returns at once if the word is no longer `seen`. */
static void sleep_at(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void wake_at(_Atomic uint32_t *word, int most)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

bool gd_team_watch(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
    double until = 0;
    for (int round = 0;; ++round) {
        for (int i = 0; i < 32; ++i) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) {
                return true;
            }
            pause_briefly();
        }
        const double time = now();
        if (round == 0) {
            until = time + seconds;
        }
        else if (time >= until) {
            return false;
        }
        sched_yield();
    }
}

/* ---------------------------------------------------------------- chunks */

/* Takes the next chunk of the call that *t is of, if there is one. */
static bool take(slot *s, ticket *t)
{
    const uint64_t number = number_of(*t);
    while (number_of(*t) == number && left_of(*t) > 0) {
        if (atomic_compare_exchange_weak_explicit(&s->ticket, t, *t - 1, memory_order_acquire,
                                                  memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

/* Joins the call in a slot by taking a chunk, if there is room in it and a chunk. Nobody leaves it
 * as long as there are chunks, so every member has a number of its own. */
static bool join(slot *s, ticket *t)
{
    *t = atomic_load_explicit(&s->ticket, memory_order_acquire);
    while (left_of(*t) > 0 && room_of(*t) > 0) {
        if (atomic_compare_exchange_weak_explicit(&s->ticket, t, *t - ONE_MEMBER - 1,
                                                  memory_order_acquire, memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

/* Does the chunk that was taken when so many were left. */
static void do_chunk(const work *w, int left, int member)
{
    const ptrdiff_t first = (w->chunks - left) * w->grain, rest = w->count - first;
    w->part(w->context, first, first + (rest < w->grain ? rest : w->grain), member);
}

/* Helps with the call in a slot; false if there is nothing to do. */
static bool help(slot *s)
{
    ticket t;
    uint32_t finished = 0;
    if (!join(s, &t)) {
        return false;
    }
    const work w = s->work;
    const int member = w.members - room_of(t);
    do {
        do_chunk(&w, left_of(t), member);
        ++finished;
        t -= 1; /* as it was left; if it has changed since, `take` sees that */
    } while (take(s, &t));
    /* From here on the slot may be another call's, whose caller takes no harm from being woken. */
    atomic_fetch_add(&s->done, finished);
    if (atomic_load(&s->caller_sleeps)) {
        wake_at(&s->done, 1);
    }
    return true;
}

/* Waits until workers have done so many chunks. */
static void await(slot *s, uint32_t wanted)
{
    uint32_t seen;
    while ((seen = atomic_load_explicit(&s->done, memory_order_acquire)) != wanted) {
        if (!gd_team_watch(&s->done, seen, CALLER_WATCHES)) {
            atomic_store(&s->caller_sleeps, true);
            sleep_at(&s->done, seen);
            atomic_store(&s->caller_sleeps, false);
        }
    }
}

/* ---------------------------------------------------------------- workers */

/* A worker may run where its OpenMP place is, if threads are bound, or else wherever the process
 * may: who hires it can be bound to a core of its own. */
static void settle(int worker)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    const int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    if (places == 0) {
        if (sched_getaffinity(getpid(), sizeof cores, &cores) != 0) {
            return; /* more cores than a set has room for */
        }
    }
    else {
        int ids[CPU_SETSIZE];
        const int place = worker % places, count = omp_get_place_num_procs(place);
        if (count > CPU_SETSIZE) {
            return;
        }
        omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < count; ++i) {
            CPU_SET(ids[i], &cores);
        }
    }
    (void)sched_setaffinity(0, sizeof cores, &cores); /* a wish */
}

static bool help_anyone(void)
{
    bool helped = false;
    for (int i = 0; i < atomic_load_explicit(&slots_used, memory_order_acquire); ++i) {
        helped |= help(&slots[i]);
    }
    return helped;
}

static void *live(void *number)
{
    const int worker = (int)(intptr_t)number; /* from 1 on */
    const double patience = worker < gd_team_cores() ? WORKER_WATCHES : 0;
    settle(worker);
    for (;;) {
        const uint32_t seen = atomic_load(&bell);
        if (help_anyone() || gd_team_watch(&bell, seen, patience)) {
            continue;
        }
        atomic_fetch_add(&sleepers, 1);
        sleep_at(&bell, seen);
        atomic_fetch_sub(&sleepers, 1);
    }
    return NULL;
}

/* Starts workers until there are so many, or as many as the system allows. Signals that are meant
 * for the process are not for them; those that a fault sends are. */
static void hire(int wanted)
{
    static const int of_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    if (atomic_load_explicit(&workers, memory_order_relaxed) >= wanted ||
        pthread_mutex_trylock(&hiring) != 0) {
        return;
    }
    int count = atomic_load(&workers);
    pthread_attr_t attributes;
    if (count < wanted && now() >= refused_at + HIRE_AGAIN && pthread_attr_init(&attributes) == 0) {
        sigset_t blocked, before;
        sigfillset(&blocked);
        for (size_t i = 0; i < sizeof of_faults / sizeof *of_faults; ++i) {
            sigdelset(&blocked, of_faults[i]);
        }
        pthread_sigmask(SIG_SETMASK, &blocked, &before);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_t thread;
        while (count < wanted &&
               pthread_create(&thread, &attributes, live, (void *)(intptr_t)(count + 1)) == 0) {
            char name[24];
            atomic_store(&workers, ++count);
            snprintf(name, sizeof name, "gpudist %d", count % 10000);
            pthread_setname_np(thread, name); /* workers do not end */
        }
        if (count < wanted) {
            refused_at = now();
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    pthread_mutex_unlock(&hiring);
}

void gd_team_hire(int wanted)
{
    const int most = gd_team_cores() - 1;
    hire(wanted < most ? wanted : most);
}

/* ---------------------------------------------------------------- calls */

static slot *take_slot(void)
{
    for (int i = 0; i < SLOTS; ++i) {
        if (!atomic_load_explicit(&slots[i].taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&slots[i].taken, true, memory_order_acquire)) {
            int used = atomic_load(&slots_used);
            while (used <= i && !atomic_compare_exchange_weak(&slots_used, &used, i + 1)) {
            }
            return &slots[i];
        }
    }
    return NULL;
}

/* Lets workers take chunks. */
static void publish(slot *s, ticket t)
{
    atomic_store_explicit(&s->ticket, t, memory_order_release);
    atomic_fetch_add(&bell, 1);
    if (left_of(t) > 1 && atomic_load(&sleepers) > 0) {
        const int room = room_of(t), chunks = left_of(t) - 1;
        wake_at(&bell, room < chunks ? room : chunks);
    }
}

/* Has nobody take another chunk, and waits for those that workers have; returns the ticket that the
 * others would have been taken by. */
static ticket withdraw(call *c)
{
    slot *const s = c->slot;
    const ticket t = atomic_fetch_and(&s->ticket, without_chunks(UINT64_MAX));
    await(s, (uint32_t)(s->work.chunks - c->mine - left_of(t)));
    return t;
}

static void finish(void *the_call)
{
    call *const c = the_call;
    (void)withdraw(c);
    innermost = c->outer;
    atomic_store_explicit(&c->slot->taken, false, memory_order_release);
}

/* Takes chunks as the caller. Whoever leaves by pthread_exit passes by `finish` as well. */
static void lead(call *c)
{
    pthread_cleanup_push(finish, c);
    slot *const s = c->slot;
    ticket t = atomic_load_explicit(&s->ticket, memory_order_relaxed);
    for (; take(s, &t); t -= 1) {
        c->mine += 1;
        do_chunk(&s->work, left_of(t), 0);
    }
    pthread_cleanup_pop(1);
}

void gd_team_run(int members, ptrdiff_t count, ptrdiff_t grain, gd_team_part *part, void *context)
{
    if (count <= 0) {
        return;
    }
    members = members < GD_MOST_MEMBERS ? members : GD_MOST_MEMBERS;
    if (grain == 0) {
        grain = gd_ceil_div(count, (ptrdiff_t)members * CHUNKS_A_MEMBER);
    }
    const ptrdiff_t least = gd_ceil_div(count, MOST_LEFT);
    grain = grain > least ? grain : least;
    const int chunks = (int)gd_ceil_div(count, grain);
    slot *const s = members > 1 && chunks > 1 ? take_slot() : NULL;
    if (s == NULL) {
        part(context, 0, count, 0);
        return;
    }
    const int size = gd_team_size(); /* others may call meanwhile */
    hire((members > size ? members : size) - 1);
    call c = {.slot = s, .outer = innermost};
    innermost = &c;
    s->work = (work){part, context, count, grain, chunks, members};
    atomic_store_explicit(&s->done, 0, memory_order_relaxed);
    const uint64_t number = number_of(atomic_load(&s->ticket)) + 1, room = (uint64_t)members - 1;
    publish(s, number << (LEFT_BITS + ROOM_BITS) | room << LEFT_BITS | (uint64_t)chunks);
    lead(&c);
}

typedef struct gathering {
    gd_team_part *part;
    void *context;
    int expected;
    _Atomic int present;
} gathering;

static void gather(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    gathering *const g = context;
    const double until = now() + TOGETHER;
    atomic_fetch_add(&g->present, (int)(last - first));
    while (atomic_load(&g->present) < g->expected && now() < until) {
        pause_briefly();
    }
    g->part(g->context, first, last, member);
}

void gd_team_run_together(int members, gd_team_part *part, void *context)
{
    hire(members - 1);
    const int there = 1 + atomic_load(&workers);
    gathering g = {part, context, members < there ? members : there, 0};
    gd_team_run(members, members, 1, gather, &g);
}

/* ---------------------------------------------------------------- settings */

/* No more than there can be: each may cost memory in a workspace. */
int gd_team_size(void)
{
    const int asked = omp_get_max_threads(), limit = omp_get_thread_limit();
    const int size = asked < limit ? asked : limit;
    return omp_get_active_level() >= omp_get_max_active_levels() ? 1
           : size < GD_MOST_MEMBERS                              ? size
                                                                 : GD_MOST_MEMBERS;
}

int gd_team_cores(void) { return omp_get_num_procs(); }

/* ---------------------------------------------------------------- forks */

/* A process forks with no chunk of the forking thread's calls in hand: the child, where only that
 * thread lives, has the rest of them to do. */
static void before_fork(void)
{
    pthread_mutex_lock(&hiring);
    for (call *c = innermost; c != NULL; c = c->outer) {
        c->held = withdraw(c);
    }
}

static void after_fork(void)
{
    for (call *c = innermost; c != NULL; c = c->outer) {
        publish(c->slot, c->held);
    }
    pthread_mutex_unlock(&hiring);
}

static void after_fork_in_child(void)
{
    atomic_store(&workers, 0);
    atomic_store(&sleepers, 0);
    refused_at = -HIRE_AGAIN;
    for (int i = 0; i < SLOTS; ++i) {
        atomic_fetch_and(&slots[i].ticket, without_chunks(UINT64_MAX));
        atomic_store(&slots[i].taken, false);
    }
    for (call *c = innermost; c != NULL; c = c->outer) {
        atomic_store(&c->slot->taken, true);
    }
    after_fork();
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
