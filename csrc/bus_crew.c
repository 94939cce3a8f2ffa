/* bus_crew.c: threads that copy pieces for one that talks to the device.
 *
 * They are called together once for many pieces. To call the team for each made workers watch for
 * the next call all the time, more of them than there are cores with another device's: one that had
 * something in hand then waited 3 ms for its core, and a graph of 1 GB came to two H100s in 25 ms
 * where the bus needs 10. */
#include "bus_crew.h"

#include "bus_slots.h"
#include "team.h"

/* Seconds that a helper waits awake for what lands next. */
static const double AWAKE = 200e-6;

/* The lock is held. */
static void ring(gd_crew *c)
{
    atomic_fetch_add(&c->bell, 1);
    pthread_cond_broadcast(&c->some);
}

/* Copies the next part of the pieces; false if there is none. The lock is held, but not while it
 * copies. */
static bool take_part(gd_crew *c)
{
    if (c->taken == c->given) {
        return false;
    }
    const ptrdiff_t slot = c->taken % GD_CREW_PIECES, part = c->part++;
    const gd_rows *const piece = &c->piece[slot];
    if (c->part == piece->parts) {
        c->taken += 1;
        c->part = 0;
    }
    pthread_mutex_unlock(&c->lock);
    gd_copy_part(piece, part);
    pthread_mutex_lock(&c->lock);
    c->left[slot] -= 1;
    /* In order: a piece may be finished before an earlier one. */
    for (; c->finished < c->taken && c->left[c->finished % GD_CREW_PIECES] == 0; ++c->finished) {
        pthread_cond_signal(&c->one);
    }
    return true;
}

/* The same for what is urgent. */
static bool serve(gd_crew *c)
{
    if (c->begun == c->urgent.parts) {
        return false;
    }
    const gd_rows rows = c->urgent;
    const ptrdiff_t part = c->begun++;
    pthread_mutex_unlock(&c->lock);
    gd_copy_part(&rows, part);
    pthread_mutex_lock(&c->lock);
    if (++c->done == rows.parts) {
        pthread_cond_signal(&c->one);
    }
    return true;
}

void gd_crew_copy(gd_crew *c, const gd_rows *rows)
{
    pthread_mutex_lock(&c->lock);
    c->urgent = *rows;
    c->begun = c->done = 0;
    ring(c);
    while (c->done < rows->parts) {
        if (!serve(c)) {
            pthread_cond_wait(&c->one, &c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void gd_crew_give(gd_crew *c, const gd_rows *piece)
{
    pthread_mutex_lock(&c->lock);
    const ptrdiff_t slot = c->given % GD_CREW_PIECES;
    c->piece[slot] = *piece;
    c->left[slot] = piece->parts;
    c->given += 1;
    ring(c);
    pthread_mutex_unlock(&c->lock);
}

ptrdiff_t gd_crew_finished(gd_crew *c)
{
    pthread_mutex_lock(&c->lock);
    const ptrdiff_t count = c->finished;
    pthread_mutex_unlock(&c->lock);
    return count;
}

void gd_crew_await(gd_crew *c, ptrdiff_t before)
{
    pthread_mutex_lock(&c->lock);
    while (c->finished <= before) {
        if (!take_part(c)) {
            pthread_cond_wait(&c->one, &c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

/* Waits until the bell rings. The lock is held, but not meanwhile. While many devices are at work
 * their pieces are so short that nobody should have to be woken for each: a bare program got 133
 * GB/s from four H100s so, and 113 else. There have to be cores for that. */
static void wait_for_parts(gd_crew *c)
{
    const uint32_t seen = atomic_load(&c->bell);
    const int buses = gd_buses_at_work();
    if (buses > GD_FEW_BUSES && gd_leave_cores(buses * c->helpers)) {
        pthread_mutex_unlock(&c->lock);
        (void)gd_team_watch(&c->bell, seen, AWAKE);
        pthread_mutex_lock(&c->lock);
    }
    if (atomic_load(&c->bell) == seen) {
        pthread_cond_wait(&c->some, &c->lock);
    }
}

static void help(gd_crew *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->over) {
        if (!serve(c) && !take_part(c)) {
            wait_for_parts(c);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

/* A crew and its leader. */
typedef struct company {
    gd_crew *crew;
    gd_lead *lead;
    void *context;
    gd_status status;
    gd_error *err;
    bool led;
} company;

/* The caller leads, whichever of the items it takes first; the others help until that has ended. */
static void join_company(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    company *const all = context;
    gd_crew *const crew = all->crew;
    (void)first, (void)last;
    if (member > 0) {
        help(crew);
    }
    else if (!all->led) {
        all->led = true;
        all->status = all->lead(all->context, crew, all->err);
        pthread_mutex_lock(&crew->lock);
        crew->over = true;
        ring(crew);
        pthread_mutex_unlock(&crew->lock);
    }
}

gd_status gd_crew_run(gd_crew *crew, ptrdiff_t parts, gd_lead *lead, void *context, gd_error *err)
{
    const int helpers = parts < gd_copiers() ? (int)parts : gd_copiers();
    company all = {crew, lead, context, GD_OK, err, false};
    *crew = (gd_crew){.helpers = helpers};
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->some, NULL);
    pthread_cond_init(&crew->one, NULL);
    gd_team_hire(gd_buses_at_work() * helpers); /* another device's crew has those that are there */
    gd_team_run(helpers + 1, helpers + 1, 1, join_company, &all);
    pthread_cond_destroy(&crew->one);
    pthread_cond_destroy(&crew->some);
    pthread_mutex_destroy(&crew->lock);
    return all.status;
}
