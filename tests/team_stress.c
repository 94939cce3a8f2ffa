/* team_stress.c: many threads that call the team at once, with calls in calls, forks and exits in
 * the midst of calls. tests/test_threads.py builds it with sanitizers. It prints nothing and
 * returns 0, or says what was wrong and aborts. */
#define _GNU_SOURCE /* rand_r */
#include "team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 6, MEMBERS = 5, MOST_ITEMS = 700 };

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

typedef struct job {
    int done[MOST_ITEMS];   /* how often each item was; plain, so that a race is seen */
    int of_member[MEMBERS]; /* items; plain as well: a member is one thread at a time */
    pthread_t caller;
    int members, depth, fork_at, exit_at;
    bool alone_in_fork, slow; /* so slow that every worker comes */
    bool fork_in_inner;
    struct job *outer;
    pid_t child, home; /* home: where the call is; what another process left is nobody's */
} job;

static void run(job *j, ptrdiff_t count, ptrdiff_t grain);

static void do_items(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    job *const j = context;
    check(getpid() == j->home, "another process's call goes on");
    check(member >= 0 && member < j->members, "a member that there is not");
    check((member == 0) == pthread_equal(pthread_self(), j->caller), "member 0 is the caller");
    for (ptrdiff_t i = first; i < last; ++i) {
        j->done[i] += 1;
        j->of_member[member] += 1;
        for (volatile int spin = 0; spin < 100; ++spin) {
        }
    }
    if (j->slow) {
        usleep(100);
    }
    if (j->depth > 0 && first % 7 == 0) {
        job inner = {.members = 3, .depth = j->depth - 1, .fork_at = -1, .exit_at = -1};
        run(&inner, 50, 3);
    }
    if (member == 0 && j->fork_in_inner) {
        j->fork_in_inner = false;
        job inner = {.members = MEMBERS, .fork_at = 0, .exit_at = -1, .slow = true, .outer = j};
        do {
            memset(inner.done, 0, sizeof inner.done);
            memset(inner.of_member, 0, sizeof inner.of_member);
            run(&inner, 40, 1);
        } while (inner.fork_at >= 0); /* workers did all of it */
        j->child = inner.child, j->alone_in_fork = inner.alone_in_fork;
    }
    if (member == 0 && j->fork_at >= 0 && first >= j->fork_at) {
        j->fork_at = -1;
        fflush(NULL);
        j->child = fork();
        check(j->child >= 0, "no fork");
        j->alone_in_fork = j->child == 0;
        if (j->alone_in_fork) { /* the call is not over, so its place is not free */
            for (job *ours = j; ours != NULL; ours = ours->outer) {
                ours->home = getpid();
            }
            job inner = {.members = MEMBERS, .fork_at = -1, .exit_at = -1, .slow = true};
            run(&inner, 40, 1);
        }
    }
    if (member == 0 && j->exit_at >= 0 && first >= j->exit_at) {
        pthread_exit(NULL);
    }
}

static void run(job *j, ptrdiff_t count, ptrdiff_t grain)
{
    int items = 0;
    j->caller = pthread_self();
    j->home = getpid();
    gd_team_run(j->members, count, grain, do_items, j);
    for (ptrdiff_t i = 0; i < count; ++i) {
        check(j->done[i] == 1, "an item was not done once");
    }
    for (int m = 0; m < MEMBERS; ++m) {
        items += j->of_member[m];
    }
    check(items == count, "members' items are not all");
}

static void *call_often(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    for (int round = 0; round < 300; ++round) {
        job j = {.fork_at = -1, .exit_at = -1};
        j.members = 1 + rand_r(&state) % MEMBERS;
        j.depth = rand_r(&state) % 8 == 0;
        run(&j, rand_r(&state) % MOST_ITEMS, rand_r(&state) % 9);
    }
    return NULL;
}

/* Leaves in the midst of a call whose memory is this thread's stack. */
static void *leave(void *unused)
{
    (void)unused;
    job j = {.members = MEMBERS, .fork_at = -1, .exit_at = 0};
    run(&j, MOST_ITEMS, 1);
    check(j.of_member[0] == 0, "a call went on after pthread_exit");
    return NULL;
}

