/* watch.c: looking up from long work at times, and keeping a device's queue short.
 *
 * Kernels' drivers pass here every round. Between two looks that costs a reading of the clock; a
 * look takes Python's lock, so there are 20 a second. On a CUDA device a round is only enqueued
 * here, and what is enqueued cannot be called back: so an event goes in after every piece of the
 * work, and nobody goes on while two of them are outstanding. The pieces' length is learned from
 * the events. The first is short on any GPU that we know; a call no longer than it waits for
 * nothing. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "watch.h"

#include <time.h>

#include "device.h"

#define LOOK_EVERY 0.05    /* seconds */
#define FIRST_PIECE 0x1p35 /* inner steps: 2 ms of an H200's min-plus, 0.3 s on the slowest GPU */
#define CUDA_SECONDS 0.03  /* of the pieces after it; two of them are ahead */
#define CPU_SECONDS 0.15   /* of a piece on the CPU */
#define MOST_TIMES 16      /* longer than the last is no piece, since work is uneven */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gd_status look_if_due(gd_watcher *w, double time, double done, gd_error *err)
{
    if (time < w->next) {
        return GD_OK;
    }
    const gd_status status = w->look(w->context, w->before + w->part * done, err);
    w->next = now() + LOOK_EVERY;
    return status;
}

/* A share of the call took 1 / `times` of the time that a piece should take. */
static void learn(gd_watcher *w, double share, double times)
{
    w->piece = share * (times < MOST_TIMES ? times : MOST_TIMES);
}

static void drop_oldest(gd_watcher *w)
{
    gd_cuda_event_free(w->events[0]);
    --w->count;
    for (int i = 0; i < w->count; ++i) {
        w->events[i] = w->events[i + 1];
        w->shares[i] = w->shares[i + 1];
    }
}

/* Waits until the second event has come, and makes pieces as long as what is between both tells. */
static gd_status wait_for_piece(gd_watcher *w, gd_error *err)
{
    double ms;
    const gd_status status = gd_cuda_event_elapsed(w->events[0], w->events[1], &ms, err);
    if (status == GD_OK) {
        learn(w, w->shares[1] - w->shares[0], CUDA_SECONDS / (1e-3 * ms));
        drop_oldest(w);
    }
    return status;
}

static gd_status pass(gd_watch *watch, const gd_launch *launch, double done, gd_error *err)
{
    gd_watcher *w = (gd_watcher *)watch;
    gd_status status;
    const double time = now();
    if (launch->device.backend == GD_CPU) {
        if (done > w->marked) {
            learn(w, done - w->marked, CPU_SECONDS / (time - w->last));
        }
        w->marked = done;
        w->last = time;
        return look_if_due(w, time, done, err);
    }
    /* After the last piece nobody goes on who would have to wait; an event takes as long to make,
     * to enqueue and to give back as a small call's kernel. */
    if (done >= 1 || done - w->marked < w->piece) {
        return look_if_due(w, time, w->count > 0 ? w->shares[0] : 0, err);
    }
    status = gd_cuda_event_record(launch->stream, &w->events[w->count], err);
    if (status != GD_OK) {
        return status;
    }
    w->shares[w->count++] = w->marked = done;
    if (w->count == GD_WATCH_EVENTS) {
        status = wait_for_piece(w, err);
    }
    return status == GD_OK ? look_if_due(w, now(), w->shares[0], err) : status;
}

void gd_watcher_start(gd_watcher *watcher, gd_look *look, void *context)
{
    *watcher = (gd_watcher){
        .watch = {pass}, .look = look, .context = context, .last = now(), .piece = 1, .part = 1};
    watcher->next = watcher->last + LOOK_EVERY;
}

void gd_watcher_end(gd_watcher *watcher)
{
    while (watcher->count > 0) {
        drop_oldest(watcher);
    }
}

void gd_watch_part(gd_watch *watch, double before, double part)
{
    gd_watcher *w = (gd_watcher *)watch;
    if (w != NULL) {
        gd_watcher_end(w);
        w->marked = 0;
        w->last = now();
        w->before = before;
        w->part = part;
    }
}

gd_status gd_watch_aside(gd_watch *watch, gd_error *err)
{
    gd_watcher *w = (gd_watcher *)watch;
    if (w == NULL) {
        return GD_OK;
    }
    w->last = now();
    return look_if_due(w, w->last, w->marked, err);
}

void gd_watch_first(gd_watch *watch, double share)
{
    gd_watcher *w = (gd_watcher *)watch;
    if (w != NULL) {
        w->piece = share < 1 ? share : 1;
    }
}

void gd_watch_work(gd_watch *watch, double work) { gd_watch_first(watch, FIRST_PIECE / work); }

double gd_watch_piece(const gd_watch *watch)
{
    return watch == NULL ? 1 : ((const gd_watcher *)watch)->piece;
}
