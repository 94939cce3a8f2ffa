/* cublas.c: cuBLAS by dlopen.
 *
 * Linking it would add 600 MB to what an installation needs, for one step of one ladder. A process
 * that uses PyTorch or CuPy has it open, under a name that dlopen finds again; so do machines with
 * a CUDA toolkit; and NVIDIA's wheels put it beside this package. The functions are declared here
 * by hand, with their 64-bit sizes, which cuBLAS has from version 12 on. */
#define _GNU_SOURCE
#include "cublas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEVICES = 64, NOT_TRANSPOSED = 0, TRANSPOSED = 1 };

typedef int cublas_status; /* 0 is success */
typedef void *cublas_handle;

static struct {
    char why_not[200]; /* empty when cuBLAS can be used */
    cublas_status (*create)(cublas_handle *handle);
    cublas_status (*set_stream)(cublas_handle handle, void *stream);
    cublas_status (*sgemm)(cublas_handle handle, int op_a, int op_b, int64_t m, int64_t n,
                           int64_t k, const float *alpha, const float *a, int64_t lda,
                           const float *b, int64_t ldb, const float *beta, float *c, int64_t ldc);
    const char *(*words_of)(cublas_status status);
} cublas;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* A handle belongs to a device and remembers a stream, so two calls must not use it at a time. What
 * they enqueue runs when its stream comes to it. Handles live as long as the process. */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static cublas_handle handles[MOST_DEVICES];

/* Wheels of NVIDIA unpack to site-packages/nvidia, this package to site-packages/gpudist. */
static void *open_wheel(const char *library)
{
    char path[4096];
    Dl_info info;
    if (dladdr((void *)(uintptr_t)gd_cublas_why_not, &info) == 0 || info.dli_fname == NULL) {
        return NULL;
    }
    const char *end = strrchr(info.dli_fname, '/');
    const int folder = end != NULL ? (int)(end - info.dli_fname) : 0;
    const int length =
        snprintf(path, sizeof path, "%.*s/../nvidia/%s", folder, info.dli_fname, library);
    return folder > 0 && length < (int)sizeof path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
}

static void *open_library(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    static const char *const wheels[] = {"cu13/lib/libcublas.so.13", "cublas/lib/libcublas.so.12"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof names[0]; ++i) {
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    }
    for (size_t i = 0; library == NULL && i < sizeof wheels / sizeof wheels[0]; ++i) {
        library = open_wheel(wheels[i]);
    }
    return library;
}

/* C has no conversion from an object's address to a function's; POSIX has this one. */
static void find(void *library, const char *name, void *function)
{
    void *const symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    if (symbol == NULL) {
        snprintf(cublas.why_not, sizeof cublas.why_not,
                 "the libcublas found has no %s; it must be of CUDA 12 or later", name);
    }
}

static void open_once(void)
{
    void *const library = open_library();
    if (library == NULL) {
        snprintf(cublas.why_not, sizeof cublas.why_not,
                 "libcublas.so.13 and .12 were not found; pip install nvidia-cublas, or import a "
                 "package that brings it");
        return;
    }
    find(library, "cublasCreate_v2", &cublas.create);
    find(library, "cublasSetStream_v2", &cublas.set_stream);
    find(library, "cublasSgemm_v2_64", &cublas.sgemm);
    find(library, "cublasGetStatusString", &cublas.words_of);
}

const char *gd_cublas_why_not(void)
{
    pthread_once(&opened, open_once);
    return cublas.why_not[0] != '\0' ? cublas.why_not : NULL;
}

gd_status gd_cublas_multiply(const gd_launch *launch, float factor, const gd_matrix *a,
                             const gd_matrix *b, const gd_matrix *out, gd_error *err)
{
    const float zero = 0;
    const int index = launch->device.index;
    cublas_status code = 0;
    if (gd_cublas_why_not() != NULL) {
        return GD_FAIL(err, GD_DEVICE_ERROR, "cuBLAS cannot be used: %s", gd_cublas_why_not());
    }
    if (index >= MOST_DEVICES) {
        return GD_FAIL(err, GD_DEVICE_ERROR, "cuBLAS is used on the first %d devices alone",
                       MOST_DEVICES);
    }
    pthread_mutex_lock(&handles_lock);
    if (handles[index] == NULL) {
        code = cublas.create(&handles[index]);
    }
    if (code == 0) {
        code = cublas.set_stream(handles[index], launch->stream);
    }
    if (code == 0) {
        /* cuBLAS counts by columns. To it `out` is its transpose, n x m, and so the product of b,
         * which is n x d to both of us, with the transpose of a. */
        code = cublas.sgemm(handles[index], NOT_TRANSPOSED, TRANSPOSED, out->cols, out->rows,
                            a->cols, &factor, b->data, b->col_stride, a->data, a->col_stride, &zero,
                            out->data, out->row_stride);
    }
    pthread_mutex_unlock(&handles_lock);
    return code == 0
               ? GD_OK
               : GD_FAIL(err, GD_DEVICE_ERROR, "cuBLAS: %s (%d)", cublas.words_of(code), code);
}
