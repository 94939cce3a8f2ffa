/* stage.c: memory that one call owns on its device. */
#include "stage.h"

#include "device.h"
#include "registry.h"

/* From so much on what is free is asked for beforehand, which takes the driver longer than a small
 * call; less is asked for and may be denied. */
static const size_t ASK_FROM = (size_t)256 << 20;
/* What stands for memory while it is counted: as well aligned. */
static const uintptr_t NOWHERE = 4096;

gd_budget gd_budget_of(const gd_orders *orders)
{
    return (gd_budget){
        .allowed = orders->max_memory, .unasked = orders->max_memory == 0, .counting = true};
}

gd_status gd_budget_fits(gd_budget *budget, gd_device device, bool *fits, gd_error *err)
{
    gd_status status = GD_OK;
    if (budget->allowed == 0 && budget->most >= ASK_FROM && device.backend == GD_CUDA) {
        status = gd_cuda_free_memory(&budget->allowed, err);
    }
    *fits = status == GD_OK && (budget->allowed == 0 || budget->most <= budget->allowed);
    return status;
}

gd_status gd_budget_grant(gd_budget *budget, gd_device device, const char *what,
                          const char *instead, gd_error *err)
{
    const bool on_cuda = device.backend == GD_CUDA;
    const size_t needed = budget->most;
    bool fits;
    const gd_status status = gd_budget_fits(budget, device, &fits, err);
    budget->counting = false;
    budget->held = budget->most = 0;
    if (status != GD_OK || fits) {
        return status;
    }
    return GD_FAIL(err, GD_NO_MEMORY, "%s needs %zu bytes of %s memory at once, and %s %zu: %s",
                   what, needed, on_cuda ? "device" : "host",
                   budget->unasked ? "there are" : "max_memory allows", budget->allowed,
                   instead != NULL ? instead
                   : on_cuda       ? "compute on the CPU"
                                   : "it cannot do with less");
}

gd_status gd_stage_memory(gd_stage *stage, size_t rows, size_t row_bytes, const char *what,
                          void **out, gd_error *err)
{
    gd_budget *const budget = stage->budget;
    size_t bytes, sum;
    gd_status status;
    *out = NULL;
    if (__builtin_mul_overflow(rows, row_bytes, &bytes) ||
        __builtin_add_overflow(bytes, budget != NULL ? budget->held : 0, &sum)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s is larger than any memory", what);
    }
    if (budget != NULL && !budget->counting && budget->allowed != 0 && sum > budget->allowed) {
        return GD_FAIL(err, GD_NO_MEMORY,
                       "%s needs %zu bytes, and max_memory leaves %zu of %zu bytes", what, bytes,
                       budget->allowed - budget->held, budget->allowed);
    }
    if (bytes == 0) {
        return GD_OK;
    }
    if (budget != NULL && budget->counting) {
        *out = (void *)NOWHERE;
    }
    else if ((status = gd_alloc(stage->device, stage->stream, bytes, what, out, err)) != GD_OK) {
        return status;
    }
    stage->owned[stage->owned_count++] = (struct gd_owned){*out, bytes};
    if (budget != NULL) {
        budget->held = sum;
        budget->most = budget->held > budget->most ? budget->held : budget->most;
    }
    return GD_OK;
}

gd_status gd_stage_matrix(gd_stage *stage, ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype,
                          const char *what, gd_matrix *out, gd_error *err)
{
    size_t row_bytes;
    *out = gd_dense(NULL, rows, cols, dtype, stage->device);
    if (__builtin_mul_overflow((size_t)cols, gd_dtype_size(dtype), &row_bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s is larger than any memory", what);
    }
    return gd_stage_memory(stage, (size_t)rows, row_bytes, what, &out->data, err);
}

void gd_stage_leave(gd_stage *stage, const void *memory)
{
    int left = 0;
    for (int i = 0; i < stage->owned_count; ++i) {
        if (stage->owned[i].memory != memory) {
            stage->owned[left++] = stage->owned[i];
        }
        else if (stage->budget != NULL) {
            stage->budget->held -= stage->owned[i].bytes;
        }
    }
    stage->owned_count = left;
}

void gd_stage_release_to(gd_stage *stage, int kept)
{
    while (stage->owned_count > kept) {
        const struct gd_owned last = stage->owned[--stage->owned_count];
        if (stage->budget != NULL) {
            stage->budget->held -= last.bytes;
        }
        if (stage->budget == NULL || !stage->budget->counting) {
            gd_free(stage->device, stage->stream, last.memory);
        }
    }
}

void gd_stage_release(gd_stage *stage) { gd_stage_release_to(stage, 0); }
