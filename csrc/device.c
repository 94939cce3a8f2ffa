/* device.c: one face for the CPU and CUDA devices; the CPU's half of it. */
#define _GNU_SOURCE /* madvise */
#include "device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---------------------------------------------------------------- the processor */

gd_isa gd_host_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd")) {
        return GD_ISA_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
        return GD_ISA_AVX2;
    }
#endif
    return GD_ISA_BASELINE;
}

bool gd_host_shares_pipes(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

const char *gd_isa_name(gd_isa isa)
{
    static const char *const names[] = {
        [GD_ISA_BASELINE] = "baseline", [GD_ISA_AVX2] = "avx2", [GD_ISA_AVX512] = "avx512"};
    return names[isa];
}

void gd_host_name(char *name, size_t size)
{
    char line[256], value[200];
    FILE *info = fopen("/proc/cpuinfo", "r");
    snprintf(name, size, "unknown processor");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        if (sscanf(line, "model name : %199[^\n]", value) == 1) {
            snprintf(name, size, "%s", value);
            break;
        }
    }
    if (info != NULL) {
        fclose(info);
    }
}

/* ---------------------------------------------------------------- memory */

/* Large blocks come on 2 MB pages where the system has them: a first touch is then 3 times cheaper
 * and the TLB reaches further. */
static gd_status host_alloc(size_t bytes, const char *what, void **out, gd_error *err)
{
    const size_t huge = (size_t)2 << 20;
    const size_t alignment = bytes >= 2 * huge ? huge : 256;
    if (posix_memalign(out, alignment, bytes) != 0) {
        *out = NULL;
        return GD_FAIL(err, GD_NO_MEMORY, "%s needs %zu bytes of host memory", what, bytes);
    }
    if (alignment == huge) {
        (void)madvise(*out, bytes, MADV_HUGEPAGE); /* a wish; refusing it harms nothing */
    }
    return GD_OK;
}

static _Atomic ptrdiff_t until_failure, allocations;

void gd_fail_allocation(ptrdiff_t nth) { atomic_store(&until_failure, nth); }

ptrdiff_t gd_allocations(void) { return atomic_load(&allocations); }

bool gd_allocation_fails(void)
{
    return atomic_load_explicit(&until_failure, memory_order_relaxed) > 0 &&
           atomic_fetch_sub(&until_failure, 1) == 1;
}

static _Atomic bool peers_refused;

void gd_refuse_peers(bool refuse) { atomic_store(&peers_refused, refuse); }

bool gd_peers_are_refused(void) { return atomic_load(&peers_refused); }

gd_status gd_alloc(gd_device device, void *stream, size_t bytes, const char *what, void **out,
                   gd_error *err)
{
    *out = NULL;
    if (bytes == 0) {
        return GD_OK;
    }
    if (gd_allocation_fails()) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s needs %zu bytes: a test denies them", what, bytes);
    }
    const gd_status status = device.backend == GD_CUDA
                                 ? gd_cuda_alloc(stream, bytes, what, out, err)
                                 : host_alloc(bytes, what, out, err);
    if (status == GD_OK) {
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    }
    return status;
}

void gd_free(gd_device device, void *stream, void *p)
{
    if (p == NULL) {
        return;
    }
    atomic_fetch_sub_explicit(&allocations, 1, memory_order_relaxed);
    if (device.backend == GD_CUDA) {
        gd_cuda_free(stream, p);
    }
    else {
        free(p);
    }
}

gd_status gd_copy_rows(gd_device device, void *stream, void *dst, size_t dst_pitch, const void *src,
                       size_t src_pitch, size_t row_bytes, size_t rows, gd_error *err)
{
    if (device.backend == GD_CUDA) {
        return gd_cuda_copy_rows(stream, dst, dst_pitch, src, src_pitch, row_bytes, rows, err);
    }
    for (size_t i = 0; i < rows; ++i) {
        memcpy((char *)dst + i * dst_pitch, (const char *)src + i * src_pitch, row_bytes);
    }
    return GD_OK;
}

gd_status gd_wait(gd_device device, void *stream, gd_error *err)
{
    return device.backend == GD_CUDA ? gd_cuda_wait(stream, err) : GD_OK;
}

gd_status gd_refuse_capture(gd_device device, void *stream, const char *what, gd_error *err)
{
    return device.backend == GD_CUDA ? gd_cuda_refuse_capture(stream, what, err) : GD_OK;
}

gd_status gd_settle(gd_device device, void *stream, gd_status status, gd_error *err)
{
    gd_error late;
    const gd_status waited = gd_wait(device, stream, &late);
    if (status != GD_OK || waited == GD_OK) {
        return status;
    }
    *err = late;
    return waited;
}

/* ---------------------------------------------------------------- the current device */

gd_status gd_enter(gd_device device, int *previous, gd_error *err)
{
    *previous = -1;
    return device.backend == GD_CUDA ? gd_cuda_enter(device.index, previous, err) : GD_OK;
}

void gd_leave(gd_device device, int previous)
{
    if (device.backend == GD_CUDA && previous >= 0) {
        gd_cuda_leave(device.index, previous);
    }
}
