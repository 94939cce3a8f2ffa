/* perron_pattern.h: whether a nonnegative matrix is irreducible. */
#ifndef GPUDIST_PERRON_PATTERN_H
#define GPUDIST_PERRON_PATTERN_H

#include "gpudist.h"

/* The strongly connected components of a graph. With more than one, no way leads from `other` to
 * `source`, which is in a component of source_size nodes. */
typedef struct gd_perron_split {
    ptrdiff_t components, source, source_size, other;
} gd_perron_split;

/* Splits the graph that has an edge from i to j where bit j of row i is set; rows are whole words.
 */
gd_status gd_perron_components(const uint64_t *pattern, ptrdiff_t n, gd_perron_split *split,
                               gd_error *err);

#endif