static void end_child(pid_t child)
{
    int status;
    check(waitpid(child, &status, 0) == child, "no child to wait for");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
}

/* Forks in the midst of a call, or of a call in a call: both processes finish it, and the child can
 * call again. */
static void fork_within(bool in_inner)
{
    job j = {.members = MEMBERS, .fork_at = in_inner ? -1 : 0, .exit_at = -1, .slow = true};
    j.fork_in_inner = in_inner;
    run(&j, 40, 1);
    if (j.of_member[0] == 0) {
        return; /* workers did all of it */
    }
    if (j.alone_in_fork) {
        job again = {.members = MEMBERS, .fork_at = -1, .exit_at = -1};
        run(&again, MOST_ITEMS, 1);
        _exit(0);
    }
    end_child(j.child);
}

static void fork_between(void)
{
    const pid_t child = fork();
    if (child == 0) {
        call_often((void *)7);
        _exit(0);
    }
    end_child(child);
}

/* Lets fewer in than there are workers. */
static void call_few(void)
{
    for (int round = 0; round < 50; ++round) {
        job j = {.members = 2 + round % 2, .fork_at = -1, .exit_at = -1, .slow = true};
        run(&j, 30, 1);
    }
}

/* Whether every member did something. */
static bool all_came(const job *j)
{
    for (int m = 0; m < j->members; ++m) {
        if (j->of_member[m] == 0) {
            return false;
        }
    }
    return true;
}

/* Workers that sleep are woken, however many calls there were before. A busy machine may give them
 * no time for a while. */
static void wake_everybody(void)
{
    for (int round = 0; round < 200; ++round) {
        job j = {.members = MEMBERS, .fork_at = -1, .exit_at = -1, .slow = true};
        usleep(10000);
        run(&j, 80, 1);
        if (all_came(&j)) {
            return;
        }
    }
    check(false, "nobody woke the others");
}

/* Has more calls in progress than there are places for them. */
static void nest(void *depth, ptrdiff_t first, ptrdiff_t last, int member)
{
    int *const below = depth;
    (void)last, (void)member;
    if (first == 0 && *below > 0) {
        int next = *below - 1, left = -1;
        gd_team_run(2, 2, 1, nest, &next);
        gd_team_run(2, 2, 1, nest, &left);
    }
}

static void count_items(void *count, ptrdiff_t first, ptrdiff_t last, int member)
{
    (void)member;
    atomic_fetch_add((_Atomic ptrdiff_t *)count, last - first);
}

/* More chunks than a ticket can count. */
static void count_many(void)
{
    const ptrdiff_t many = ((ptrdiff_t)1 << 22) + 5;
    _Atomic ptrdiff_t count = 0;
    gd_team_run(3, many, 1, count_items, &count);
    check(count == many, "not every item of many");
}

/* Members that begin together are as many threads. */
static void meet(void)
{
    for (int round = 0; round < 200; ++round) {
        job j = {.members = MEMBERS, .fork_at = -1, .exit_at = -1};
        j.caller = pthread_self();
        j.home = getpid();
        gd_team_run_together(MEMBERS, do_items, &j);
        if (all_came(&j)) {
            return;
        }
    }
    check(false, "members did not wait for each other");
}

int main(void)
{
    pthread_t callers[CALLERS], leaver;
    int depth = 100;
    wake_everybody();
    call_few();
    nest(&depth, 0, 1, 0);
    count_many();
    for (size_t i = 0; i < CALLERS; ++i) {
        check(pthread_create(&callers[i], NULL, call_often, (void *)(i + 1)) == 0, "no thread");
    }
    for (int round = 0; round < 20; ++round) {
        check(pthread_create(&leaver, NULL, leave, NULL) == 0, "no thread");
        pthread_join(leaver, NULL);
        fork_within(round % 2);
        fork_between();
    }
    for (int i = 0; i < CALLERS; ++i) {
        pthread_join(callers[i], NULL);
    }
    wake_everybody();
    meet();
    return 0;
}
