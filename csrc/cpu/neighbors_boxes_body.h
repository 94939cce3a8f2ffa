/* neighbors_boxes_body.h: the part of neighbors_boxes.c that depends on the type of elements.
 * Included once for each, with N(name) for names, T an element, V a vector of them, M of what a
 * comparison gives, BITS to make bits of that, SINGLE whether that is float32, whose sums of
 * squares may have lost range, and PERIODIC whether columns are those of a periodic box. */

enum {
    N(lanes) = sizeof(V) / sizeof(T),
    N(arity) = N(lanes) > 8 ? N(lanes) : 8,
    N(vectors) = N(arity) / N(lanes), /* of the nodes of a group */
    N(unit) = UNIT / sizeof(T),
};

/* ---------------------------------------------------------------- arranging */

typedef T N(units) __attribute__((vector_size(UNIT)));

/* A record is the point's index, in as many bytes as an element has, and its coordinates. */
static T *N(record)(const boxes_plan *plan, ptrdiff_t i)
{
    return (T *)plan->records + i * plan->record;
}

GD_INLINE int32_t N(index_of)(const T *record)
{
    int32_t index;
    memcpy(&index, record, sizeof index);
    return index;
}

GD_INLINE void N(swap)(T *x, T *y, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k += N(unit)) {
        N(units) one, other;
        memcpy(&one, x + k, sizeof one);
        memcpy(&other, y + k, sizeof other);
        memcpy(x + k, &other, sizeof other);
        memcpy(y + k, &one, sizeof one);
    }
}

/* Equal coordinates go by index, so no two records are equal. */
GD_INLINE bool N(before)(const T *x, const T *y, ptrdiff_t at)
{
    return x[at] < y[at] || (x[at] == y[at] && N(index_of)(x) < N(index_of)(y));
}

/* Moves a record that is about the (rank / count)th of `count` to their end: the one of that rank
 * among a few. */
static void N(take_pivot)(T *from, ptrdiff_t count, ptrdiff_t rank, ptrdiff_t at, ptrdiff_t size)
{
    enum { MOST = 31 };
    const int some = count < 64 ? 3 : count < 2048 ? 7 : MOST;
    T *chosen[MOST];
    for (int i = 0; i < some; ++i) {
        /* Regular places would meet regular data. */
        const uint64_t anywhere = (uint32_t)(i + (int)(count & 0xffff)) * UINT64_C(2654435761);
        const ptrdiff_t place =
            (ptrdiff_t)(((double)i + (double)(uint32_t)anywhere * 0x1p-32) / some * (double)count);
        T *const next = from + gd_least(place, count - 1) * size;
        int j = i;
        for (; j > 0 && N(before)(next, chosen[j - 1], at); --j)
            chosen[j] = chosen[j - 1];
        chosen[j] = next;
    }
    N(swap)(chosen[(ptrdiff_t)some * rank / count], from + (count - 1) * size, size);
}

/* Moves record number `rank` of `count` to its place by column `at`, smaller ones before it. */
static void N(select)(T *from, ptrdiff_t count, ptrdiff_t rank, ptrdiff_t at, ptrdiff_t size)
{
    while (count > 1) {
        T *const pivot = from + (count - 1) * size;
        T *middle = from;
        N(take_pivot)(from, count, rank, at, size);
        for (T *i = from; i < pivot; i += size) { /* without a branch to be foretold */
            const bool less = N(before)(i, pivot, at);
            N(swap)(i, middle, size);
            middle += less ? size : 0;
        }
        N(swap)(middle, pivot, size);
        const ptrdiff_t smaller = (middle - from) / size;
        if (smaller == rank)
            return;
        if (smaller > rank) {
            count = smaller;
        }
        else {
            from = middle + size;
            count -= smaller + 1;
            rank -= smaller + 1;
        }
    }
}

