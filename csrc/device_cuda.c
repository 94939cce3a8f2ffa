/* device_cuda.c: CUDA devices through the statically linked runtime. libcuda is never linked: the
 * runtime loads it on first use, and why_not looks for it to tell a missing driver from an old one
 * (the runtime reports both as error 35). */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* Guards what is remembered of devices: their properties and our memory pools. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

/* Fails with the runtime's words; also clears a non-sticky error, so that the next call works. */
static gd_status cuda_fail(cudaError_t code, const char *doing, int line, gd_error *err)
{
    (void)cudaGetLastError();
    return gd_error_set(err, code == cudaErrorMemoryAllocation ? GD_NO_MEMORY : GD_DEVICE_ERROR,
                        (int)code, __FILE__, line, "%s: %s (CUDA error %d)", doing,
                        cudaGetErrorString(code), (int)code);
}

#define CUDA_TRY(call, doing)                                \
    do {                                                     \
        cudaError_t code_ = (call);                          \
        if (code_ != cudaSuccess) {                          \
            return cuda_fail(code_, (doing), __LINE__, err); \
        }                                                    \
    } while (0)

/* ---------------------------------------------------------------- what there is */

static pthread_once_t probed = PTHREAD_ONCE_INIT;
static struct {
    char why_not[256]; /* empty when CUDA can be used */
    int count, driver, runtime;
} cuda;

/* The driver refuses all work in a child of a process that started it, whatever became of it there.
 */
static void forget_devices_in_child(void)
{
    if (cuda.count > 0) {
        cuda.count = 0;
        snprintf(cuda.why_not, sizeof cuda.why_not,
                 "CUDA does not survive a fork, and the process that this one was forked from uses "
                 "it; start processes by the method \"spawn\" or \"forkserver\"");
    }
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_devices_in_child);
}

static void explain_no_device(cudaError_t code)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (code == cudaErrorInitializationError) { /* it was another library that started CUDA */
        snprintf(cuda.why_not, sizeof cuda.why_not,
                 "the CUDA runtime could not start: %s; CUDA does not survive a fork, so if this "
                 "process was forked, start it by the method \"spawn\" or \"forkserver\"",
                 cudaGetErrorString(code));
    }
    else if (code == cudaErrorInsufficientDriver) {
        snprintf(cuda.why_not, sizeof cuda.why_not,
                 "the NVIDIA driver supports CUDA %d.%d, this build of gpudist needs %d.%d",
                 cuda.driver / 1000, cuda.driver % 1000 / 10, cuda.runtime / 1000,
                 cuda.runtime % 1000 / 10);
    }
    else if (code != cudaSuccess && code != cudaErrorNoDevice) {
        snprintf(cuda.why_not, sizeof cuda.why_not, "the CUDA runtime could not start: %s",
                 cudaGetErrorString(code));
    }
    else if (visible != NULL) {
        snprintf(cuda.why_not, sizeof cuda.why_not,
                 "CUDA_VISIBLE_DEVICES=\"%.100s\" hides every device", visible);
    }
    else {
        snprintf(cuda.why_not, sizeof cuda.why_not, "the driver finds no CUDA device");
    }
}

static void probe(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    (void)cudaRuntimeGetVersion(&cuda.runtime);
    if (libcuda == NULL) {
        snprintf(cuda.why_not, sizeof cuda.why_not,
                 "no NVIDIA driver: the library libcuda.so.1 was not found");
        return;
    }
    dlclose(libcuda);
    (void)cudaDriverGetVersion(&cuda.driver);
    cudaError_t code = cudaGetDeviceCount(&cuda.count);
    if (code != cudaSuccess || cuda.count == 0) {
        cuda.count = 0;
        explain_no_device(code);
    }
    (void)cudaGetLastError();
}

const char *gd_cuda_why_not(void)
{
    pthread_once(&probed, probe);
    return cuda.why_not[0] ? cuda.why_not : NULL;
}

void gd_cuda_versions(int *driver, int *runtime)
{
    pthread_once(&probed, probe);
    *driver = cuda.driver;
    *runtime = cuda.runtime;
}

