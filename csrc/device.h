/* device.h: the machine, its memory, copies and clocks.
 *
 * gd_cuda_* live in device_cuda.c, or in device_none.c, which answers the same symbols with "not
 * built", so that nothing above needs to ask how it was built. device.c puts the CPU beside them.
 */
#ifndef GPUDIST_DEVICE_H
#define GPUDIST_DEVICE_H

#include "card.h"

/* ---------------------------------------------------------------- the machine */

/* The best instruction set that this processor and this build have. */
gd_isa gd_host_isa(void);
const char *gd_isa_name(gd_isa isa);
/* Whether its wide additions are done by the pipes that multiply, so that a difference takes one of
 * them as long as a product does. */
bool gd_host_shares_pipes(void);
/* The processor's name, as the system tells it. */
void gd_host_name(char *name, size_t size);

enum { GD_MOST_DEVICES = 64 };

/* Devices of one backend. One may be there more than once: it plays several. */
typedef struct gd_devices {
    int count;
    gd_device each[GD_MOST_DEVICES];
} gd_devices;

/* Why CUDA cannot be used, or NULL when it can. The first call asks the driver, without creating a
 * context; later ones remember. The versions are 1000 * major + 10 * minor, 0 where unknown. */
const char *gd_cuda_why_not(void);
void gd_cuda_versions(int *driver, int *runtime);
int gd_cuda_count(void);
/* What is returned stays, and is asked for once. */
gd_status gd_cuda_describe(int index, const gd_card **card, gd_error *err);
/* What this build has for GPUs (gd_card.targets); "" without CUDA. */
const char *gd_cuda_targets(void);
/* The device that a pointer's memory is on; 0 when the runtime cannot tell. */
int gd_cuda_pointer_device(const void *p);

/* ---------------------------------------------------------------- memory and streams */

/* The stream that belongs to the calling thread, for work on host arrays: threads do not wait for
 * each other. */
#define GD_THREAD_STREAM ((void *)2)

/* Makes a device current (nothing on the CPU); *previous is to be given to gd_leave. */
gd_status gd_enter(gd_device device, int *previous, gd_error *err);
void gd_leave(gd_device device, int previous);

/* Uninitialised memory, 256-byte aligned; *out is NULL for 0 bytes. The device must be current. A
 * failure names the bytes wanted and what they were for. */
gd_status gd_alloc(gd_device device, void *stream, size_t bytes, const char *what, void **out,
                   gd_error *err);
void gd_free(gd_device device, void *stream, void *p);

/* For tests: the nth allocation from now on, of whatever memory, fails as if there were none (0: no
 * more do); and how many blocks of gd_alloc have not been given to gd_free. */
void gd_fail_allocation(ptrdiff_t nth);
ptrdiff_t gd_allocations(void);
/* Whether this allocation is to fail. Whoever allocates past gd_alloc asks. */
bool gd_allocation_fails(void);

/* Copies rows of row_bytes between any two places; host memory on at most one side is read or
 * written when the stream gets there. Pitches are the bytes from one row to the next. */
gd_status gd_copy_rows(gd_device device, void *stream, void *dst, size_t dst_pitch, const void *src,
                       size_t src_pitch, size_t row_bytes, size_t rows, gd_error *err);
/* Makes zeros of device memory when the stream gets there. */
gd_status gd_cuda_clear(void *stream, void *memory, size_t bytes, gd_error *err);
gd_status gd_wait(gd_device device, void *stream, gd_error *err);
/* Bytes of the current device that an allocation can count on: what the driver has, and what we
 * keep. */
gd_status gd_cuda_free_memory(size_t *bytes, gd_error *err);
/* The most that gd_alloc had given away at once on the current device; `forget` begins anew. */
gd_status gd_cuda_most_held(size_t *bytes, bool forget, gd_error *err);
/* Waits, whatever `status` says: after a failure as well the caller's memory is in use. Returns
 * that status and leaves *err alone, unless it was GD_OK and waiting fails. */
gd_status gd_settle(gd_device device, void *stream, gd_status status, gd_error *err);
/* Fails while a CUDA graph is captured from the stream. Whoever waits in the midst of `what` asks
 * first: to wait, or to have the driver allocate, would spoil the capture. */
gd_status gd_refuse_capture(gd_device device, void *stream, const char *what, gd_error *err);

/* Makes `stream` wait for all that `other` holds now (CUDA only). */
gd_status gd_cuda_order(void *stream, void *other, gd_error *err);

/* A stream of our own, apart from the legacy default stream; it is kept. */
gd_status gd_cuda_stream_create(void **stream, gd_error *err);
/* One that a call gives back; what is in an urgent one goes before other streams' blocks. */
gd_status gd_cuda_stream_take(bool urgent, void **stream, gd_error *err);
void gd_cuda_stream_give(void *stream);

/* A point in a stream that a thread or another stream waits for; it is kept and set again and
 * again. Who waits for one that is not set does not wait. */
gd_status gd_cuda_mark_create(void **mark, gd_error *err);
void gd_cuda_mark_free(void *mark); /* of one that is not kept; NULL is none */
gd_status gd_cuda_mark_set(void *mark, void *stream, gd_error *err);
gd_status gd_cuda_mark_wait(void *mark, gd_error *err);                /* the thread */
gd_status gd_cuda_mark_order(void *stream, void *mark, gd_error *err); /* the stream */

/* Copies between the memories of two devices, or within one's. A stream of either's. */
gd_status gd_cuda_send(void *stream, int to_index, void *to, int from_index, const void *from,
                       size_t bytes, gd_error *err);
/* Lets two devices that have memory of gd_alloc reach it on each other, where they can and no test
 * refuses it, and says whether they do, unless `friends` is NULL. If not, the driver takes what is
 * sent by way of the host. */
gd_status gd_cuda_befriend(int one, int other, bool *friends, gd_error *err);
/* For tests: whether devices are denied each other's memory from now on. */
void gd_refuse_peers(bool refuse);
bool gd_peers_are_refused(void);

gd_status gd_cuda_pinned_alloc(size_t bytes, void **out, gd_error *err);
void gd_cuda_pinned_free(void *p);
/* A page of pinned memory, for what kernels write to tell the host. Asking the driver for one takes
 * longer than a small call, so those given back are kept for the next. */
enum { GD_PAGE_BYTES = 8192 };
gd_status gd_cuda_page_take(void **page, gd_error *err);
void gd_cuda_page_give(void *page);

/* ---------------------------------------------------------------- clocks */

/* A moment in a CUDA stream. gd_cuda_event_elapsed waits for `stop`. */
gd_status gd_cuda_event_record(void *stream, void **event, gd_error *err);
gd_status gd_cuda_event_elapsed(void *start, void *stop, double *milliseconds, gd_error *err);
void gd_cuda_event_free(void *event);

/* Used by device.c alone. */
gd_status gd_cuda_enter(int index, int *previous, gd_error *err);
void gd_cuda_leave(int index, int previous);
gd_status gd_cuda_alloc(void *stream, size_t bytes, const char *what, void **out, gd_error *err);
void gd_cuda_free(void *stream, void *p);
gd_status gd_cuda_copy_rows(void *stream, void *dst, size_t dst_pitch, const void *src,
                            size_t src_pitch, size_t row_bytes, size_t rows, gd_error *err);
gd_status gd_cuda_wait(void *stream, gd_error *err);
gd_status gd_cuda_refuse_capture(void *stream, const char *what, gd_error *err);

#endif