/* The column in which records differ most, and so the first of equal ones. */
static ptrdiff_t N(widest)(const T *from, ptrdiff_t count, ptrdiff_t d, ptrdiff_t size)
{
    T low[MOST_COLS], high[MOST_COLS], most = 0;
    ptrdiff_t widest = 0;
    for (ptrdiff_t k = 0; k < d; ++k)
        low[k] = high[k] = from[1 + k];
    for (ptrdiff_t i = 1; i < count; ++i)
        for (ptrdiff_t k = 0; k < d; ++k) {
            const T x = from[i * size + 1 + k];
            low[k] = x < low[k] ? x : low[k];
            high[k] = x > high[k] ? x : high[k];
        }
    for (ptrdiff_t k = 0; k < d; ++k)
        if (high[k] - low[k] > most) {
            most = high[k] - low[k];
            widest = k;
        }
    return widest;
}

/* Splits leaves [first, first + span), of which there may be fewer, into halves: the first one has
 * span / 2. Rows from `good` on have NaN, and stay where they are. */
static void N(split)(const boxes_plan *plan, ptrdiff_t good, ptrdiff_t first, ptrdiff_t span)
{
    const ptrdiff_t middle = first + span / 2, begin = first * LEAF;
    const ptrdiff_t end = gd_least((first + span) * LEAF, good), cut = middle * LEAF;
    T *const from = N(record)(plan, begin);
    if (middle >= plan->leaves)
        return;
    plan->columns[middle] = 0;
    ((T *)plan->cuts)[middle] = (T)INFINITY;
    if (cut < end) {
        const ptrdiff_t column = N(widest)(from, end - begin, plan->d, plan->record);
        N(select)(from, end - begin, cut - begin, 1 + column, plan->record);
        plan->columns[middle] = (uint8_t)column;
        ((T *)plan->cuts)[middle] = N(record)(plan, cut)[1 + column];
    }
}

static void N(split_some)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    boxes_job *const job = context;
    for (; first < last && goes_on(job, member); ++first)
        N(split)(job->plan, job->plan->rows[1], first * job->span, job->span);
}

/* Splits what has `span` leaves until each is by itself. */
static void N(split_all)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    boxes_job *const job = context;
    for (; first < last; ++first)
        for (ptrdiff_t span = job->span; span > 1; span /= 2)
            for (ptrdiff_t at = 0; at < job->span; at += span) {
                if ((span >= WATCHED_SPAN || at == 0) && !goes_on(job, member))
                    return;
                N(split)(job->plan, job->plan->rows[1], first * job->span + at, span);
            }
}

/* A row's coordinates, or their images. */
GD_INLINE void N(fetch)(const gd_neighbors *call, const gd_matrix *x, ptrdiff_t row, T *to)
{
    const ptrdiff_t at = row * x->row_stride;
    if (!PERIODIC) {
        memcpy(to, (const T *)x->data + at, (size_t)x->cols * sizeof *to);
        return;
    }
    for (ptrdiff_t k = 0; k < x->cols; ++k) {
        const double given = x->dtype == GD_F32 ? (double)((const float *)x->data)[at + k]
                                                : ((const double *)x->data)[at + k];
        to[k] = (T)gd_wrapped(given, call->box[k]);
    }
}

/* Copies B's rows to records, those with NaN to the end. Returns how many are without. */
static ptrdiff_t N(read)(const boxes_plan *plan, const gd_neighbors *call)
{
    const gd_matrix *const b = &call->b;
    ptrdiff_t good = 0, bad = b->rows;
    for (ptrdiff_t i = 0; i < b->rows; ++i) {
        T row[MOST_COLS];
        const int32_t index = (int32_t)i;
        N(fetch)(call, b, i, row);
        bool nan = false;
        for (ptrdiff_t k = 0; k < plan->d; ++k)
            nan |= row[k] != row[k];
        T *const to = N(record)(plan, nan ? --bad : good++);
        memcpy(to, &index, sizeof index);
        memcpy(to + 1, row, (size_t)plan->d * sizeof *to);
    }
    return good;
}

