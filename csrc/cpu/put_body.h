/* put_body.h: rows of totals that wait to be stored, a line at a time, between sums that keep other
 * units of the processor busy. Included once per type, with T, V and N as in cdist_tile_body.h, and
 * N(lanes). */

enum { N(per_line) = GD_LINE / sizeof(T) };

/* Staged rows of totals on their way to the result, where distances are made of them. */
typedef struct N(queue) {
    const T *from; /* whole lines of the result that are next */
    T *to;
    ptrdiff_t lines;
    const T *row; /* rows of which nothing is stored yet */
    T *row_to;
    ptrdiff_t rows, cols, from_stride, to_stride;
    gd_metric metric; /* one whose totals are distances if these already are */
    bool stream;      /* past the caches */
    /* Of each row, distances of a line that is not complete. NULL: of none, as has to be where runs
     * of columns that go on may be less than a line, and end within a row's first one. */
    T *kept;
    bool continues; /* rows whose columns before these have been in the queue */
    bool goes_on;   /* with those that come next */
    bool hidden;    /* whether there are enough sums to hide roots behind */
} N(queue);

/* Lines of a queue that somebody stores one by one. */
typedef struct N(share) {
    const T *from;
    T *to;
    ptrdiff_t lines;
} N(share);

/* Stores `count` distances. If they are `hidden`, their roots are by the unit that nothing else
 * needs, between sums that it does not hold up. */
GD_INLINE void N(put_lines)(const gd_metric metric, const bool stream, const bool hidden,
                            const T *from, T *to, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i += N(lanes)) {
        const V total = gd_load(from + i);
        const V x = metric == GD_EUCLIDEAN && hidden ? gd_sqrt(total) : PICK(FINISH, metric, total);
        if (stream)
            gd_stream(to + i, (gd_vf32)x);
        else
            gd_store(to + i, x);
    }
}

/* Less than a line, the first or the last of a row. Runs of a row may be a few lines only, so this
 * goes without vectors, whose loads would wait for the stores of their parts. */
GD_INLINE void N(put_part)(gd_metric metric, const T *from, T *to, ptrdiff_t count)
{
    if (metric == GD_EUCLIDEAN)
        for (ptrdiff_t i = 0; i < count; ++i)
            to[i] = (T)__builtin_sqrt((double)from[i]);
    else if (metric == GD_COSINE)
        for (ptrdiff_t i = 0; i < count; ++i)
            to[i] = 2 < from[i] ? 2 : from[i];
    else
        memcpy(to, from, (size_t)count * sizeof(T));
}

/* Makes the whole lines of the next row those that are next, and stores the rest of it. A line that
 * two runs of columns share is put together before it is streamed: in parts it would be read from
 * memory first, which took a tenth of such calls. */
static __attribute__((noinline)) void N(begin_row)(N(queue) * queue)
{
    const T *const from = queue->row;
    T *const to = queue->row_to, *const kept = queue->kept;
    const ptrdiff_t missing = (ptrdiff_t)(-(uintptr_t)to % GD_LINE / sizeof(T));
    const ptrdiff_t head = gd_least(queue->cols, missing), there = N(per_line) - missing;
    const ptrdiff_t lines = (queue->cols - head) / N(per_line), tail = head + lines * N(per_line);
    if (missing > 0 && kept != NULL && queue->continues) {
        N(put_part)(queue->metric, from, kept + there, head);
        if (head == missing)
            N(put_lines)(GD_SQEUCLIDEAN, true, false, kept, to - there, N(per_line));
        else
            memcpy(to - there, kept, (size_t)(there + head) * sizeof(T));
    }
    else
        N(put_part)(queue->metric, from, to, head);
    N(put_part)(queue->metric, from + tail, kept != NULL && queue->goes_on ? kept : to + tail,
                queue->cols - tail);
    queue->from = from + head, queue->to = to + head, queue->lines = lines;
    queue->row += queue->from_stride, queue->row_to += queue->to_stride, queue->rows -= 1;
    queue->kept += kept != NULL ? N(per_line) : 0;
}

/* Takes lines of one row from the queue, `most` at most. */
GD_INLINE N(share) N(take_share)(N(queue) * queue, ptrdiff_t most)
{
    if (queue->lines == 0 && queue->rows > 0)
        N(begin_row)(queue);
    const N(share) share = {queue->from, queue->to, gd_least(most, queue->lines)};
    queue->from += share.lines * N(per_line);
    queue->to += share.lines * N(per_line);
    queue->lines -= share.lines;
    return share;
}

/* Stores a line of a share that has one. */
GD_INLINE void N(put_line)(const gd_metric metric, const N(queue) * queue, N(share) * share)
{
    N(put_lines)(metric, queue->stream, queue->hidden, share->from, share->to, N(per_line));
    share->from += N(per_line), share->to += N(per_line), share->lines -= 1;
}

/* Stores all that waits. */
static __attribute__((noinline)) void N(put_all)(N(queue) * queue)
{
    while (queue->lines > 0 || queue->rows > 0) {
        const N(share) share = N(take_share)(queue, PTRDIFF_MAX);
        const ptrdiff_t count = share.lines * N(per_line);
        if (queue->metric == GD_EUCLIDEAN && queue->stream)
            N(put_lines)(GD_EUCLIDEAN, true, false, share.from, share.to, count);
        else if (queue->metric == GD_EUCLIDEAN)
            N(put_lines)(GD_EUCLIDEAN, false, false, share.from, share.to, count);
        else if (queue->metric == GD_COSINE)
            N(put_lines)(GD_COSINE, queue->stream, false, share.from, share.to, count);
        else
            N(put_lines)(GD_SQEUCLIDEAN, queue->stream, false, share.from, share.to, count);
    }
}
