/* options.c: the launch parameters that a caller sets, held against those of a row. */
#include "options.h"

#include <stdio.h>
#include <string.h>

int gd_option_count(const gd_kernel *kernel)
{
    int count = 0;
    while (kernel->options != NULL && kernel->options[count].name != NULL) {
        ++count;
    }
    return count;
}

static gd_status unknown(const gd_kernel *kernel, const gd_setting *setting, gd_error *err)
{
    char names[200] = "";
    size_t used = 0;
    for (int i = 0; i < gd_option_count(kernel) && used < sizeof names; ++i) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 kernel->options[i].name);
    }
    return GD_FAIL(err, GD_BAD_VALUE, "kernel '%s' has no option '%s'; it takes %s", kernel->id,
                   setting->name, used > 0 ? names : "none");
}

static gd_status apply(const gd_kernel *kernel, const gd_setting *setting, gd_options *options,
                       gd_error *err)
{
    for (int i = 0; i < gd_option_count(kernel); ++i) {
        const gd_option *o = &kernel->options[i];
        if (strcmp(o->name, setting->name) != 0) {
            continue;
        }
        if (setting->value < o->least || setting->value > o->most ||
            (setting->value - o->least) % o->step != 0) {
            return GD_FAIL(err, GD_BAD_VALUE,
                           "option '%s' of kernel '%s' must be %d to %d in steps of %d, got %lld",
                           o->name, kernel->id, o->least, o->most, o->step, setting->value);
        }
        options->value[i] = (int)setting->value;
        return GD_OK;
    }
    return unknown(kernel, setting, err);
}

gd_status gd_apply_settings(const gd_kernel *kernel, const gd_settings *settings,
                            gd_options *options, gd_error *err)
{
    gd_status status = GD_OK;
    *options = (gd_options){{0}};
    for (int i = 0; i < gd_option_count(kernel); ++i) {
        options->value[i] = kernel->options[i].standard;
    }
    for (int i = 0; i < settings->count && status == GD_OK; ++i) {
        status = apply(kernel, &settings->setting[i], options, err);
    }
    return status;
}
