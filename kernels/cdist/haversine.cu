/* haversine.cu: great-circle angles between points (latitude, longitude) in radians.
 *
 *   h = sin(dlat / 2)^2 + cos(lat a) cos(lat b) sin(dlon / 2)^2,   angle = 2 asin(sqrt(h))
 *
 * All of it up to h is float64 for either type. Two sines and an arcsine would be some hundred
 * float64 operations a result: 4.7 ms for 28000 x 28000, where writing the float32 results takes
 * the H200 0.67 ms. So for float32
 * - the sine of a difference comes from sines and cosines of half angles, worked out once a point:
 *   sin(x - y) = sin x cos y - cos x sin y, three operations. It cancels for close points, but
 *   float32 coordinates that differ at all do so by 2**-24 of themselves, and of 53 bits 29 remain;
 * - the root and the arcsine are float32, of h or 1 - h, whichever is the smaller: there the
 *   arcsine does not magnify the error of its argument.
 * That leaves 12 float64 and some 30 other operations a result (0.6 and 0.7 ms: the latter overlap
 * with writing). float64 takes the direct way. There 16384 x 16384 needs 0.46 ms to write and 1.6
 * to compute.
 *
 * Launch: as narrow.cu, but a block walks down 64 rows, as its start is dear; points of rows are
 * shared. Of a batch all matrices' blocks are one grid. Reached on an H200: 28000 x 28000 float32
 * in 2.6 ms, 16384 x 16384 float64 in 2.0. */
#include "cdist/matrices.cuh"
#include "common/grid.cuh"

namespace {

constexpr int kThreads = 256, kRows = 64;
constexpr float kPi = 3.14159274f;

/* Once a point, so it need not be copied to each place that calls it. */
__device__ __noinline__ double2 sine_and_cosine(double x)
{
    double2 both;
    sincos(x, &both.x, &both.y);
    return both;
}

/* A point with what is worked out of it once, and the angle between two such. */
template <typename T>
struct Place;

/* Products are rounded apart, never fused into the subtraction: sin(x - y) is then exactly
 * -sin(y - x), and exactly 0 where x is y. */
__device__ __forceinline__ double sine_of_difference(double2 x, double2 y)
{
    return __dsub_rn(__dmul_rn(x.x, y.y), __dmul_rn(x.y, y.x));
}

template <>
struct Place<float> {
    double2 lat, lon; /* sine and cosine of half the coordinate */
    double cos_lat;

    Place() = default;
    __device__ __forceinline__ Place(double latitude, double longitude)
        : lat(sine_and_cosine(latitude / 2)),
          lon(sine_and_cosine(longitude / 2)),
          cos_lat((lat.y - lat.x) * (lat.y + lat.x))
    {
    }
    static __device__ __forceinline__ float angle(const Place &p, const Place &q)
    {
        const double u = sine_of_difference(p.lat, q.lat), v = sine_of_difference(p.lon, q.lon);
        /* Every step gives the same bits with p and q exchanged: products commute, and the signs
         * of u and v are squared away. */
        const double h = fma(p.cos_lat * q.cos_lat, v * v, u * u);
        const bool far = h > 0.5;
        float x = (float)(far ? 1 - h : h);
        /* Latitudes beyond the poles make h negative, rounding lifts it over 1. NaN is neither. */
        x = x < 0 ? 0 : x;
        if (x < GD_F32_SQUARES_SAFE_MIN) {
            /* h may be too small for float32 where its root is not. */
            return far ? kPi : h > 0 ? (float)(2 * sqrt(h)) : 0;
        }
        const float half = asinf(gd_root(x));
        return far ? fmaf(-2, half, kPi) : 2 * half;
    }
};

template <>
struct Place<double> {
    double lat, lon, cos_lat;

