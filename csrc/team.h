/* team.h: threads that share the work of a call.
 *
 * A call's work is cut into chunks. The calling thread takes one chunk after the other, and so does
 * every worker of the process's one team that gets to run. Nobody waits for a worker that has begun
 * nothing: where other threads keep the cores busy, as those of a BLAS do for a while after each
 * product, the caller does the work alone. Results may depend neither on who takes a chunk nor on
 * when, and chunks of one call have to be independent.
 *
 * OpenMP's settings hold (OMP_NUM_THREADS, OMP_PROC_BIND, threadpoolctl); its regions are never
 * opened. Threads that the system refuses are done without. Any number of threads may call at once,
 * chunks may make calls of their own, and a forked child hires new workers. A thread may leave by
 * pthread_exit out of a chunk that it took as the caller, which Python's daemon threads do when the
 * interpreter ends: it leaves once the chunks that workers have begun are done. */
#ifndef GPUDIST_TEAM_H
#define GPUDIST_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GD_MOST_MEMBERS = 1023 };

/* The members that a call of this thread should have: OMP_NUM_THREADS, OMP_THREAD_LIMIT and
 * threadpoolctl are heard, and there is one within a parallel region of somebody else's. */
int gd_team_size(void);
/* The cores that the process may use. */
int gd_team_cores(void);

/* Has that many workers be there, if there are cores for them and the system allows it: for calls
 * at once whose members mostly wait, and are not bounded by the team's size. */
void gd_team_hire(int wanted);

/* How many of `members` find memory of their own, `own` bytes each, in a workspace of which
 * `shared` bytes are for all: the team's size may have changed since the launcher was asked for
 * sizes. */
static inline int gd_team_that_fits(size_t workspace_bytes, size_t shared, size_t own, int members)
{
    const size_t room = (workspace_bytes - shared) / own;
    return room < (size_t)members ? (int)room : members;
}

/* Does the work items from `first` to before `last`. Of members 0 to members - 1, the caller is
 * number 0, and no two threads are the same at a time: memory for each member can be scratch. */
typedef void gd_team_part(void *context, ptrdiff_t first, ptrdiff_t last, int member);

/* Has `count` items done and returns when all are, with chunks of `grain` items, which are taken in
 * ascending order; of 0, with a few equal chunks for each member. With one member all are one part.
 * What parts wrote can be read after it. */
void gd_team_run(int members, ptrdiff_t count, ptrdiff_t grain, gd_team_part *part, void *context);

/* Has each of `members` items done by a member of its own, all of which begin together, for
 * measurements: whoever comes first waits up to a tenth of a second for the others. */
void gd_team_run_together(int members, gd_team_part *part, void *context);

/* Whether the word changes from `seen` within some seconds, which are spent awake: who sleeps comes
 * later by as much as a core takes to wake. Others get the core meanwhile. */
bool gd_team_watch(_Atomic uint32_t *word, uint32_t seen, double seconds);

#endif
