/* device_none.c: what a build without CUDA answers. Everything but the question why is unreachable:
 * the chooser refuses CUDA first. */
#include "device.h"
#include "run_apsp.h"

static const char not_built[] = "this build of gpudist contains no CUDA kernels";

static gd_status refuse(gd_error *err) { return GD_FAIL(err, GD_DEVICE_ERROR, "%s", not_built); }

const char *gd_cuda_why_not(void) { return not_built; }

void gd_cuda_versions(int *driver, int *runtime) { *driver = *runtime = 0; }

int gd_cuda_count(void) { return 0; }

const char *gd_cuda_targets(void) { return ""; }

gd_status gd_cuda_describe(int index, const gd_card **card, gd_error *err)
{
    (void)index, (void)card;
    return refuse(err);
}

int gd_cuda_pointer_device(const void *p)
{
    (void)p;
    return 0;
}

gd_status gd_cuda_enter(int index, int *previous, gd_error *err)
{
    (void)index, (void)previous;
    return refuse(err);
}

void gd_cuda_leave(int index, int previous) { (void)index, (void)previous; }

gd_status gd_cuda_alloc(void *stream, size_t bytes, const char *what, void **out, gd_error *err)
{
    (void)stream, (void)bytes, (void)what, (void)out;
    return refuse(err);
}

void gd_cuda_free(void *stream, void *p) { (void)stream, (void)p; }

gd_status gd_cuda_clear(void *stream, void *memory, size_t bytes, gd_error *err)
{
    (void)stream, (void)memory, (void)bytes;
    return refuse(err);
}

gd_status gd_cuda_copy_rows(void *stream, void *dst, size_t dst_pitch, const void *src,
                            size_t src_pitch, size_t row_bytes, size_t rows, gd_error *err)
{
    (void)stream, (void)dst, (void)dst_pitch, (void)src, (void)src_pitch, (void)row_bytes,
        (void)rows;
    return refuse(err);
}

gd_status gd_cuda_wait(void *stream, gd_error *err)
{
    (void)stream;
    return refuse(err);
}

gd_status gd_cuda_refuse_capture(void *stream, const char *what, gd_error *err)
{
    (void)stream, (void)what;
    return refuse(err);
}

gd_status gd_cuda_order(void *stream, void *other, gd_error *err)
{
    (void)stream, (void)other;
    return refuse(err);
}

gd_status gd_cuda_free_memory(size_t *bytes, gd_error *err)
{
    (void)bytes;
    return refuse(err);
}

gd_status gd_cuda_most_held(size_t *bytes, bool forget, gd_error *err)
{
    (void)bytes, (void)forget;
    return refuse(err);
}

gd_status gd_cuda_stream_create(void **stream, gd_error *err)
{
    (void)stream;
    return refuse(err);
}

gd_status gd_cuda_stream_take(bool urgent, void **stream, gd_error *err)
{
    (void)urgent, (void)stream;
    return refuse(err);
}

void gd_cuda_stream_give(void *stream) { (void)stream; }

gd_status gd_cuda_mark_create(void **mark, gd_error *err)
{
    (void)mark;
    return refuse(err);
}

void gd_cuda_mark_free(void *mark) { (void)mark; }

gd_status gd_cuda_send(void *stream, int to_index, void *to, int from_index, const void *from,
                       size_t bytes, gd_error *err)
{
    (void)stream, (void)to_index, (void)to, (void)from_index, (void)from, (void)bytes;
    return refuse(err);
}

gd_status gd_cuda_befriend(int one, int other, bool *friends, gd_error *err)
{
    (void)one, (void)other, (void)friends;
    return refuse(err);
}

gd_status gd_cuda_mark_set(void *mark, void *stream, gd_error *err)
{
    (void)mark, (void)stream;
    return refuse(err);
}

gd_status gd_cuda_mark_wait(void *mark, gd_error *err)
{
    (void)mark;
    return refuse(err);
}

gd_status gd_cuda_mark_order(void *stream, void *mark, gd_error *err)
{
    (void)stream, (void)mark;
    return refuse(err);
}

gd_status gd_cuda_pinned_alloc(size_t bytes, void **out, gd_error *err)
{
    (void)bytes, (void)out;
    return refuse(err);
}