/* The ends of a node's box, `arity` apart from each other: low, high, and so on. */
static T *N(box)(const boxes_plan *plan, int level, ptrdiff_t node)
{
    T *const groups = plan->level[level].groups;
    return groups + node / N(arity) * (2 * N(arity) * plan->d) + node % N(arity);
}

static void N(fill_leaf)(const boxes_plan *plan, ptrdiff_t leaf)
{
    const ptrdiff_t first = leaf * LEAF, count = gd_least(*plan->rows - first, LEAF);
    T *const points = (T *)plan->points + first * plan->d, *const box = N(box)(plan, 0, leaf);
    int32_t *const index = plan->index + first;
    int32_t least = INT32_MAX;
    for (ptrdiff_t i = 0; i < LEAF; ++i) {
        index[i] = i < count ? N(index_of)(N(record)(plan, first + i)) : -1;
        least = i < count && index[i] < least ? index[i] : least;
    }
    for (ptrdiff_t k = 0; k < plan->d; ++k) {
        T low = (T)INFINITY, high = -(T)INFINITY;
        for (ptrdiff_t i = 0; i < LEAF; ++i) {
            const T x = i < count ? N(record)(plan, first + i)[1 + k] : 0;
            points[k * LEAF + i] = x;
            if (x != x) { /* at no distance in this column: as near as can be */
                low = -(T)INFINITY;
                high = (T)INFINITY;
            }
            else if (i < count) {
                low = x < low ? x : low;
                high = x > high ? x : high;
            }
        }
        box[2 * k * N(arity)] = low;
        box[(2 * k + 1) * N(arity)] = high;
    }
    plan->level[0].least[leaf] = least;
}

static void N(fill_leaves)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    (void)member;
    for (; first < last; ++first)
        N(fill_leaf)(((const boxes_job *)context)->plan, first);
}

/* The boxes of a level from those below it. */
static void N(fill_level)(const boxes_plan *plan, int level)
{
    const boxes_level *const below = &plan->level[level - 1], *const here = &plan->level[level];
    for (ptrdiff_t node = 0; node < here->nodes; ++node) {
        const ptrdiff_t first = node * N(arity), last = gd_least(first + N(arity), below->nodes);
        T *const box = N(box)(plan, level, node);
        here->least[node] = below->least[first];
        for (ptrdiff_t k = 0; k < 2 * plan->d; ++k)
            box[k * N(arity)] = N(box)(plan, level - 1, first)[k * N(arity)];
        for (ptrdiff_t child = first + 1; child < last; ++child) {
            const T *const one = N(box)(plan, level - 1, child);
            here->least[node] =
                below->least[child] < here->least[node] ? below->least[child] : here->least[node];
            for (ptrdiff_t k = 0; k < 2 * plan->d; k += 2) {
                T *const low = box + k * N(arity), *const high = low + N(arity);
                *low = one[k * N(arity)] < *low ? one[k * N(arity)] : *low;
                *high = one[(k + 1) * N(arity)] > *high ? one[(k + 1) * N(arity)] : *high;
            }
        }
    }
}

static void N(arrange)(boxes_job *job, boxes_plan *plan)
{
    const gd_neighbors *const call = job->call;
    const int members = gd_team_size();
    const ptrdiff_t good = N(read)(plan, call);
    ptrdiff_t span = 1;
    plan->rows[0] = call->metric == GD_CHEBYSHEV ? call->b.rows : good;
    plan->rows[1] = good;
    set_rows(plan, plan->rows[0]);
    while (span < plan->leaves)
        span *= 2;
    /* One after the other where they are large, side by side where they fit a cache. */
    for (job->span = span; job->span > 1 && job->span * 8 * members > span; job->span /= 2)
        gd_team_run(members, gd_ceil_div(plan->leaves, job->span), 1, N(split_some), job);
    gd_team_run(members, gd_ceil_div(plan->leaves, job->span), 1, N(split_all), job);
    if (atomic_load(&job->passed) != GD_OK)
        return;
    for (int level = 0; level < plan->levels; ++level) {
        /* No node beyond the last is looked at, but it is read. */
        const ptrdiff_t size = 2 * N(arity) * plan->d * (ptrdiff_t)sizeof(T);
        const ptrdiff_t last = plan->level[level].nodes / N(arity);
        if (plan->level[level].nodes % N(arity) != 0)
            memset((char *)plan->level[level].groups + last * size, 0, (size_t)size);
    }
    gd_team_run(members, plan->leaves, 0, N(fill_leaves), job);
    for (int level = 1; level < plan->levels; ++level)
        N(fill_level)(plan, level);
}

