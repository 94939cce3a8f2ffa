/* bus_stress.c: the bus between the host and a device that is host memory as well: rows of any size
 * by slots of any size, each way, with helpers that are late and a device that fails. What arrives
 * is told in order and complete, and of a result what is told to be complete is. Rows that several
 * devices want come to all of them, whichever of them fails or stays away.
 * tests/test_threads.py builds it with sanitizers. It prints nothing and returns 0, or says what
 * was wrong and aborts. */
#define _GNU_SOURCE /* rand_r */
#include "bus_common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus_copy.h"
#include "device.h"
#include "registry.h"

enum {
    ROUNDS = 20,
    MOST_BYTES = 16 << 20,
    MOST_WORDS = 20000,
    MEMBERS = 3,
    COMMON_BYTES = 33 << 20
};

static _Thread_local unsigned seed = 1;
static _Thread_local bool refuses; /* the device of this thread takes nothing from the host */
static bool strangers;             /* no device reaches another */
static int marks_left = -1;        /* until the device fails; less than 0: it does not */

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static unsigned draw(unsigned below) { return (unsigned)rand_r(&seed) % below; }

/* ---------------------------------------------------------------- the machine */

/* Before libgomp's: so many that there are several helpers on any machine. */
int omp_get_num_procs(void) { return 12; }

gd_status gd_cuda_copy_rows(void *stream, void *to, size_t to_pitch, const void *from,
                            size_t from_pitch, size_t row_bytes, size_t rows, gd_error *err)
{
    (void)stream;
    if (refuses) {
        return GD_FAIL(err, GD_DEVICE_ERROR, "the device takes nothing");
    }
    for (size_t i = 0; i < rows; ++i) {
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, row_bytes);
    }
    return GD_OK;
}

static gd_status make(void **out)
{
    *out = malloc(1);
    return GD_OK;
}

gd_status gd_cuda_mark_create(void **mark, gd_error *err) { return (void)err, make(mark); }
gd_status gd_cuda_stream_create(void **stream, gd_error *err) { return (void)err, make(stream); }

void gd_cuda_mark_free(void *mark) { free(mark); }

gd_status gd_cuda_befriend(int one, int other, bool *friends, gd_error *err)
{
    (void)one, (void)other, (void)err;
    *friends = !strangers;
    return GD_OK;
}

static _Atomic int passed_on;

gd_status gd_cuda_send(void *stream, int to_index, void *to, int from_index, const void *from,
                       size_t bytes, gd_error *err)
{
    (void)stream, (void)err;
    check(to_index != from_index, "a device sends itself what it has");
    memcpy(to, from, bytes);
    atomic_fetch_add(&passed_on, 1);
    return GD_OK;
}

gd_status gd_cuda_mark_wait(void *mark, gd_error *err)
{
    (void)mark;
    if (draw(30) == 0) {
        usleep(draw(300));
    }
    if (marks_left < 0 || marks_left-- > 0) {
        return GD_OK;
    }
    return GD_FAIL(err, GD_DEVICE_ERROR, "the device has had enough");
}

gd_status gd_cuda_mark_set(void *mark, void *stream, gd_error *err)
{
    return (void)mark, (void)stream, (void)err, GD_OK;
}

gd_status gd_cuda_mark_order(void *stream, void *mark, gd_error *err)
{
    return (void)stream, (void)mark, (void)err, GD_OK;
}

gd_status gd_cuda_wait(void *stream, gd_error *err) { return (void)stream, (void)err, GD_OK; }

gd_status gd_cuda_pinned_alloc(size_t bytes, void **out, gd_error *err)
{
    (void)err;
    *out = malloc(bytes);
    return GD_OK;
}

void gd_cuda_pinned_free(void *p) { free(p); }

gd_status gd_settle(gd_device device, void *stream, gd_status status, gd_error *err)
{
    return (void)device, (void)stream, (void)err, status;
}

/* A helper that loses its core: the linker puts this before the bus's own. */
void __real_gd_copy_part(const gd_rows *rows, ptrdiff_t part);
void __wrap_gd_copy_part(const gd_rows *rows, ptrdiff_t part)
{
    static _Atomic int copied;
    if (atomic_fetch_add(&copied, 1) % 41 == 0) {
        usleep(8000);
    }
    __real_gd_copy_part(rows, part);
}

static void *panels;

gd_status gd_stage_memory(gd_stage *stage, size_t rows, size_t row_bytes, const char *what,
                          void **out, gd_error *err)
{
    (void)stage, (void)what, (void)err;
    *out = panels = malloc(rows * row_bytes);
    return GD_OK;
}

void gd_stage_release_to(gd_stage *stage, int kept)
{
    (void)stage, (void)kept;
    free(panels);
    panels = NULL;
}

/* Operands are not brought here. */
gd_status gd_stage_matrix(gd_stage *stage, ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype,
                          const char *what, gd_matrix *out, gd_error *err)
{
    (void)stage, (void)rows, (void)cols, (void)dtype, (void)what, (void)out, (void)err;
    abort();
}

size_t gd_dtype_size(gd_dtype dtype) { return (void)dtype, sizeof(float); }

/* ---------------------------------------------------------------- there and back */

typedef struct trip {
    const char *from;
    char *to;
    size_t row;
    ptrdiff_t rows, next;
} trip;

