/* py_simple.c: what small calls on the host and on a device have in common. */
#include "py_simple.h"

#include "../registry.h"

/* Adds axes of length 1 before the others, so that there are as many. */
static void lengthen(gd_array *array, int ndim)
{
    const int more = ndim - array->ndim;
    for (int axis = ndim - 1; axis >= 0; --axis) {
        array->shape[axis] = axis < more ? 1 : array->shape[axis - more];
        array->strides[axis] = axis < more ? 0 : array->strides[axis - more];
    }
    array->ndim = ndim;
}

/* Gives two arrays one shape along their first axes; false where their lengths differ. */
static bool broadcast(gd_array *a, gd_array *b, int axes)
{
    for (int axis = 0; axis < axes; ++axis) {
        const ptrdiff_t m = a->shape[axis], n = b->shape[axis];
        if (m != n) {
            gd_array *const one = m == 1 ? a : b;
            if (one->shape[axis] != 1) {
                return false;
            }
            one->shape[axis] = m == 1 ? n : m;
            one->strides[axis] = 0;
        }
    }
    return true;
}

/* Elements that follow each other in the shape that the array has; false if there are none, or more
 * bytes than so many. */
static bool make_dense(gd_array *array, ptrdiff_t most_bytes)
{
    ptrdiff_t bytes = (ptrdiff_t)gd_dtype_size(array->dtype);
    for (int axis = array->ndim - 1; axis >= 0; --axis) {
        array->strides[axis] = bytes;
        if (array->shape[axis] <= 0 || __builtin_mul_overflow(bytes, array->shape[axis], &bytes) ||
            bytes > most_bytes) {
            return false;
        }
    }
    return true;
}

/* Matrices with elements, each where an element can be. */
static bool take_stack(const gd_array *array, int axes, gd_stack *stack)
{
    const bool strided = array->device.backend == GD_CUDA;
    const bool taken = gd_take_stack(array, "points", axes, 2, strided, stack) &&
                       stack->first.rows > 0 && stack->first.cols > 0 &&
                       (uintptr_t)array->data % gd_dtype_size(array->dtype) == 0;
    PyErr_Clear();
    return taken;
}

bool gd_to_matrix(const gd_array *array, gd_matrix *matrix)
{
    gd_stack stack;
    const bool is = array->ndim == 2 && take_stack(array, 0, &stack);
    if (is) {
        *matrix = stack.first;
    }
    return is;
}

bool gd_join(gd_simple *call, ptrdiff_t most_bytes)
{
    gd_array *const a = &call->a, *const b = call->pairs ? a : &call->b, *const out = &call->out;
    const int ndim = a->ndim > b->ndim ? a->ndim : b->ndim, axes = ndim - 2;
    gd_matrices *const matrices = &call->matrices;
    if (a->ndim < 2 || b->ndim < 2 || a->dtype != b->dtype ||
        a->device.backend != b->device.backend || a->device.index != b->device.index ||
        a->shape[a->ndim - 1] != b->shape[b->ndim - 1]) {
        return false;
    }
    lengthen(a, ndim);
    lengthen(b, ndim);
    if (!broadcast(a, b, axes)) {
        return false;
    }
    *matrices = (gd_matrices){.pairs = call->pairs, .axes = axes, .shape = out->shape, .count = 1};
    const ptrdiff_t m = a->shape[axes], n = b->shape[axes];
    if (n > most_bytes) { /* whose square may be no number */
        return false;
    }
    for (int axis = 0; axis < axes; ++axis) {
        out->shape[axis] = a->shape[axis];
    }
    out->ndim = call->pairs ? axes + 1 : ndim;
    out->shape[axes] = call->pairs ? n * (n - 1) / 2 : m;
    out->shape[ndim - 1] = call->pairs ? out->shape[ndim - 1] : n;
    if (!make_dense(out, most_bytes)) {
        return false;
    }
    for (int axis = 0; axis < axes; ++axis) {
        matrices->count *= out->shape[axis];
    }
    return take_stack(a, axes, &matrices->a) && (call->pairs || take_stack(b, axes, &matrices->b));
}

/* The first byte of an array with elements, and the one after its last. */
static void find_bounds(const gd_array *array, uintptr_t bounds[2])
{
    bounds[0] = (uintptr_t)array->data;
    bounds[1] = bounds[0] + gd_dtype_size(array->dtype);
    for (int axis = 0; axis < array->ndim; ++axis) {
        const ptrdiff_t apart = (array->shape[axis] - 1) * array->strides[axis];
        bounds[apart > 0] += (uintptr_t)apart;
    }
}

static bool may_overlap(const gd_array *x, const gd_array *y)
{
    uintptr_t one[2], other[2];
    find_bounds(x, one);
    find_bounds(y, other);
    return one[0] < other[1] && other[0] < one[1];
}

