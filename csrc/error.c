/* error.c: filling a gd_error. Turning one into a Python exception is py/raise.c's work. */
#include <stdarg.h>
#include <stdio.h>

#include "gpudist.h"

gd_status gd_error_set(gd_error *err, gd_status status, int cuda_code, const char *file, int line,
                       const char *format, ...)
{
    va_list args;
    err->status = status;
    err->cuda_code = cuda_code;
    err->file = file;
    err->line = line;
    va_start(args, format);
    vsnprintf(err->msg, sizeof err->msg, format, args);
    va_end(args);
    return status;
}