int gd_cuda_count(void)
{
    pthread_once(&probed, probe);
    return cuda.count;
}

const char *gd_cuda_targets(void) { return GD_CUDA_TARGETS; }

static gd_status ask_device(int index, gd_card *card, gd_error *err)
{
    struct cudaDeviceProp prop;
    int ratio = 0;
    CUDA_TRY(cudaGetDeviceProperties(&prop, index), "asking for the device's properties");
    CUDA_TRY(cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, index),
             "asking for the device's rate of float64");
    snprintf(card->name, sizeof card->name, "%s", prop.name);
    card->multiprocessors = prop.multiProcessorCount;
    card->memory = prop.totalGlobalMem;
    card->l2 = (size_t)prop.l2CacheSize;
    card->shared_block = prop.sharedMemPerBlockOptin;
    card->shared_multiprocessor = prop.sharedMemPerMultiprocessor;
    card->double_ratio = ratio > 0 ? ratio : 1;
    card->targets = gd_cuda_targets();
    card->capability = 10 * prop.major + prop.minor;
    return GD_OK;
}

/* The runtime takes longer to answer than a small call takes, so each device is asked once; and the
 * chooser asks for each row, so that no lock is taken where the answer is there. */
gd_status gd_cuda_describe(int index, const gd_card **card, gd_error *err)
{
    static gd_card cards[GD_MOST_DEVICES];
    static _Atomic bool known[GD_MOST_DEVICES];
    gd_status status = GD_OK;
    if (index < 0 || index >= GD_MOST_DEVICES) {
        return GD_FAIL(err, GD_DEVICE_ERROR, "gpudist knows cuda:0 to cuda:%d",
                       GD_MOST_DEVICES - 1);
    }
    *card = &cards[index];
    if (atomic_load_explicit(&known[index], memory_order_acquire)) {
        return GD_OK;
    }
    pthread_mutex_lock(&devices_lock);
    if (!atomic_load_explicit(&known[index], memory_order_relaxed)) {
        status = ask_device(index, &cards[index], err);
        atomic_store_explicit(&known[index], status == GD_OK, memory_order_release);
    }
    pthread_mutex_unlock(&devices_lock);
    return status;
}

int gd_cuda_pointer_device(const void *p)
{
    struct cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, p) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return attributes.device < 0 ? 0 : attributes.device;
}

/* ---------------------------------------------------------------- memory and streams */

gd_status gd_cuda_enter(int index, int *previous, gd_error *err)
{
    const gd_card *card = NULL;
    gd_status status = gd_cuda_describe(index, &card, err);
    if (status != GD_OK) {
        return status;
    }
    if (gd_generation_of(card->capability) < 0) {
        return GD_FAIL(err, GD_DEVICE_ERROR,
                       "cuda:%d has compute capability %d.%d, gpudist needs 7.5 or newer", index,
                       card->capability / 10, card->capability % 10);
    }
    CUDA_TRY(cudaGetDevice(previous), "asking for the current device");
    if (*previous != index) {
        CUDA_TRY(cudaSetDevice(index), "selecting the device");
    }
    return GD_OK;
}

void gd_cuda_leave(int index, int previous)
{
    if (previous != index) {
        (void)cudaSetDevice(previous);
    }
}

/* Memory of ours that is free stays with us up to a share of the device's, because asking the
 * driver for it again costs more than a small call takes: on an H200 100 MB, what tensor cores need
 * for 16384 x 16384 distances, 0.05 ms of their 0.5, and 1 GB, a graph of as many nodes, 3 ms. The
 * pools are our own, so that nobody else's allocations change their manners. */
enum { LEAST_KEPT_BYTES = 64 << 20, KEPT_SHARE = 32 };

/* How much freed memory the current device's pool is to keep. */
static cudaError_t bytes_to_keep(uint64_t *bytes)
{
    size_t available, total;
    const cudaError_t code = cudaMemGetInfo(&available, &total);
    *bytes = LEAST_KEPT_BYTES;
    if (code == cudaSuccess && total / KEPT_SHARE > *bytes) {
        *bytes = total / KEPT_SHARE;
    }
    return code;
}

