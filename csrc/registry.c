/* registry.c: the kernel table, and the names of the enumerations.
 *
 * Launchers are declared weak here: a build without CUDA, or for another processor, does not
 * contain some of them, and their rows then carry NULL. The rows stay, so that gpudist.kernels()
 * can say what exists and why it cannot run. */
#include "registry.h"

#include <string.h>

#include "metric.h"
#include "metric_terms.h"

#define GD_ROW(id, op, ladder, step, backend, dtypes, metrics, min_cols, max_cols, worth, needs, \
               flags, options, launcher, idea, source)                                           \
    extern gd_##op##_kernel launcher __attribute__((weak));
#include "kernels.def"
#undef GD_ROW

/* The union's member is named after the operation, so a launcher of the wrong type is an error. */
#define GD_ROW(id, op, ladder, step, backend, dtypes, metrics, min_cols, max_cols, worth, needs, \
               flags, options, launcher, idea, source)                                           \
    {id,       GD_OP_OF_##op, ladder, step,  backend, dtypes,           metrics, min_cols,       \
     max_cols, worth,         needs,  flags, options, {.op = launcher}, idea,    source},
#define GD_OP_OF_cdist GD_OP_CDIST
#define GD_OP_OF_apsp GD_OP_APSP
#define GD_OP_OF_apsp_batch GD_OP_APSP_BATCH
#define GD_OP_OF_hops GD_OP_HOPS
#define GD_OP_OF_closure GD_OP_CLOSURE
#define GD_OP_OF_minplus GD_OP_MINPLUS
#define GD_OP_OF_neighbors GD_OP_NEIGHBORS
#define GD_OP_OF_gradient GD_OP_GRADIENT
#define GD_OP_OF_perron GD_OP_PERRON
#define GD_OP_OF_perron_part GD_OP_PERRON_PART
#define GD_OP_OF_ceiling GD_OP_CEILING
static const gd_kernel table[] = {
#include "kernels.def"
};
#undef GD_ROW

/* Whoever takes any sums has some for each of its metrics. */
#define GD_METRIC(e, ...)                                                                  \
    _Static_assert(!(GD_ANY_SUMS & GD_BIT(e)) || (GD_SUMS_OF(e, false, 2) != GD_NO_SUMS && \
                                                  GD_SUMS_OF(e, true, 2) != GD_NO_SUMS),   \
                   "metric_terms.h lacks the sums of " #e);
#include "metrics.def"
#undef GD_METRIC

enum { TABLE_ROWS = sizeof table / sizeof table[0] };

const gd_kernel *gd_kernels(size_t *count)
{
    *count = TABLE_ROWS;
    return table;
}

const gd_kernel *gd_kernel_find(const char *id)
{
    for (size_t i = 0; i < TABLE_ROWS; ++i) {
        if (strcmp(table[i].id, id) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

#define X(e, name, type) [e] = name,
static const char *const dtype_names[] = {GD_DTYPES(X)};
#undef X
#define X(e, name, type) [e] = sizeof(type),
static const size_t dtype_sizes[] = {GD_DTYPES(X)};
#undef X
#define X(e, name) [e] = #name,
static const char *const op_names[] = {GD_OPS(X)};
static const char *const semiring_names[] = {GD_SEMIRINGS(X)};
#undef X

const char *gd_dtype_name(gd_dtype dtype) { return dtype_names[dtype]; }

size_t gd_dtype_size(gd_dtype dtype) { return dtype_sizes[dtype]; }

const char *gd_metric_name(gd_metric metric) { return gd_metric_info(metric)->name; }

const char *gd_op_name(gd_op op) { return op_names[op]; }

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; ++i) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

int gd_dtype_find(const char *name) { return find(dtype_names, GD_DTYPE_COUNT, name); }

int gd_metric_find(const char *name)
{
    for (int i = 0; i < GD_METRIC_COUNT; ++i) {
        const char *const known = gd_metric_name((gd_metric)i);
        if (known[0] == name[0] && strcmp(known, name) == 0) {
            return i;
        }
    }
    return -1;
}

int gd_semiring_find(const char *name) { return find(semiring_names, GD_SEMIRING_COUNT, name); }

int gd_op_find(const char *name) { return find(op_names, GD_OP_COUNT, name); }