/* ---------------------------------------------------------------- distances from sums */

/* Adds a column's difference to sums, as cdist does. */
GD_INLINE V N(add)(const boxes_kind kind, V sum, V t)
{
    return kind == SQUARES      ? gd_add_square(sum, t)
           : kind == MAGNITUDES ? gd_add_abs(sum, t)
                                : gd_max_abs(sum, t);
}

/* Whether the distance may be another than the sum itself tells. */
GD_INLINE bool N(is_lost)(const boxes_kind kind, T sum)
{
    return SINGLE && kind == SQUARES && gd_lost_range(GD_SQEUCLIDEAN, (float)sum);
}

GD_INLINE T N(root)(T sum)
{
    return SINGLE ? (T)__builtin_sqrtf((float)sum) : (T)__builtin_sqrt(sum);
}

/* A distance as cdist rounds it in a periodic box. */
GD_INLINE double N(rounded)(const gd_neighbors *call, double distance)
{
    return PERIODIC && call->b.dtype == GD_F32 ? (double)(float)distance : distance;
}

/* The distance of a point from its sum, with the bits of cdist; the point's columns are LEAF apart.
 */
GD_INLINE double N(key)(const boxes_kind kind, const gd_neighbors *call, T sum, const T *row,
                        const T *point)
{
    const ptrdiff_t d = call->b.cols;
    if (!PERIODIC && call->metric == GD_MINKOWSKI) {
        double a[MOST_COLS], b[MOST_COLS];
        bool safe;
        for (ptrdiff_t k = 0; k < d; ++k) {
            a[k] = (double)row[k];
            b[k] = (double)point[k * LEAF];
        }
        const double distance = minkowski(a, b, d, call->p, &safe);
        return !SINGLE ? distance
               : safe ? (double)(float)distance
                      : (double)(float)gd_scaled_minkowski((const float *)row, (const float *)point,
                                                           LEAF, d, NULL, NULL, call->p);
    }
    const bool root = call->metric == GD_EUCLIDEAN;
    if (N(is_lost)(kind, sum)) {
        double exact = 0;
        for (ptrdiff_t k = 0; k < d; ++k)
            exact += gd_wide_term(GD_SQEUCLIDEAN, (float)row[k], (float)point[k * LEAF]);
        return (double)(T)(root ? __builtin_sqrt(exact) : exact);
    }
    return N(rounded)(call, (double)(kind == SQUARES && root ? N(root)(sum) : sum));
}

/* A number that no sum of a distance of at most `key` is larger than. */
static T N(sum_within)(const boxes_kind kind, const gd_neighbors *call, double key)
{
    const bool root = kind == SQUARES && call->metric != GD_SQEUCLIDEAN;
    const double more = SINGLE ? 0x1p-18 : 0x1p-40;
    if (PERIODIC && call->b.dtype == GD_F32) /* what is rounded to the key */
        key += key * 0x1p-20 + 0x1p-149;
    if (call->metric == GD_MINKOWSKI) {
        /* Powers of smaller differences would be less than float64 has room for. */
        const double least = SINGLE ? 0 : MOST_COLS * exp2(-1000 / call->p);
        key += key * more;
        key = key < least ? least : key;
    }
    double sum = root ? key * key * (1 + more) : key;
    if (!SINGLE)
        return (T)(root ? sum + DBL_MIN : sum);
    if (kind == SQUARES) {
        sum += sum * more;
        return sum >= (double)FLT_MAX          ? (T)INFINITY
               : sum < GD_F32_SQUARES_SAFE_MIN ? (T)GD_F32_SQUARES_SAFE_MIN
                                               : (T)sum;
    }
    return (double)(float)sum < sum ? (T)nextafterf((float)sum, INFINITY) : (T)sum;
}

