/* bus_common.c: rows of the host that several devices want as a whole.
 *
 * Who comes to bring them waits for the others, and for who comes too late nobody waits: then each
 * of them goes alone, as all do whose devices do not reach each other. A member's memory is written
 * by all others, so that nobody goes on, not even in failure, before all have enqueued what they
 * send, and those who go on do so behind it. */
#define _GNU_SOURCE /* pthread_condattr_setclock, clock_gettime */
#include "bus_common.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "device.h"

/* Fewer bytes are there before the members have met. */
static const size_t WORTH_MEETING = (size_t)32 << 20;
static const long PATIENCE = 100000000; /* nanoseconds */

typedef struct gd_member {
    char *to;
    int device;
    void *arrived, *sent; /* marks: a piece has come from the host; all is sent to the others */
} gd_member;

struct gd_common {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int members, came, sent;
    bool met, shut; /* all have come; nobody waits for anybody any more */
    bool failed;    /* somebody could not send his share */
    gd_member member[GD_MOST_DEVICES];
};

gd_common *gd_common_new(int members)
{
    gd_common *const common = calloc(1, sizeof *common);
    pthread_condattr_t monotonic;
    if (common != NULL) {
        common->members = members;
        common->shut = members < 2 || members > GD_MOST_DEVICES;
        pthread_mutex_init(&common->lock, NULL);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&common->moved, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    return common;
}

void gd_common_free(gd_common *common)
{
    for (int i = 0; i < common->came; ++i) {
        gd_cuda_mark_free(common->member[i].arrived);
        gd_cuda_mark_free(common->member[i].sent);
    }
    pthread_cond_destroy(&common->moved);
    pthread_mutex_destroy(&common->lock);
    free(common);
}

/* Whether all members' devices reach each other. */
static gd_status ask_devices(const gd_common *c, bool *reach, gd_error *err)
{
    gd_status status = GD_OK;
    *reach = true;
    for (int i = 0; i < c->came; ++i) {
        for (int j = 0; j < i && status == GD_OK && *reach; ++j) {
            status = gd_cuda_befriend(c->member[j].device, c->member[i].device, reach, err);
        }
    }
    return status;
}

/* Waits until all have come, and gives the member's number; -1 if it is to go alone. */
static gd_status come(gd_common *c, const gd_arrival *a, int *number, gd_error *err)
{
    struct timespec until;
    gd_status status = GD_OK;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&c->lock);
    *number = -1;
    if (!c->shut && !c->met) {
        gd_member *const mine = &c->member[c->came];
        *number = c->came++;
        mine->to = a->to;
        mine->device = a->device.index;
        status = gd_cuda_mark_create(&mine->arrived, err);
        status = status == GD_OK ? gd_cuda_mark_create(&mine->sent, err) : status;
        bool reach = status == GD_OK;
        if (reach && c->came == c->members) {
            status = ask_devices(c, &reach, err);
            c->met = status == GD_OK && reach;
        }
        c->shut = c->shut || !reach;
        pthread_cond_broadcast(&c->moved);
        while (!c->met && !c->shut) {
            c->shut = pthread_cond_timedwait(&c->moved, &c->lock, &until) == ETIMEDOUT && !c->met;
        }
        *number = c->met ? *number : -1;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* A member on its way. */
typedef struct gd_sharing {
    gd_common *common;
    const gd_arrival *all;
    int number;
    ptrdiff_t first; /* row of its share */
} gd_sharing;

/* Sends the others what has come, beside what is still to come. */
static gd_status pass_on(void *context, void *stream, ptrdiff_t first, ptrdiff_t count,
                         gd_error *err)
{
    const gd_sharing *const s = context;
    const gd_arrival *const a = s->all;
    const gd_member *const mine = &s->common->member[s->number];
    const size_t offset = (size_t)(s->first + first) * a->to_pitch;
    const size_t bytes = (size_t)(count - 1) * a->to_pitch + a->row_bytes;
    gd_status status = gd_cuda_mark_set(mine->arrived, stream, err);
    status = status == GD_OK ? gd_cuda_mark_order(a->stream, mine->arrived, err) : status;
    for (int i = 0; i < s->common->members && status == GD_OK; ++i) {
        const gd_member *const other = &s->common->member[i];
        if (other != mine) {
            status = gd_cuda_send(a->stream, other->device, other->to + offset, mine->device,
                                  mine->to + offset, bytes, err);
        }
    }
    return status;
}

static gd_status send_share(const gd_sharing *s, gd_error *err)
{
    const gd_arrival *const a = s->all;
    const ptrdiff_t end = a->rows * (s->number + 1) / s->common->members;
    gd_arrival share = *a;
    share.to = (char *)a->to + (size_t)s->first * a->to_pitch;
    share.from = (const char *)a->from + (size_t)s->first * a->from_pitch;
    share.rows = end - s->first;
    share.arrived = pass_on;
    share.context = (void *)(uintptr_t)s;
    const gd_status status = share.rows > 0 ? gd_send_arrival(&share, err) : GD_OK;
    return status == GD_OK ? gd_cuda_mark_set(s->common->member[s->number].sent, a->stream, err)
                           : gd_settle(a->device, a->stream, status, err);
}

/* Waits until all have enqueued what they send; false if somebody could not. */
static bool part(gd_common *c, bool failed)
{
    pthread_mutex_lock(&c->lock);
    c->sent += 1;
    c->failed = c->failed || failed;
    pthread_cond_broadcast(&c->moved);
    while (c->sent < c->members) {
        pthread_cond_wait(&c->moved, &c->lock);
    }
    failed = c->failed;
    pthread_mutex_unlock(&c->lock);
    return !failed;
}

static gd_status send_alone(const gd_arrival *a, gd_error *err)
{
    return gd_send_rows(a->device, a->stream, a->to, a->to_pitch, a->from, a->from_pitch,
                        a->row_bytes, a->rows, err);
}

gd_status gd_common_send(gd_common *c, const gd_arrival *a, gd_error *err)
{
    int number = -1;
    gd_status status = GD_OK;
    if (a->row_bytes * (size_t)a->rows >= WORTH_MEETING) {
        /* Others write to the memory in streams of theirs. */
        status = gd_settle(a->device, a->stream, GD_OK, err);
        status = status == GD_OK ? come(c, a, &number, err) : status;
    }
    if (status != GD_OK || number < 0) {
        return status == GD_OK ? send_alone(a, err) : status;
    }
    const gd_sharing way = {c, a, number, a->rows * number / c->members};
    status = send_share(&way, err);
    const bool all = part(c, status != GD_OK);
    for (int i = 0; i < c->members; ++i) {
        gd_error late;
        const gd_status ordered =
            gd_cuda_mark_order(a->stream, c->member[i].sent, status == GD_OK ? err : &late);
        status = status == GD_OK ? ordered : status;
    }
    return status == GD_OK && !all ? send_alone(a, err) : status;
}
