/* watch.h: the watcher that a call brings along: when to look up from the work, and, on a CUDA
 * device, how far to run ahead of it. */
#ifndef GPUDIST_WATCH_H
#define GPUDIST_WATCH_H

#include "gpudist.h"

/* Looks whether to go on, and may tell somebody which share of the call is done. Anything but GD_OK
 * stops the call. */
typedef gd_status gd_look(void *context, double done, gd_error *err);

/* Events in flight on a device: one that has passed, and two that have not. */
enum { GD_WATCH_EVENTS = 3 };

typedef struct gd_watcher {
    gd_watch watch; /* first: a gd_watch of ours is a gd_watcher */
    gd_look *look;
    void *context;
    double next;          /* when to look again, in seconds of the monotonic clock */
    double last;          /* when somebody passed by, on the CPU */
    double piece, marked; /* shares of the call: of a piece; done when the last one ended */
    void *events[GD_WATCH_EVENTS];  /* the oldest first */
    double shares[GD_WATCH_EVENTS]; /* done when the event comes */
    int count;
    double before, part; /* what the work at hand is of the call: where it begins, and its share */
} gd_watcher;

void gd_watcher_start(gd_watcher *watcher, gd_look *look, void *context);
/* Gives back what the device needed for it. */
void gd_watcher_end(gd_watcher *watcher);
/* From here on the work is a part of the call, begun anew. watch may be NULL, here and below. */
void gd_watch_part(gd_watch *watch, double before, double part);
/* On the CPU: passes by in work that is no share of the call. */
gd_status gd_watch_aside(gd_watch *watch, gd_error *err);
/* Before the first launch: which share of the call comes before it is known how long a share takes.
 * It is to take some tenths of a second at most. */
void gd_watch_first(gd_watch *watch, double share);
/* Tells it for a call of `work` inner steps that are as quick as an addition and a minimum. */
void gd_watch_work(gd_watch *watch, double work);
/* The share of the call to do before passing by again, for work that can be cut up anywhere: the
 * first, and then what took some 150 ms on the CPU, 30 ms on a device. */
double gd_watch_piece(const gd_watch *watch);

#endif