/* A distance from the sum of a box's nearest corner, which no distance of a point in it is smaller
 * than; with `upper` from that of its farthest one, which none is larger than. NaN: not known. */
GD_INLINE double N(end_of)(const boxes_kind kind, const gd_neighbors *call, T sum, const bool upper)
{
    const bool root = kind == SQUARES && call->metric == GD_EUCLIDEAN;
    if (call->metric == GD_MINKOWSKI)
        return upper ? (double)NAN : 0;
    /* Beyond the range distances are those of float64 sums, which are not quite as large. */
    if (SINGLE && kind == SQUARES && !(sum <= FLT_MAX / 2))
        return upper ? (double)NAN : (double)(root ? N(root)(FLT_MAX / 2) : FLT_MAX / 2);
    if (SINGLE && kind == SQUARES && sum < GD_F32_SQUARES_SAFE_MIN)
        sum = upper ? 2 * (T)GD_F32_SQUARES_SAFE_MIN : 0;
    return sum < (T)INFINITY || !upper ? N(rounded)(call, (double)(root ? N(root)(sum) : sum))
                                       : (double)NAN;
}

/* ---------------------------------------------------------------- searching */

#define ENTRY struct N(entry)
#define WALK struct N(walk)

/* What is left to be looked at: a node, and the sum of its nearest corner. */
ENTRY
{
    T sum;
    int32_t node;
    int level;
};

/* A row of A on its way. */
WALK
{
    const gd_neighbors *call;
    const boxes_plan *plan;
    T row[MOST_COLS];
    V columns[MOST_COLS]; /* each of its coordinates */
    V rest[MOST_COLS];    /* PERIODIC: half of the column's length less their sizes, */
    V half[MOST_COLS];    /* and that half */
    T within;             /* sums beyond it are of no interest */
    gd_candidates *to;    /* LISTS */
    int64_t self, *counts;
    int64_t pairs;
    ptrdiff_t size;
    ENTRY left[MOST_LEVELS * N(arity)]; /* the nearest last */
};

GD_INLINE void N(tighten)(const boxes_kind kind, WALK *walk)
{
    if (walk->to->cut)
        walk->within = N(sum_within)(kind, walk->call, walk->to->list[0].key);
}

/* The difference to coordinates of column k, or its size. */
GD_INLINE V N(apart)(const WALK *walk, ptrdiff_t k, V x)
{
    return PERIODIC ? gd_apart(walk->columns[k], walk->rest[k], x, walk->half[k] - gd_abs(x))
                    : walk->columns[k] - x;
}

/* Differences to the ends of a node's boxes in column k, no larger than to any point of theirs. */
GD_INLINE V N(nearest)(const WALK *walk, ptrdiff_t k, V low, V high)
{
    const V below = low - walk->columns[k], above = walk->columns[k] - high;
    const V near = gd_max(above, gd_max(below, (V){0}));
    if (!PERIODIC)
        return near;
    const V reach = gd_max(gd_abs(low), gd_abs(high));
    return gd_max(gd_min(walk->rest[k] + (walk->half[k] - reach), near), (V){0});
}

/* Likewise, no smaller. */
GD_INLINE V N(farthest)(const boxes_kind kind, const WALK *walk, ptrdiff_t k, V low, V high)
{
    const V below = low - walk->columns[k], above = walk->columns[k] - high;
    const V most = kind == LARGEST ? gd_max_abs(gd_max_abs((V){0}, below), above)
                                   : gd_max(gd_abs(below), gd_abs(above));
    if (!PERIODIC)
        return most;
    const V reach = gd_max(gd_max(low, -high), (V){0});
    return gd_min(walk->rest[k] + (walk->half[k] - reach), most);
}

