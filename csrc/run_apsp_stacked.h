/* run_apsp_stacked.h: shortest paths in many graphs of one size, on a CUDA device. */
#ifndef GPUDIST_RUN_APSP_STACKED_H
#define GPUDIST_RUN_APSP_STACKED_H

#include "run.h"

/* The part of gd_run_apsp_batch that is for a CUDA device, once all is checked and chosen. The
 * graphs' matrices take n rows of n each, and none lists its edges; *call says what to compute, of
 * weights, results and their sizes wherever they are. */
gd_status gd_run_apsp_stacked(const gd_apsp_batch *call, const gd_batch *batch, gd_device where,
                              const gd_choice *choice, const gd_orders *orders, double *doubts,
                              bool *left, gd_error *err);

#endif
