/* run_perron_part.c: one part of the perron study's loop by itself.
 *
 * Nothing is staged: a part is timed on arrays that are where it runs. */
#include "device.h"
#include "registry.h"
#include "run.h"

static gd_status check(const gd_matrix *x, const char *name, gd_dtype dtype, ptrdiff_t elements,
                       gd_device device, gd_error *err)
{
    if (x->dtype != dtype) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s must be of %s, not %s", name, gd_dtype_name(dtype),
                       gd_dtype_name(x->dtype));
    }
    if (x->rows * x->cols != elements) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s must have %td elements, got %td", name, elements,
                       x->rows * x->cols);
    }
    if (x->device.backend != device.backend || x->device.index != device.index) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s must be on the device where the part runs", name);
    }
    return GD_OK;
}

gd_status gd_run_perron_part(const gd_matrix *matrix, const gd_matrix *sums,
                             const gd_matrix *vector, const gd_matrix *top, const gd_matrix *apart,
                             double epsilon, const gd_orders *orders, gd_error *err)
{
    const ptrdiff_t n = sums->cols;
    const gd_request request = {
        .op = GD_OP_PERRON_PART,
        .orders = gd_orders_near(sums->device, orders),
        .dtype = sums->dtype,
        .n = n,
        .cols = matrix->data == NULL ? 0 : n,
    };
    gd_choice choice;
    int previous;
    gd_status status;
    if (n == 0) {
        return GD_FAIL(err, GD_BAD_VALUE, "sums must not be empty");
    }
    if ((status = gd_choose(&request, &choice, err)) != GD_OK ||
        (status = check(sums, "sums", sums->dtype, n, choice.device, err)) != GD_OK ||
        (status = check(vector, "vector", sums->dtype, n, choice.device, err)) != GD_OK ||
        (status = check(top, "top", sums->dtype, 1, choice.device, err)) != GD_OK ||
        (status = check(apart, "apart", GD_I32, 1, choice.device, err)) != GD_OK) {
        return status;
    }
    if (matrix->data != NULL &&
        (status = check(matrix, "matrix", sums->dtype, n * n, choice.device, err)) != GD_OK) {
        return status;
    }
    gd_perron_part call = {
        .launch = {.device = choice.device, .stream = orders->stream, .options = choice.options},
        .n = n,
        .dtype = sums->dtype,
        .matrix = matrix->data,
        .sums = sums->data,
        .vector = vector->data,
        .top = top->data,
        .apart = apart->data,
        .epsilon = epsilon,
    };
    if ((status = gd_enter(choice.device, &previous, err)) == GD_OK) {
        status = choice.kernel->launch.perron_part(&call, err);
        gd_leave(choice.device, previous);
    }
    return status;
}
