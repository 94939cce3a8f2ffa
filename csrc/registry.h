/* registry.h: the kernel table as data. */
#ifndef GPUDIST_REGISTRY_H
#define GPUDIST_REGISTRY_H

#include "gpudist.h"

/* All rows, in the table's order of preference. */
const gd_kernel *gd_kernels(size_t *count);
/* The row of that id, or NULL. */
const gd_kernel *gd_kernel_find(const char *id);

const char *gd_dtype_name(gd_dtype dtype);
size_t gd_dtype_size(gd_dtype dtype);
const char *gd_metric_name(gd_metric metric);
const char *gd_op_name(gd_op op);
/* The enumerator of that name, or -1. */
int gd_dtype_find(const char *name);
int gd_metric_find(const char *name);
int gd_op_find(const char *name);
int gd_semiring_find(const char *name);

#endif