/* index: of the current device. */
static cudaError_t pool_of(int index, cudaMemPool_t *pool)
{
    static cudaMemPool_t pools[GD_MOST_DEVICES];
    cudaError_t code = cudaSuccess;
    pthread_mutex_lock(&devices_lock);
    if (pools[index] == NULL) {
        const struct cudaMemPoolProps props = {
            .allocType = cudaMemAllocationTypePinned,
            .location = {.type = cudaMemLocationTypeDevice, .id = index},
        };
        uint64_t kept;
        code = bytes_to_keep(&kept);
        if (code == cudaSuccess) {
            code = cudaMemPoolCreate(&pools[index], &props);
        }
        if (code == cudaSuccess) {
            code = cudaMemPoolSetAttribute(pools[index], cudaMemPoolAttrReleaseThreshold, &kept);
        }
    }
    *pool = pools[index];
    pthread_mutex_unlock(&devices_lock);
    return code;
}

static cudaError_t current_pool(cudaMemPool_t *pool)
{
    int index;
    const cudaError_t code = cudaGetDevice(&index); /* below GD_MOST_DEVICES, see gd_cuda_enter */
    return code == cudaSuccess ? pool_of(index, pool) : code;
}

static cudaError_t allocate(void *stream, size_t bytes, void **out)
{
    cudaMemPool_t pool;
    const cudaError_t code = current_pool(&pool);
    return code == cudaSuccess ? cudaMallocFromPoolAsync(out, bytes, pool, (cudaStream_t)stream)
                               : code;
}

gd_status gd_cuda_free_memory(size_t *bytes, gd_error *err)
{
    size_t total;
    uint64_t reserved, used;
    cudaMemPool_t pool;
    CUDA_TRY(current_pool(&pool), "creating a memory pool");
    CUDA_TRY(cudaMemGetInfo(bytes, &total), "asking for free device memory");
    CUDA_TRY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
             "asking for reserved device memory");
    CUDA_TRY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used),
             "asking for used device memory");
    *bytes += (size_t)(reserved - used);
    *bytes -= *bytes / 32; /* blocks do not fill it to the last byte */
    return GD_OK;
}

gd_status gd_cuda_most_held(size_t *bytes, bool forget, gd_error *err)
{
    uint64_t most, nothing = 0;
    cudaMemPool_t pool;
    CUDA_TRY(current_pool(&pool), "creating a memory pool");
    CUDA_TRY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &most),
             "asking for used device memory");
    if (forget) {
        CUDA_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &nothing),
                 "forgetting used device memory");
    }
    *bytes = (size_t)most;
    return GD_OK;
}

gd_status gd_cuda_alloc(void *stream, size_t bytes, const char *what, void **out, gd_error *err)
{
    cudaError_t code = allocate(stream, bytes, out);
    if (code == cudaErrorMemoryAllocation) {
        size_t available = 0, total = 0;
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&available, &total);
        *out = NULL;
        return gd_error_set(err, GD_NO_MEMORY, (int)code, __FILE__, __LINE__,
                            "%s needs %zu bytes of device memory, %zu are free", what, bytes,
                            available);
    }
    CUDA_TRY(code, "allocating device memory");
    return GD_OK;
}

void gd_cuda_free(void *stream, void *p) { (void)cudaFreeAsync(p, (cudaStream_t)stream); }

gd_status gd_cuda_clear(void *stream, void *memory, size_t bytes, gd_error *err)
{
    CUDA_TRY(cudaMemsetAsync(memory, 0, bytes, (cudaStream_t)stream), "clearing memory");
    return GD_OK;
}

gd_status gd_cuda_copy_rows(void *stream, void *dst, size_t dst_pitch, const void *src,
                            size_t src_pitch, size_t row_bytes, size_t rows, gd_error *err)
{
    if (row_bytes == 0 || rows == 0) {
        return GD_OK;
    }
    if (dst_pitch == row_bytes && src_pitch == row_bytes) {
        CUDA_TRY(
            cudaMemcpyAsync(dst, src, row_bytes * rows, cudaMemcpyDefault, (cudaStream_t)stream),
            "copying");
    }
    else {
        CUDA_TRY(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, row_bytes, rows,
                                   cudaMemcpyDefault, (cudaStream_t)stream),
                 "copying");
    }
    return GD_OK;
}