GD_INLINE gd_status N(scan_leaf)(const boxes_kind kind, const ptrdiff_t d, const boxes_sink sink,
                                 WALK *walk, ptrdiff_t leaf, gd_error *err)
{
    const gd_neighbors *const call = walk->call;
    const T *const points = (const T *)walk->plan->points + leaf * LEAF * d;
    const int32_t *const index = walk->plan->index + leaf * LEAF;
    const ptrdiff_t bins = call->bound_count;
    walk->pairs += LEAF;
    for (ptrdiff_t v = 0; v < LEAF; v += N(lanes)) {
        V sum = {0};
        T sums[N(lanes)];
        for (ptrdiff_t k = 0; k < d; ++k)
            sum = N(add)(kind, sum, N(apart)(walk, k, gd_load(points + k * LEAF + v)));
        unsigned inside = BITS((M)(sum <= gd_splat(walk->within)));
        if (inside == 0)
            continue;
        gd_store(sums, sum);
        for (; inside != 0; inside &= inside - 1) {
            const int i = __builtin_ctz(inside);
            const int64_t at = index[v + i];
            if (!(sums[i] <= walk->within) || at < 0 || at == walk->self)
                continue;
            const double key = N(key)(kind, call, sums[i], walk->row, points + v + i);
            if (sink == COUNTS) {
                const ptrdiff_t bin = gd_bin_of(key, call->bounds, bins);
                if (bin < bins)
                    ++walk->counts[bin];
            }
            else if (key <= walk->to->limit) {
                const gd_status status = gd_put_candidate(walk->to, (gd_candidate){key, at}, err);
                if (status != GD_OK)
                    return status;
                N(tighten)(kind, walk);
            }
        }
    }
    return GD_OK;
}

/* Counts the points of a node at once if they all are in one bin. */
GD_INLINE bool N(count_whole)(const boxes_kind kind, WALK *walk, int level, ptrdiff_t node,
                              T nearest, T farthest)
{
    const gd_neighbors *const call = walk->call;
    const ptrdiff_t bins = call->bound_count;
    const double upper = N(end_of)(kind, call, farthest, true);
    if (!(upper <= call->bounds[bins - 1]))
        return false;
    const double lower = N(end_of)(kind, call, nearest, false);
    const ptrdiff_t bin = gd_bin_of(upper, call->bounds, bins);
    if (bin > 0 && !(lower > call->bounds[bin - 1]))
        return false;
    ptrdiff_t span = LEAF;
    while (level-- > 0)
        span *= N(arity);
    walk->counts[bin] += gd_least(span, *walk->plan->rows - node * span);
    return true;
}

/* Puts the nodes of a group that may hold neighbours on the list of what is left. */
GD_INLINE void N(look_at)(const boxes_kind kind, const ptrdiff_t d, const boxes_sink sink,
                          WALK *walk, int level, ptrdiff_t group)
{
    const boxes_level *const here = &walk->plan->level[level];
    const T *const boxes = (const T *)here->groups + group * (2 * N(arity) * d);
    const ptrdiff_t first = group * N(arity), base = walk->size;
    T nearest[N(arity)], farthest[N(arity)];
    unsigned inside = 0;
    walk->pairs += N(arity);
    GD_UNROLL for (int v = 0; v < N(vectors); ++v) {
        V sum = {0}, most = {0};
        for (ptrdiff_t k = 0; k < d; ++k) {
            const V low = gd_load(boxes + 2 * k * N(arity) + v * N(lanes));
            const V high = gd_load(boxes + (2 * k + 1) * N(arity) + v * N(lanes));
            sum = N(add)(kind, sum, N(nearest)(walk, k, low, high));
            if (sink == COUNTS)
                most = N(add)(kind, most, N(farthest)(kind, walk, k, low, high));
        }
        inside |= BITS((M)(sum <= gd_splat(walk->within))) << v * N(lanes);
        gd_store(nearest + v * N(lanes), sum);
        gd_store(farthest + v * N(lanes), most);
    }
    if (here->nodes - first < N(arity))
        inside &= (1u << (here->nodes - first)) - 1;
    while (inside != 0) { /* from the last: of equal ones the first is looked at first */
        const int i = 31 - __builtin_clz(inside);
        const T sum = nearest[i];
        ptrdiff_t at = walk->size;
        inside ^= 1u << i;
        if (sink == COUNTS && N(count_whole)(kind, walk, level, first + i, sum, farthest[i]))
            continue;
        for (; sink == LISTS && at > base && walk->left[at - 1].sum < sum; --at)
            walk->left[at] = walk->left[at - 1];
        walk->left[at] = (ENTRY){sum, (int32_t)(first + i), level};
        ++walk->size;
    }
}