static gd_status arrived(void *context, void *stream, ptrdiff_t first, ptrdiff_t count,
                         gd_error *err)
{
    trip *const t = context;
    const size_t at = (size_t)first * t->row;
    (void)stream, (void)err;
    check(first == t->next && count > 0, "rows arrive out of order");
    check(memcmp(t->from + at, t->to + at, (size_t)count * t->row) == 0, "rows that are not there");
    t->next = first + count;
    return GD_OK;
}

static gd_status fill(void *context, ptrdiff_t first, ptrdiff_t count, void *panel, gd_error *err)
{
    const trip *const t = context;
    (void)err;
    memcpy(panel, t->from + (size_t)first * t->row, (size_t)count * t->row);
    return GD_OK;
}

static void go(trip *t)
{
    gd_error err;
    gd_stage stage = {.device = {GD_CUDA, 0}};
    const gd_arrival there = {.device = stage.device,
                              .to = t->to,
                              .to_pitch = t->row,
                              .from = t->from,
                              .from_pitch = t->row,
                              .row_bytes = t->row,
                              .rows = t->rows,
                              .arrived = arrived,
                              .context = t};
    check(gd_send_arrival(&there, &err) == GD_OK && t->next == t->rows, "rows are missing");

    ptrdiff_t complete = 0;
    const bool whole = draw(3) == 0, fails = draw(4) == 0;
    const gd_result back = {.stage = &stage,
                            .to = t->to,
                            .row_bytes = t->row,
                            .rows = t->rows,
                            .whole = whole ? t->from : NULL,
                            .fill = whole ? NULL : fill,
                            .context = t,
                            .complete = &complete};
    memset(t->to, 0, (size_t)t->rows * t->row);
    marks_left = fails ? (int)draw(12) : -1;
    const gd_status status = gd_bring_result(&back, &err);
    marks_left = -1;
    check(status == GD_OK ? complete == t->rows : fails, "a result is not complete");
    check(memcmp(t->from, t->to, (size_t)complete * t->row) == 0, "a result is not there");
}

/* ---------------------------------------------------------------- for several devices */

typedef struct member {
    gd_common *common;
    gd_arrival all;
    bool refuses;
    gd_status status;
    pthread_t thread;
} member;

static void *want(void *context)
{
    member *const m = context;
    gd_error err;
    refuses = m->refuses;
    seed = (unsigned)m->all.device.index;
    usleep(draw(2000));
    m->status = gd_common_send(m->common, &m->all, &err);
    return NULL;
}

/* So many of all members come, one of which may take nothing. */
static void gather(const char *from, int come, int refusing)
{
    const size_t row = 1000;
    const ptrdiff_t rows = COMMON_BYTES / 1000;
    gd_common *const common = gd_common_new(MEMBERS);
    member members[MEMBERS];
    passed_on = 0;
    for (int i = 0; i < come; ++i) {
        members[i] = (member){.common = common, .refuses = i == refusing};
        members[i].all = (gd_arrival){.device = {GD_CUDA, i},
                                      .to = calloc((size_t)rows, row),
                                      .to_pitch = row,
                                      .from = from,
                                      .from_pitch = row,
                                      .row_bytes = row,
                                      .rows = rows};
    }
    for (int i = 0; i < come; ++i) {
        check(pthread_create(&members[i].thread, NULL, want, &members[i]) == 0, "no thread");
    }
    for (int i = 0; i < come; ++i) {
        pthread_join(members[i].thread, NULL);
        check((members[i].status == GD_OK) == (i != refusing),
              "who fails says so, and nobody else");
        check(i == refusing || memcmp(members[i].all.to, from, (size_t)rows * row) == 0,
              "rows that are wanted by several are not there");
        free(members[i].all.to);
    }
    check((passed_on > 0) == (come == MEMBERS && !strangers),
          "who can help does, and who cannot not");
    gd_common_free(common);
}

static void gather_all(void)
{
    char *const numbers = malloc(COMMON_BYTES);
    for (int i = 0; i < COMMON_BYTES; ++i) {
        numbers[i] = (char)(i * 2654435761u >> 24);
    }
    gather(numbers, MEMBERS, -1);
    gather(numbers, MEMBERS, 1);
    gather(numbers, MEMBERS - 1, -1);
    strangers = true;
    gather(numbers, MEMBERS, -1);
    free(numbers);
}

int main(void)
{
    check(gd_copiers() == 8, "how many threads copy hangs on more than the cores");
    for (int round = 0; round < ROUNDS; ++round) {
        if (round % 5 == 0) {
            gd_limit_pinned((size_t)(6 + draw(10)) << 20);
        }
        const size_t words = 1 + draw(MOST_WORDS), row = words * sizeof(unsigned);
        trip t = {.row = row, .rows = 1 + (ptrdiff_t)draw(MOST_BYTES / (unsigned)row)};
        const size_t all = words * (size_t)t.rows;
        unsigned *const numbers = malloc(all * sizeof *numbers);
        for (size_t i = 0; i < all; ++i) {
            numbers[i] = (unsigned)i * 2654435761u;
        }
        t.from = (const char *)numbers;
        t.to = malloc(all * sizeof *numbers);
        go(&t);
        free(t.to);
        free(numbers);
    }
    gather_all();
    gd_limit_pinned(0);
    return 0;
}