/* Inner steps: on the host 10 ms of the slowest metric, on a device what nobody cuts up (watch.c).
 */
#define BRIEF_ON_HOST 0x1p20
#define BRIEF_ON_CUDA 0x1p35
/* Python's lock is kept over so many on the host, some microseconds: to give it up and to get it
 * back takes a tenth of that. */
#define MOMENTARY 0x1p13

/* A division, a root or a logarithm takes as long as so many additions. */
#define STEPS_OF_COSTLY 8
/* And so long to get to one of many matrices. */
#define STEPS_TO_A_MATRIX 0x1p8

static double steps_of(const gd_matrix *a, const gd_matrix *b)
{
    return (double)a->rows * (double)b->rows * (double)(a->cols + 1);
}

static bool are_brief(double steps, gd_device device)
{
    return steps <= (device.backend == GD_CPU ? BRIEF_ON_HOST : BRIEF_ON_CUDA);
}

bool gd_is_brief(const gd_matrix *a, const gd_matrix *b)
{
    return are_brief(steps_of(a, b), a->device);
}

bool gd_is_brief_product(const gd_matrix *a, const gd_matrix *b)
{
    const double steps = (double)a->rows * (double)b->cols * (double)(a->cols + 1);
    return are_brief(steps, a->device);
}

/* Of all matrices. */
static double all_steps_of(const gd_simple *call)
{
    const gd_matrices *const m = &call->matrices;
    return (steps_of(&m->a.first, call->pairs ? &m->a.first : &m->b.first) +
            (m->axes > 0 ? STEPS_TO_A_MATRIX : 0)) *
           (double)m->count;
}

/* Whether the weights, where there are some, are apart from what is written. */
static bool are_apart(const gd_measure *measure, const gd_array *out)
{
    gd_array weights;
    weights.data = (void *)(uintptr_t)measure->weights;
    weights.ndim = 1;
    weights.shape[0] = measure->columns;
    weights.strides[0] = sizeof(double);
    weights.dtype = GD_F64;
    return measure->weights == NULL || !may_overlap(&weights, out);
}

bool gd_is_room(const gd_simple *call, const gd_measure *measure, const gd_array *theirs)
{
    const gd_array *const out = &call->out;
    bool is = theirs->ndim == out->ndim && theirs->dtype == out->dtype && theirs->writeable &&
              theirs->device.backend == out->device.backend &&
              theirs->device.index == out->device.index;
    for (int axis = 0; is && axis < out->ndim; ++axis) {
        const ptrdiff_t length = out->shape[axis];
        is = theirs->shape[axis] == length &&
             (length == 1 || theirs->strides[axis] == out->strides[axis]);
    }
    return is && !may_overlap(&call->a, theirs) &&
           (call->pairs || !may_overlap(&call->b, theirs)) && are_apart(measure, theirs) &&
           (out->device.backend != GD_CPU || are_brief(all_steps_of(call), out->device));
}

static gd_status run(const gd_matrices *m, const gd_measure *measure, const gd_orders *orders,
                     gd_error *err)
{
    const gd_matrix *const a = &m->a.first, *const out = &m->out.first;
    return m->axes > 0 ? gd_run_cdist_batch(m, measure, orders, err)
           : m->pairs  ? gd_run_pdist(a, gd_all_rows(a), out, measure, orders, err)
                       : gd_run_cdist(a, &m->b.first, out, measure, orders, err);
}

PyObject *gd_run_simply(PyObject *module, PyObject *result, void *memory, gd_simple *call,
                        const gd_measure *measure, gd_orders *orders)
{
    const gd_device device = call->out.device;
    const double steps = all_steps_of(call);
    const bool costly = gd_metric_info(measure->metric)->cost == GD_COSTLY;
    gd_matrices *const m = &call->matrices;
    gd_attention attention;
    gd_error err;
    gd_status status;
    call->out.data = memory;
    orders->ordered = true;
    if (!gd_take_stack(&call->out, "out", m->axes, call->pairs ? 1 : 2, false, &m->out)) {
        Py_DECREF(result);
        return NULL;
    }
    if (device.backend == GD_CPU && steps * (costly ? STEPS_OF_COSTLY : 1) <= MOMENTARY) {
        status = run(m, measure, orders, &err);
    }
    else if (are_brief(steps, device)) {
        Py_BEGIN_ALLOW_THREADS;
        status = run(m, measure, orders, &err);
        Py_END_ALLOW_THREADS;
    }
    else {
        attention = (gd_attention){0};
        orders->watch = gd_let_go(&attention);
        status = run(m, measure, orders, &err);
        gd_take_back(&attention);
    }
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
