/* put_body.h: rows of totals that wait to be stored, some lines at a time, between sums that keep
 * other units of the processor busy. Included once per type, with T, V and N as in
 * cdist_tile_body.h, and N(lanes). */

/* Staged rows of totals on their way to the result, where distances are made of them. */
typedef struct N(queue) {
    const T *from; /* what is next of the first row */
    T *to;
    ptrdiff_t left; /* of the row, in elements */
    ptrdiff_t rows; /* the first one included; 0 when all are stored */
    ptrdiff_t cols, from_stride, to_stride;
    ptrdiff_t quota;  /* lines at a time */
    gd_metric metric; /* one whose totals are distances if these already are */
    bool stream;      /* past the caches */
} N(queue);

GD_INLINE void N(put_lines)(const gd_metric metric, const bool stream, const T *from, T *to,
                            ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i += N(lanes)) {
        const V x = PICK(FINISH, metric, gd_load(from + i));
        if (stream)
            gd_stream(to + i, (gd_vf32)x);
        else
            gd_store(to + i, x);
    }
}

/* Less than a line, the first or the last of a row. Runs of a row may be a few lines only, so this
 * goes without vectors, whose loads would wait for the stores of their parts. */
GD_INLINE void N(put_part)(N(queue) * queue, ptrdiff_t count)
{
    if (queue->metric == GD_EUCLIDEAN)
        for (ptrdiff_t i = 0; i < count; ++i)
            queue->to[i] = (T)__builtin_sqrt((double)queue->from[i]);
    else if (queue->metric == GD_COSINE)
        for (ptrdiff_t i = 0; i < count; ++i)
            queue->to[i] = 2 < queue->from[i] ? 2 : queue->from[i];
    else
        memcpy(queue->to, queue->from, (size_t)count * sizeof(T));
    queue->from += count, queue->to += count, queue->left -= count;
}

/* Stores the next `lines` lines. */
static __attribute__((noinline)) void N(put)(N(queue) * queue, ptrdiff_t lines)
{
    enum { PER_LINE = GD_LINE / sizeof(T) };
    while (lines > 0 && queue->rows > 0) {
        const ptrdiff_t head = -(uintptr_t)queue->to % GD_LINE / sizeof(T);
        if (head > 0)
            N(put_part)(queue, gd_least(head, queue->left));
        const ptrdiff_t run = gd_least(lines, queue->left / PER_LINE), count = run * PER_LINE;
        if (queue->metric == GD_EUCLIDEAN && queue->stream)
            N(put_lines)(GD_EUCLIDEAN, true, queue->from, queue->to, count);
        else if (queue->metric == GD_EUCLIDEAN)
            N(put_lines)(GD_EUCLIDEAN, false, queue->from, queue->to, count);
        else if (queue->metric == GD_COSINE)
            N(put_lines)(GD_COSINE, queue->stream, queue->from, queue->to, count);
        else
            N(put_lines)(GD_SQEUCLIDEAN, queue->stream, queue->from, queue->to, count);
        queue->from += count, queue->to += count, queue->left -= count, lines -= run;
        if (queue->left < PER_LINE) {
            if (queue->left > 0)
                N(put_part)(queue, queue->left);
            queue->from += queue->from_stride - queue->cols;
            queue->to += queue->to_stride - queue->cols;
            queue->left = queue->cols;
            --queue->rows;
        }
    }
}