gd_status gd_cuda_wait(void *stream, gd_error *err)
{
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)stream), "waiting for the device");
    return GD_OK;
}

gd_status gd_cuda_refuse_capture(void *stream, const char *what, gd_error *err)
{
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    const cudaError_t code = cudaStreamIsCapturing((cudaStream_t)stream, &capturing);
    if (code == cudaSuccess && capturing == cudaStreamCaptureStatusNone) {
        return GD_OK;
    }
    if (code != cudaSuccess && code != cudaErrorStreamCaptureImplicit) {
        return cuda_fail(code, "asking whether a stream is captured", __LINE__, err);
    }
    (void)cudaGetLastError(); /* the question to the default stream while another is captured */
    return GD_FAIL(err, GD_DEVICE_ERROR,
                   "%s waits for the device, which a CUDA graph cannot capture; call it before or "
                   "after the capture, and capture the work on its result",
                   what);
}

gd_status gd_cuda_order(void *stream, void *other, gd_error *err)
{
    void *event = NULL;
    gd_status status;
    if (stream == other) {
        return GD_OK;
    }
    status = gd_cuda_event_record(other, &event, err);
    if (status == GD_OK) {
        cudaError_t code = cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0);
        if (code != cudaSuccess) {
            status = cuda_fail(code, "ordering two streams", __LINE__, err);
        }
        gd_cuda_event_free(event);
    }
    return status;
}

gd_status gd_cuda_stream_create(void **stream, gd_error *err)
{
    cudaStream_t fresh;
    CUDA_TRY(cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking), "creating a stream");
    *stream = fresh;
    return GD_OK;
}

gd_status gd_cuda_stream_take(bool urgent, void **stream, gd_error *err)
{
    int least, most;
    cudaStream_t fresh;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &most), "asking for priorities");
    CUDA_TRY(cudaStreamCreateWithPriority(&fresh, cudaStreamNonBlocking, urgent ? most : least),
             "creating a stream");
    *stream = fresh;
    return GD_OK;
}

void gd_cuda_stream_give(void *stream)
{
    if (stream != NULL) {
        (void)cudaStreamDestroy((cudaStream_t)stream);
    }
}

/* A thread that waits sleeps: it has no time to measure, and others need its core. */
gd_status gd_cuda_mark_create(void **mark, gd_error *err)
{
    cudaEvent_t fresh;
    CUDA_TRY(cudaEventCreateWithFlags(&fresh, cudaEventBlockingSync | cudaEventDisableTiming),
             "creating an event");
    *mark = fresh;
    return GD_OK;
}

void gd_cuda_mark_free(void *mark)
{
    if (mark != NULL) {
        (void)cudaEventDestroy((cudaEvent_t)mark);
    }
}

gd_status gd_cuda_mark_set(void *mark, void *stream, gd_error *err)
{
    CUDA_TRY(cudaEventRecord((cudaEvent_t)mark, (cudaStream_t)stream), "recording an event");
    return GD_OK;
}

gd_status gd_cuda_mark_wait(void *mark, gd_error *err)
{
    CUDA_TRY(cudaEventSynchronize((cudaEvent_t)mark), "waiting for the device");
    return GD_OK;
}

gd_status gd_cuda_mark_order(void *stream, void *mark, gd_error *err)
{
    CUDA_TRY(cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)mark, 0),
             "ordering two streams");
    return GD_OK;
}

gd_status gd_cuda_send(void *stream, int to_index, void *to, int from_index, const void *from,
                       size_t bytes, gd_error *err)
{
    CUDA_TRY(to_index == from_index
                 ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream)
                 : cudaMemcpyPeerAsync(to, to_index, from, from_index, bytes, (cudaStream_t)stream),
             "copying from device to device");
    return GD_OK;
}

/* Memory of a pool is reached by leave of the pool, whatever cudaDeviceEnablePeerAccess says. The
 * owner has had memory of gd_alloc, and so its pool is there. */