/* Whether no point of a node can take the place of the last of a full list. */
GD_INLINE bool N(is_too_far)(const boxes_kind kind, const WALK *walk, const ENTRY *entry)
{
    if (!(entry->sum <= walk->within))
        return true;
    if (!walk->to->cut)
        return false;
    const gd_candidate last = walk->to->list[0];
    const double nearest = N(end_of)(kind, walk->call, entry->sum, false);
    return nearest > last.key ||
           (nearest == last.key && walk->plan->level[entry->level].least[entry->node] > last.index);
}

/* Looks at all that may hold neighbours of the row. */
GD_INLINE gd_status N(walk_boxes)(const boxes_kind kind, const ptrdiff_t d, const boxes_sink sink,
                                  WALK *walk, gd_error *err)
{
    gd_status status = GD_OK;
    walk->size = 0;
    N(look_at)(kind, d, sink, walk, walk->plan->levels - 1, 0);
    while (walk->size > 0 && status == GD_OK) {
        const ENTRY next = walk->left[--walk->size];
        if (sink == LISTS && N(is_too_far)(kind, walk, &next))
            continue;
        if (next.level > 0)
            N(look_at)(kind, d, sink, walk, next.level - 1, next.node);
        else
            status = N(scan_leaf)(kind, d, sink, walk, next.node, err);
    }
    return status;
}

/* [kind][two, three, or any number of dimensions][sink] */
typedef gd_status N(walk_fn)(WALK *walk, gd_error *err);
#define DEFINE(kind, name, d, sink)                                          \
    static gd_status N(walk_##kind##name##sink)(WALK * walk, gd_error * err) \
    {                                                                        \
        return N(walk_boxes)(kind, d, sink, walk, err);                      \
    }
#define DEFINE_SINKS(kind, name, d) DEFINE(kind, name, d, LISTS) DEFINE(kind, name, d, COUNTS)
#define DEFINE_ALL(kind)           \
    DEFINE_SINKS(kind, _two_, 2)   \
    DEFINE_SINKS(kind, _three_, 3) \
    DEFINE_SINKS(kind, _any_, walk->plan->d)
DEFINE_ALL(SQUARES)
DEFINE_ALL(MAGNITUDES)
DEFINE_ALL(LARGEST)
#define SINKS(kind, name) {N(walk_##kind##name##LISTS), N(walk_##kind##name##COUNTS)}
#define ENTRIES(kind) [kind] = {SINKS(kind, _two_), SINKS(kind, _three_), SINKS(kind, _any_)}
static N(walk_fn) *const
    N(walks)[][3][2] = {ENTRIES(SQUARES), ENTRIES(MAGNITUDES), ENTRIES(LARGEST)};
#undef DEFINE
#undef DEFINE_SINKS
#undef DEFINE_ALL
#undef SINKS
#undef ENTRIES

static void N(find_leaves)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const boxes_job *const job = context;
    const boxes_plan *const plan = job->plan;
    ptrdiff_t top = 1;
    (void)member;
    while (top < plan->leaves)
        top *= 2;
    for (; first < last; ++first) {
        T row[MOST_COLS];
        ptrdiff_t leaf = 0;
        N(fetch)(job->call, &job->call->a, first, row);
        for (ptrdiff_t span = top / 2; span > 0; span /= 2) {
            const ptrdiff_t middle = leaf + span;
            if (middle < plan->leaves && !(row[plan->columns[middle]] < ((T *)plan->cuts)[middle]))
                leaf = middle;
        }
        plan->leaf_of[first] = (int32_t)leaf;
    }
}

