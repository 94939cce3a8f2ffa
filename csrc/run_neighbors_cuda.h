/* run_neighbors_cuda.h: neighbours on a CUDA device, for a job whose kernel of cdist is chosen and
 * whose rows and columns are not none. `finder` is the row that looks for neighbours there. */
#ifndef GPUDIST_RUN_NEIGHBORS_CUDA_H
#define GPUDIST_RUN_NEIGHBORS_CUDA_H

#include "cdist_job.h"
#include "neighbors.h"

gd_status gd_cuda_run_nearest(gd_job *job, const gd_choice *finder, const gd_matrix *distances,
                              int64_t *indices, const gd_wanted *wanted, const gd_orders *orders,
                              gd_error *err);
gd_status gd_cuda_run_within(gd_job *job, const gd_choice *finder, const gd_wanted *wanted,
                             const gd_orders *orders, gd_neighborhoods *found, gd_error *err);
/* Sets *dense, and counts nothing, where some row has more neighbours than the finder lists. */
gd_status gd_cuda_run_count(gd_job *job, const gd_choice *finder, const gd_census *census,
                            const gd_orders *orders, bool *dense, gd_error *err);

#endif