static gd_status let_reach(int owner, int reader, bool *reaches, gd_error *err)
{
    static _Atomic bool lets[GD_MOST_DEVICES][GD_MOST_DEVICES]; /* the driver takes long to ask */
    int can = 0;
    cudaMemPool_t pool;
    *reaches = atomic_load(&lets[owner][reader]);
    if (*reaches == !gd_peers_are_refused()) {
        return GD_OK;
    }
    CUDA_TRY(cudaDeviceCanAccessPeer(&can, reader, owner), "asking what devices can reach");
    if (!can) {
        return GD_OK;
    }
    const struct cudaMemAccessDesc leave = {
        .location = {.type = cudaMemLocationTypeDevice, .id = reader},
        .flags =
            gd_peers_are_refused() ? cudaMemAccessFlagsProtNone : cudaMemAccessFlagsProtReadWrite,
    };
    CUDA_TRY(pool_of(owner, &pool), "creating a memory pool");
    CUDA_TRY(cudaMemPoolSetAccess(pool, &leave, 1), "letting devices reach each other's memory");
    *reaches = leave.flags != cudaMemAccessFlagsProtNone;
    atomic_store(&lets[owner][reader], *reaches);
    return GD_OK;
}

gd_status gd_cuda_befriend(int one, int other, bool *friends, gd_error *err)
{
    bool there = true, back = true;
    gd_status status = one == other ? GD_OK : let_reach(one, other, &there, err);
    if (one != other && status == GD_OK) {
        status = let_reach(other, one, &back, err);
    }
    if (friends != NULL) {
        *friends = there && back;
    }
    return status;
}

gd_status gd_cuda_pinned_alloc(size_t bytes, void **out, gd_error *err)
{
    if (gd_allocation_fails()) {
        return GD_FAIL(err, GD_NO_MEMORY, "pinned memory of %zu bytes: a test denies it", bytes);
    }
    CUDA_TRY(cudaHostAlloc(out, bytes, cudaHostAllocDefault), "allocating pinned host memory");
    return GD_OK;
}

void gd_cuda_pinned_free(void *p)
{
    if (p != NULL) {
        (void)cudaFreeHost(p);
    }
}

/* Pages that nobody has; the first bytes of each lead to the next. */
static void *free_pages;
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;

gd_status gd_cuda_page_take(void **page, gd_error *err)
{
    pthread_mutex_lock(&pages_lock);
    *page = free_pages;
    if (*page != NULL) {
        memcpy(&free_pages, *page, sizeof free_pages);
    }
    pthread_mutex_unlock(&pages_lock);
    return *page != NULL ? GD_OK : gd_cuda_pinned_alloc(GD_PAGE_BYTES, page, err);
}

void gd_cuda_page_give(void *page)
{
    if (page != NULL) {
        pthread_mutex_lock(&pages_lock);
        memcpy(page, &free_pages, sizeof free_pages);
        free_pages = page;
        pthread_mutex_unlock(&pages_lock);
    }
}

/* ---------------------------------------------------------------- clocks */

gd_status gd_cuda_event_record(void *stream, void **event, gd_error *err)
{
    cudaEvent_t fresh;
    cudaError_t code;
    CUDA_TRY(cudaEventCreate(&fresh), "creating an event");
    code = cudaEventRecord(fresh, (cudaStream_t)stream);
    if (code != cudaSuccess) {
        (void)cudaEventDestroy(fresh);
        return cuda_fail(code, "recording an event", __LINE__, err);
    }
    *event = fresh;
    return GD_OK;
}

gd_status gd_cuda_event_elapsed(void *start, void *stop, double *milliseconds, gd_error *err)
{
    float ms = 0;
    CUDA_TRY(cudaEventSynchronize((cudaEvent_t)stop), "waiting for an event");
    CUDA_TRY(cudaEventElapsedTime(&ms, (cudaEvent_t)start, (cudaEvent_t)stop), "reading a clock");
    *milliseconds = ms;
    return GD_OK;
}

void gd_cuda_event_free(void *event)
{
    if (event != NULL) {
        (void)cudaEventDestroy((cudaEvent_t)event);
    }
}