    Place() = default;
    __device__ __forceinline__ Place(double latitude, double longitude)
        : lat(latitude), lon(longitude), cos_lat(sine_and_cosine(latitude).y)
    {
    }
    static __device__ __forceinline__ double angle(const Place &p, const Place &q)
    {
        /* The magnitude makes it symmetric whatever the sine does with signs. */
        const double u = sin(fabs(p.lat - q.lat) / 2), v = sin(fabs(p.lon - q.lon) / 2);
        double h = fma(p.cos_lat * q.cos_lat, v * v, u * u);
        /* Comparisons rather than fmin and fmax, which would swallow NaN. */
        h = h < 0 ? 0 : h > 1 ? 1 : h;
        return 2 * asin(sqrt(h));
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    haversine(const __grid_constant__ gd::Cdist<T> first, const __grid_constant__ gd::Grid grid,
              const __grid_constant__ gd::Matrices all, unsigned each)
{
    const gd::Cdist<T> call = all.one(first, blockIdx.x / each);
    constexpr int kCols = gd::kPerWord<T>;
    __shared__ Place<T> rows[kRows];
    unsigned block_row, block_col;
    if (!grid.find(&block_row, &block_col, blockIdx.x % each)) {
        return;
    }
    const ptrdiff_t first_row = (ptrdiff_t)block_row * kRows;
    const ptrdiff_t col = (ptrdiff_t)block_col * blockDim.x * kCols;
    if (!call.has(first_row, col + blockDim.x * kCols)) {
        return;
    }
    const gd::Run<T> run(call, col + threadIdx.x * (call.words ? kCols : 1),
                         call.words ? 1 : blockDim.x);

    /* The block's rows, a thread each, and every thread's own columns. Nobody leaves before the
     * barrier: threads beyond the last column compute, and store nothing. */
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    if (thread < kRows) {
        const ptrdiff_t row = call.a.clamp(first_row + thread);
        rows[thread] = Place<T>(call.a.at(row, 0), call.a.at(row, 1));
    }
    Place<T> cols[kCols];
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
        const ptrdiff_t b = call.b.clamp(run.first + j * run.step);
        cols[j] = Place<T>(call.b.at(b, 0), call.b.at(b, 1));
    }
    __syncthreads();

    const int left = (int)min(call.a.count - first_row, (ptrdiff_t)kRows);
    ptrdiff_t row = first_row + threadIdx.y;
    T *to = call.row(row) + run.first;
#pragma unroll 1
    for (int i = threadIdx.y; i < left; i += blockDim.y) {
        const int start = run.start(call, row);
        /* Angles are dear: none where no column has a place. */
        if (start <= (kCols - 1) * run.step) {
            T results[kCols];
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                results[j] = Place<T>::angle(rows[i], cols[j]);
            }
            run.store(to, results, start);
        }
        to += call.step(row, blockDim.y);
        row += blockDim.y;
    }
}

template <typename T>
cudaError_t launch(const gd_cdist &call)
{
    unsigned across = kThreads / kRows;
    /* At least so many across that no thread has two points of rows to prepare. */
    while (across < kThreads && across * gd::kPerWord<T> < call.out.cols) {
        across *= 2;
    }
    const ptrdiff_t cols = across * gd::kPerWord<T>;
    const gd::Grid grid(call.pairs, gd::ceil_div(call.out.rows, kRows),
                        gd::ceil_div(call.out.cols, cols), 1, kRows, cols);
    const gd::Matrices all = gd::matrices_of<T>(call);
    return gd::enqueue(call.launch, haversine<T>, grid.blocks() * all.count,
                       dim3(across, kThreads / across), 0, gd::first_of<T>(call, all), grid, all,
                       (unsigned)grid.blocks());
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_haversine(gd_cdist *call, gd_error *err)
{
    if (gd::sizes_nothing(call->launch)) {
        return GD_OK;
    }
    return gd::with_float_type(call->out.dtype, [&](auto type) {
        GD_CUDA_TRY(err, "cdist/cuda_haversine", launch<decltype(type)>(*call));
        return GD_OK;
    });
}
