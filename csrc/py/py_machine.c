/* py_machine.c: what can run here, what would run, and how fast the machine is. */
#include "boundary.h"

#include "../bus.h"
#include "../card.h"
#include "../device.h"
#include "../metric.h"
#include "../registry.h"
#include "../team.h"

/* ---------------------------------------------------------------- the table */

static PyObject *names_of(uint64_t set, int count, const char *(*name_of)(int))
{
    PyObject *list = PyList_New(0), *tuple = NULL;
    for (int i = 0; list != NULL && i < count; ++i) {
        PyObject *name = set & GD_BIT(i) ? PyUnicode_FromString(name_of(i)) : NULL;
        if ((set & GD_BIT(i)) && (name == NULL || PyList_Append(list, name) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    if (list != NULL) {
        tuple = PyList_AsTuple(list);
        Py_DECREF(list);
    }
    return tuple;
}

static const char *dtype_name(int i) { return gd_dtype_name((gd_dtype)i); }

static const char *metric_name(int i) { return gd_metric_name((gd_metric)i); }

static PyObject *needs_of(const gd_kernel *k)
{
    char text[64];
    if (k->backend != GD_CUDA) {
        return PyUnicode_FromString(gd_isa_name((gd_isa)k->needs));
    }
    gd_generations_text(k->needs, text, sizeof text);
    return PyUnicode_FromFormat("compute capability %s", text);
}

static const char *generation_name(int i) { return gd_generation_info((gd_generation)i)->name; }

/* (name, least, most, standard, step) of each. */
static PyObject *options_of(const gd_kernel *k)
{
    const int count = gd_option_count(k);
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; ++i) {
        const gd_option *o = &k->options[i];
        PyObject *option =
            Py_BuildValue("(siiii)", o->name, o->least, o->most, o->standard, o->step);
        if (option == NULL || PyTuple_SetItem(tuple, i, option) < 0) { /* takes option */
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *row_of(const gd_kernel *k)
{
    char why[256];
    const bool cannot = gd_no_card_runs(k, why, sizeof why);
    return Py_BuildValue(
        "{s:s,s:s,s:s,s:i,s:s,s:N,s:N,s:(nn),s:N,s:N,s:s,s:s,s:N,s:N,s:s,s:z}", "id", k->id, "op",
        gd_op_name(k->op), "ladder", k->ladder, "step", k->step, "backend",
        k->backend == GD_CUDA ? "cuda" : "cpu", "dtypes",
        names_of(k->dtypes, GD_DTYPE_COUNT, dtype_name), "metrics",
        names_of(gd_metrics_reducing_to(k->metrics, k->flags & GD_WEIGHTED), GD_METRIC_COUNT,
                 metric_name),
        "columns", (Py_ssize_t)k->min_cols, (Py_ssize_t)k->max_cols, "needs", needs_of(k),
        "generations",
        names_of(k->backend == GD_CUDA ? k->needs : 0, GD_GENERATION_COUNT, generation_name),
        "idea", k->idea, "source", k->source, "teaching",
        PyBool_FromLong((k->flags & GD_TEACHING) != 0), "options", options_of(k), "layout",
        k->flags & GD_DIM_MAJOR ? "dims" : "rows", "why_not", cannot ? why : NULL);
}

PyObject *gd_py_kernels(PyObject *module, PyObject *ignored)
{
    size_t count;
    const gd_kernel *table = gd_kernels(&count);
    PyObject *list = PyList_New(0);
    (void)module, (void)ignored;
    for (size_t i = 0; list != NULL && i < count; ++i) {
        PyObject *row = row_of(&table[i]);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* ---------------------------------------------------------------- the metrics */

/* In the order of bits. */
static const char *const argument_names[] = {"w", "p", "V", "VI", "base", "box"};
enum { ARGUMENTS = sizeof argument_names / sizeof argument_names[0] };

static const char *argument_name(int i) { return argument_names[i]; }

/* The words of a text as a tuple. */
static PyObject *words_of(const char *text)
{
    PyObject *string = PyUnicode_FromString(text), *list = NULL, *tuple = NULL;
    if (string != NULL && (list = PyUnicode_Split(string, NULL, -1)) != NULL) {
        tuple = PyList_AsTuple(list);
    }
    Py_XDECREF(string);
    Py_XDECREF(list);
    return tuple;
}

PyObject *gd_py_metrics(PyObject *module, PyObject *ignored)
{
    static const char *const domains[] = {
        [GD_NUMBERS] = "numbers", [GD_TRUTHS] = "truths", [GD_EITHER] = "either"};
    PyObject *list = PyList_New(0);
    (void)module, (void)ignored;
    for (int i = 0; list != NULL && i < GD_METRIC_COUNT; ++i) {
        const gd_metric_row *m = gd_metric_info((gd_metric)i);
        PyObject *row = Py_BuildValue(
            "{s:s,s:N,s:s,s:s,s:N,s:s,s:i,s:N}", "name", m->name, "aliases", words_of(m->aliases),
            "formula", m->formula, "reduces_to", gd_metric_name(m->reduces_to), "arguments",
            names_of((uint64_t)m->takes, ARGUMENTS, argument_name), "domain", domains[m->domain],
            "columns", m->columns, "similarity", PyBool_FromLong(m->order == GD_LARGER_IS_NEARER));
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* ---------------------------------------------------------------- the choice */

static PyObject *rejections(const gd_request *request, const gd_kernel *taken)
{
    size_t count;
    const gd_kernel *table = gd_kernels(&count);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < count; ++i) {
        char why[256];
        PyObject *text;
        if (table[i].op != request->op || &table[i] == taken) {
            continue;
        }
        if (gd_rejects(&table[i], request, why, sizeof why)) {
            text = PyUnicode_FromString(why);
        }
        else {
            text = PyUnicode_FromFormat(
                "it could; %s %s", taken->id,
                request->orders.kernel != NULL ? "was asked for by name" : "is taken before it");
        }
        if (text == NULL || PyDict_SetItemString(dict, table[i].id, text) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(text);
    }
    return dict;
}

static PyObject *device_text(gd_device device)
{
    return device.backend == GD_CUDA ? PyUnicode_FromFormat("cuda:%d", device.index)
                                     : PyUnicode_FromString("cpu");
}

GD_FUNCTION(gd_py_choose)
{
    gd_request request = {0};
    gd_metric metric = GD_EUCLIDEAN;
    PyObject *metric_name = Py_None, *operands = Py_None;
    bool weighted = false, factored = true, periodic = false;
    double p = 2;
    gd_semiring semiring = GD_MIN_PLUS;
    ptrdiff_t rows_of_a = 0;
    gd_choice choice;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"op", gd_to_op, &request.op, true},
        {"dtype", gd_to_dtype, &request.dtype, true},
        {"metric", gd_to_object, &metric_name, true},
        {"n", gd_to_size, &request.n, true},
        {"cols", gd_to_size, &request.cols, true},
        {"kernel", gd_to_kernel, &request.orders, false},
        {"device", gd_to_device, &request.orders, false},
        {"operands", gd_to_object, &operands, false},
        {"weighted", gd_to_bool, &weighted, false},
        {"p", gd_to_double, &p, false},
        {"semiring", gd_to_semiring, &semiring, false},
        {"rows", gd_to_size, &rows_of_a, false},
        {"predecessors", gd_to_bool, &request.predecessors, false},
        {"in_panels", gd_to_bool, &request.in_panels, false},
        {"direct", gd_to_bool, &request.direct, false},
        {"neighbors", gd_to_size, &request.neighbors, false},
        {"bounded", gd_to_bool, &request.bounded, false},
        {"factored", gd_to_bool, &factored, false},
        {"periodic", gd_to_bool, &periodic, false},
        {"condensed", gd_to_bool, &request.condensed, false},
    };
    if (!gd_parse("choose", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    gd_dtype rows = request.dtype;
    if (operands != Py_None && !gd_to_dtype(operands, "operands", &rows)) {
        return NULL;
    }
    /* Only distances and their gradients have a metric; the chooser looks at none of the form for
     * the others. */
    if ((request.op == GD_OP_CDIST || metric_name != Py_None) &&
        !gd_to_metric(metric_name, "metric", &metric)) {
        return NULL;
    }
    request.bottleneck = semiring == GD_MIN_MAX || semiring == GD_MAX_MIN;
    request.form = gd_form_of(metric, weighted, p, factored, periodic, rows);
    status = gd_choose(&request, &choice, &err);
    if (status != GD_OK) {
        return gd_raise(module, &err);
    }
    gd_stand_in(&request, rows_of_a, &choice);
    return Py_BuildValue("(sNNN)", choice.kernel->id, device_text(choice.device),
                         PyUnicode_FromFormat("%s; %s", choice.because, choice.kernel->idea),
                         rejections(&request, choice.kernel));
}

/* ---------------------------------------------------------------- the machine */

PyObject *gd_py_host(PyObject *module, PyObject *ignored)
{
    char name[200];
    (void)module, (void)ignored;
    gd_host_name(name, sizeof name);
    return Py_BuildValue("{s:s,s:i,s:i,s:s}", "isa", gd_isa_name(gd_host_isa()), "threads",
                         gd_team_size(), "copiers", gd_copiers(), "processor", name);
}

static PyObject *device_of(int index)
{
    const gd_card *info;
    gd_error err;
    if (gd_cuda_describe(index, &info, &err) != GD_OK) {
        PyErr_SetString(PyExc_RuntimeError, err.msg);
        return NULL;
    }
    return Py_BuildValue(
        "{s:i,s:s,s:N,s:K,s:K,s:i}", "index", index, "name", info->name, "compute_capability",
        PyUnicode_FromFormat("%d.%d", info->capability / 10, info->capability % 10), "memory_bytes",
        (unsigned long long)info->memory, "l2_bytes", (unsigned long long)info->l2,
        "multiprocessors", info->multiprocessors);
}

PyObject *gd_py_cuda(PyObject *module, PyObject *ignored)
{
    int driver, runtime;
    const char *why_not = gd_cuda_why_not();
    PyObject *devices = PyList_New(0);
    (void)module, (void)ignored;
    gd_cuda_versions(&driver, &runtime);
    for (int i = 0; devices != NULL && i < gd_cuda_count(); ++i) {
        PyObject *device = device_of(i);
        if (device == NULL || PyList_Append(devices, device) < 0) {
            Py_CLEAR(devices);
        }
        Py_XDECREF(device);
    }
    return devices == NULL ? NULL
                           : Py_BuildValue("{s:z,s:i,s:i,s:s,s:N}", "why_not", why_not, "driver",
                                           driver, "runtime", runtime, "targets", gd_cuda_targets(),
                                           "devices", devices);
}

GD_FUNCTION(gd_py_code_for)
{
    static const char *const codes[] = {
        [GD_NO_CODE] = "none", [GD_FROM_PTX] = "ptx", [GD_MACHINE_CODE] = "machine code"};
    PyObject *targets;
    ptrdiff_t capability;
    const char *text;
    const gd_arg spec[] = {{"targets", gd_to_object, &targets, true},
                           {"capability", gd_to_size, &capability, true}};
    (void)module;
    if (!gd_parse("code_for", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        (text = gd_text(targets, "targets")) == NULL) {
        return NULL;
    }
    int generation;
    return PyUnicode_FromString(codes[gd_code_for(text, (int)capability, &generation)]);
}

GD_FUNCTION(gd_py_generation)
{
    ptrdiff_t capability;
    const gd_arg spec[] = {{"capability", gd_to_size, &capability, true}};
    (void)module;
    if (!gd_parse("generation", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const int found = gd_generation_of((int)capability);
    if (found < 0) {
        return Py_NewRef(Py_None);
    }
    const gd_generation_row *row = gd_generation_info((gd_generation)found);
    return Py_BuildValue("{s:s,s:i,s:i,s:N,s:N,s:i}", "name", row->name, "lanes", row->lanes, "bus",
                         row->bus, "fp64_tensor", PyBool_FromLong(row->fp64_tensor), "halfwords",
                         PyBool_FromLong(row->halfwords), "products", row->products);
}

GD_FUNCTION(gd_py_pretend)
{
    PyObject *targets;
    ptrdiff_t capability = 0, multiprocessors = 0, shared_block = 0, shared_multiprocessor = 0,
              double_ratio = 1;
    const gd_arg spec[] = {
        {"targets", gd_to_object, &targets, true},
        {"capability", gd_to_size, &capability, false},
        {"multiprocessors", gd_to_size, &multiprocessors, false},
        {"shared_block", gd_to_size, &shared_block, false},
        {"shared_multiprocessor", gd_to_size, &shared_multiprocessor, false},
        {"double_ratio", gd_to_size, &double_ratio, false},
    };
    (void)module;
    if (!gd_parse("pretend", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (targets == Py_None) {
        gd_pretend(NULL);
        return Py_NewRef(Py_None);
    }
    gd_card card = {.name = "pretended",
                    .capability = (int)capability,
                    .multiprocessors = (int)multiprocessors,
                    .shared_block = (size_t)shared_block,
                    .shared_multiprocessor = (size_t)shared_multiprocessor,
                    .double_ratio = (int)double_ratio};
    if ((card.targets = gd_text(targets, "targets")) == NULL) {
        return NULL;
    }
    gd_pretend(&card);
    return Py_NewRef(Py_None);
}

/* ---------------------------------------------------------------- memory */

GD_FUNCTION(gd_py_fail_allocation)
{
    ptrdiff_t nth;
    const gd_arg spec[] = {{"nth", gd_to_size, &nth, true}};
    (void)module;
    if (!gd_parse("fail_allocation", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    gd_fail_allocation(nth);
    return Py_NewRef(Py_None);
}

GD_FUNCTION(gd_py_refuse_peers)
{
    bool refuse;
    const gd_arg spec[] = {{"refuse", gd_to_bool, &refuse, true}};
    (void)module;
    if (!gd_parse("refuse_peers", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    gd_refuse_peers(refuse);
    return Py_NewRef(Py_None);
}

PyObject *gd_py_allocations(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyLong_FromSsize_t(gd_allocations());
}

GD_FUNCTION(gd_py_limit_pinned)
{
    ptrdiff_t bytes;
    const gd_arg spec[] = {{"bytes", gd_to_size, &bytes, true}};
    (void)module;
    if (!gd_parse("limit_pinned", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS; /* others may be using it */
    gd_limit_pinned((size_t)bytes);
    Py_END_ALLOW_THREADS;
    return Py_NewRef(Py_None);
}

PyObject *gd_py_pinned(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyLong_FromSize_t(gd_pinned_bytes());
}

GD_FUNCTION(gd_py_most_held)
{
    gd_orders orders = {0};
    bool forget = false;
    size_t bytes = 0;
    gd_error err;
    int previous;
    const gd_arg spec[] = {{"device", gd_to_device, &orders, true},
                           {"forget", gd_to_bool, &forget, false}};
    if (!gd_parse("most_held", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const gd_device device = {orders.where == GD_WHERE_CUDA ? GD_CUDA : GD_CPU, orders.cuda_index};
    gd_status status = gd_enter(device, &previous, &err);
    if (status == GD_OK) {
        status = device.backend == GD_CUDA ? gd_cuda_most_held(&bytes, forget, &err) : GD_OK;
        gd_leave(device, previous);
    }
    return status == GD_OK ? PyLong_FromSize_t(bytes) : gd_raise(module, &err);
}

/* ---------------------------------------------------------------- clocks */

GD_FUNCTION(gd_py_ceiling)
{
    enum { MOST = 1000 };
    double work, seconds[MOST];
    ptrdiff_t bytes, repeats;
    gd_orders orders = {0};
    gd_error err;
    gd_status status;
    PyObject *times;
    const gd_arg spec[] = {
        {"kernel", gd_to_kernel, &orders, true},
        {"bytes", gd_to_size, &bytes, true},
        {"repeats", gd_to_size, &repeats, true},
        {"device", gd_to_device, &orders, false},
    };
    if (!gd_parse("ceiling", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (repeats < 1 || repeats > MOST || bytes < 4096) {
        PyErr_Format(PyExc_ValueError, "repeats must be 1 to %d, bytes at least 4096", (int)MOST);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status =
        gd_run_ceiling((size_t)bytes, &orders, (int)repeats, &work, seconds, &err);
    Py_END_ALLOW_THREADS if (status != GD_OK) { return gd_raise(module, &err); }
    times = PyTuple_New(repeats);
    for (Py_ssize_t i = 0; times != NULL && i < repeats; ++i) {
        PyObject *number = PyFloat_FromDouble(seconds[i]);
        if (number == NULL || PyTuple_SetItem(times, i, number) < 0) { /* takes number */
            Py_CLEAR(times);
        }
    }
    return times == NULL ? NULL : Py_BuildValue("(dN)", work, times);
}

static const char event_name[] = "gpudist.event";

static void event_free(PyObject *capsule)
{
    gd_cuda_event_free(PyCapsule_GetPointer(capsule, event_name));
}

GD_FUNCTION(gd_py_event_record)
{
    gd_orders orders = {0};
    gd_error err;
    void *event = NULL;
    int previous;
    gd_status status;
    const gd_arg spec[] = {
        {"device", gd_to_device, &orders, true},
        {"stream", gd_to_stream, &orders, true},
    };
    if (!gd_parse("event_record", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const gd_device device = {GD_CUDA, orders.cuda_index};
    status = gd_enter(device, &previous, &err);
    if (status == GD_OK) {
        status = gd_cuda_event_record(orders.stream, &event, &err);
        gd_leave(device, previous);
    }
    return status == GD_OK ? PyCapsule_New(event, event_name, event_free) : gd_raise(module, &err);
}

GD_FUNCTION(gd_py_event_elapsed)
{
    PyObject *start_object, *stop_object;
    void *start, *stop;
    double ms = 0;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"start", gd_to_object, &start_object, true},
        {"stop", gd_to_object, &stop_object, true},
    };
    if (!gd_parse("event_elapsed", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    start = PyCapsule_GetPointer(start_object, event_name);
    stop = start == NULL ? NULL : PyCapsule_GetPointer(stop_object, event_name);
    if (stop == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = gd_cuda_event_elapsed(start, stop, &ms, &err);
    Py_END_ALLOW_THREADS return status == GD_OK ? PyFloat_FromDouble(ms) : gd_raise(module, &err);
}