void gd_cuda_pinned_free(void *p) { (void)p; }

gd_status gd_cuda_page_take(void **page, gd_error *err)
{
    (void)page;
    return refuse(err);
}

void gd_cuda_page_give(void *page) { (void)page; }

gd_status gd_cuda_event_record(void *stream, void **event, gd_error *err)
{
    (void)stream, (void)event;
    return refuse(err);
}

gd_status gd_cuda_event_elapsed(void *start, void *stop, double *milliseconds, gd_error *err)
{
    (void)start, (void)stop, (void)milliseconds;
    return refuse(err);
}

void gd_cuda_event_free(void *event) { (void)event; }

gd_status gd_cuda_apsp_band(gd_apsp_band *call, gd_error *err)
{
    (void)call;
    return refuse(err);
}

gd_status gd_cuda_graph_read(const gd_graph *graph, const gd_apsp *call, ptrdiff_t first,
                             ptrdiff_t rows, gd_error *err)
{
    (void)graph, (void)call, (void)first, (void)rows;
    return refuse(err);
}

gd_status gd_cuda_apsp_whole(gd_apsp_batch *call, bool *takes, gd_error *err)
{
    (void)call, (void)takes;
    return refuse(err);
}

gd_status gd_cuda_graph_facts(const gd_apsp *call, gd_graph_facts *facts, gd_error *err)
{
    (void)call, (void)facts;
    return refuse(err);
}

gd_status gd_cuda_paths_write(const gd_apsp *call, const gd_matrix *out, const gd_matrix *pred,
                              double unreachable, bool flip, ptrdiff_t first, ptrdiff_t rows,
                              gd_error *err)
{
    (void)call, (void)out, (void)pred, (void)unreachable, (void)flip, (void)first, (void)rows;
    return refuse(err);
}

gd_status gd_cuda_paths_facts(const gd_apsp *call, uint8_t *negative_nodes, gd_paths_facts *facts,
                              gd_error *err)
{
    (void)call, (void)negative_nodes, (void)facts;
    return refuse(err);
}

gd_status gd_cuda_edges_read(const gd_graph *graph, const gd_closure *call, bool reflexive,
                             gd_error *err)
{
    (void)graph, (void)call, (void)reflexive;
    return refuse(err);
}

gd_status gd_cuda_reached_write(const gd_closure *call, const gd_matrix *out, gd_error *err)
{
    (void)call, (void)out;
    return refuse(err);
}

gd_status gd_cuda_prepare(const gd_prepare *job, gd_error *err)
{
    (void)job;
    return refuse(err);
}

gd_status gd_cuda_condense(const gd_matrix *block, ptrdiff_t first, ptrdiff_t n, void *out,
                           void *stream, gd_error *err)
{
    (void)block, (void)first, (void)n, (void)out, (void)stream;
    return refuse(err);
}

gd_status gd_cuda_relay(const gd_matrix *x, const gd_matrix *to, void *stream, gd_error *err)
{
    (void)x, (void)to, (void)stream;
    return refuse(err);
}

gd_status gd_cuda_perron_look(const gd_matrix *a, void *stream, void *scratch, uint64_t *pattern,
                              gd_perron_facts *facts, gd_error *err)
{
    (void)a, (void)stream, (void)scratch, (void)pattern, (void)facts;
    return refuse(err);
}

gd_status gd_cuda_perron_begin(const gd_perron *call, const gd_perron_state *first, gd_error *err)
{
    (void)call, (void)first;
    return refuse(err);
}

gd_status gd_cuda_perron_write(const double *x, double top, const gd_matrix *out, void *stream,
                               gd_error *err)
{
    (void)x, (void)top, (void)out, (void)stream;
    return refuse(err);
}

gd_status gd_cuda_perron_walk(const gd_perron *call, int count, void *scratch, const gd_matrix *out,
                              gd_perron_news *news, gd_error *err)
{
    (void)call, (void)count, (void)scratch, (void)out, (void)news;
    return refuse(err);
}

gd_status gd_cuda_perron_combine(const gd_perron *call, const gd_perron_state *state, int count,
                                 const double *weights, double share, gd_error *err)
{
    (void)call, (void)state, (void)count, (void)weights, (void)share;
    return refuse(err);
}