/* A row is not its own neighbour: takes it from the counts again. */
static void N(leave_out_self)(const boxes_kind kind, const WALK *walk)
{
    const gd_neighbors *const call = walk->call;
    T spread[MOST_COLS * LEAF];
    V sum = {0};
    for (ptrdiff_t k = 0; k < call->b.cols; ++k) {
        spread[k * LEAF] = walk->row[k];
        sum = N(add)(kind, sum, N(apart)(walk, k, walk->columns[k]));
    }
    const double key = N(key)(kind, call, sum[0], walk->row, spread);
    const ptrdiff_t bin = gd_bin_of(key, call->bounds, call->bound_count);
    if (bin < call->bound_count)
        --walk->counts[bin];
}

/* Adds the weights of a row's neighbours up, in the order of B. */
static void N(add_weights)(const gd_neighbors *call, gd_candidates *found, double *sums)
{
    gd_sort_candidates(found->list, found->count, false);
    for (ptrdiff_t i = 0; i < found->count; ++i) {
        const gd_candidate one = found->list[i];
        sums[gd_bin_of(one.key, call->bounds, call->bound_count)] += call->weights[one.index];
    }
}

static gd_status N(search_row)(const boxes_job *job, ptrdiff_t row, gd_candidates *scratch,
                               int64_t *pairs, gd_error *err)
{
    const gd_neighbors *const call = job->call;
    const ptrdiff_t d = call->b.cols, bins = call->bound_count;
    const boxes_sink sink = call->lists == NULL && call->sums == NULL ? COUNTS : LISTS;
    WALK walk; /* what is left is too much to be set to zeros for each row */
    walk.call = call;
    walk.plan = job->plan;
    N(fetch)(call, &call->a, row, walk.row);
    walk.to = call->lists == NULL ? scratch : &call->lists[row];
    walk.self = call->self >= 0 && sink == LISTS ? call->self + row : -1;
    walk.counts = sink == COUNTS ? call->counts + row * bins : NULL;
    walk.pairs = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        walk.columns[k] = gd_splat(walk.row[k]);
        walk.half[k] = gd_splat((T)(PERIODIC ? call->box[k] / 2 : 0));
        walk.rest[k] = walk.half[k] - gd_abs(walk.columns[k]);
        if (walk.row[k] != walk.row[k] && call->metric != GD_CHEBYSHEV)
            return GD_OK; /* it is at no distance to anybody */
    }
    if (call->lists == NULL) {
        scratch->count = 0;
        scratch->limit = call->bounds[bins - 1];
    }
    const double limit = sink == COUNTS ? call->bounds[bins - 1] : walk.to->limit;
    if (sink == LISTS && walk.to->most == 0)
        return GD_OK;
    walk.within = N(sum_within)(job->kind, call, limit);
    const gd_status status = N(walks)[job->kind][d == 2 ? 0 : d == 3 ? 1 : 2][sink](&walk, err);
    *pairs += walk.pairs;
    if (sink == COUNTS && call->self >= 0)
        N(leave_out_self)(job->kind, &walk);
    if (status == GD_OK && call->sums != NULL)
        N(add_weights)(call, scratch, call->sums + row * bins);
    return status;
}

static void N(search_some)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    boxes_job *const job = context;
    gd_candidates scratch = {.most = PTRDIFF_MAX};
    int64_t pairs = 0;
    if (!goes_on_searching(job, member))
        return;
    for (; first < last; ++first) {
        gd_error err;
        gd_note_failure(&job->failure,
                        N(search_row)(job, job->plan->order[first], &scratch, &pairs, &err), &err);
    }
    free(scratch.list);
    atomic_fetch_add(&job->pairs, pairs);
}

#undef N
#undef T
#undef V
#undef M
#undef BITS
#undef SINGLE
#undef PERIODIC
#undef ENTRY
#undef WALK
