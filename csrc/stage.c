/* stage.c: memory that one call owns on its device, and the way of matrices there and back. */
#include "stage.h"

#include "bus.h"
#include "device.h"
#include "registry.h"

gd_status gd_stage_memory(gd_stage *stage, size_t rows, size_t row_bytes, const char *what,
                          void **out, gd_error *err)
{
    size_t bytes;
    gd_status status;
    *out = NULL;
    if (__builtin_mul_overflow(rows, row_bytes, &bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s is larger than any memory", what);
    }
    status = gd_alloc(stage->device, stage->stream, bytes, what, out, err);
    if (status == GD_OK && *out != NULL) {
        stage->owned[stage->owned_count++] = *out;
    }
    return status;
}

gd_status gd_stage_matrix(gd_stage *stage, ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype,
                          const char *what, gd_matrix *out, gd_error *err)
{
    size_t row_bytes;
    *out = (gd_matrix){.rows = rows,
                       .cols = cols,
                       .row_stride = cols,
                       .col_stride = 1,
                       .dtype = dtype,
                       .device = stage->device};
    if (__builtin_mul_overflow((size_t)cols, gd_dtype_size(dtype), &row_bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s is larger than any memory", what);
    }
    return gd_stage_memory(stage, (size_t)rows, row_bytes, what, &out->data, err);
}

gd_status gd_stage_bring(gd_stage *stage, const gd_matrix *host, const char *what, gd_matrix *there,
                         gd_error *err)
{
    const size_t size = gd_dtype_size(host->dtype);
    const gd_status status =
        gd_stage_matrix(stage, host->rows, host->cols, host->dtype, what, there, err);
    return status != GD_OK || there->data == NULL
               ? status
               : gd_send_rows(stage->device, stage->stream, there->data, host->data,
                              (size_t)host->row_stride * size, (size_t)host->cols * size,
                              host->rows, err);
}

/* A matrix on its way home. */
typedef struct gd_return {
    const gd_launch *launch;
    const gd_matrix *there;
} gd_return;

/* Rows that lie apart on the device travel as a dense panel. */
static gd_status make_dense(void *context, ptrdiff_t first, ptrdiff_t count, void *panel,
                            gd_error *err)
{
    const gd_return *way = context;
    const gd_matrix *x = way->there;
    const size_t size = gd_dtype_size(x->dtype), row_bytes = (size_t)x->cols * size;
    const gd_status status =
        gd_copy_rows(x->device, way->launch->stream, panel, row_bytes,
                     (const char *)x->data + first * x->row_stride * (ptrdiff_t)size,
                     (size_t)x->row_stride * size, row_bytes, (size_t)count, err);
    return status == GD_OK ? gd_pass(way->launch, 1, err) : status;
}

gd_status gd_stage_home(const gd_launch *launch, const gd_matrix *there, void *host, gd_error *err)
{
    gd_return way = {launch, there};
    const gd_result result = {
        .device = launch->device,
        .stream = launch->stream,
        .to = host,
        .row_bytes = (size_t)there->cols * gd_dtype_size(there->dtype),
        .rows = there->rows,
        .whole = there->row_stride == there->cols ? there->data : NULL,
        .fill = make_dense,
        .context = &way,
    };
    return gd_bring_result(&result, err);
}

void gd_stage_release(gd_stage *stage)
{
    while (stage->owned_count > 0) {
        gd_free(stage->device, stage->stream, stage->owned[--stage->owned_count]);
    }
}
