/* pack.cuh: brings a matrix of any strides to dense rows of whole words, zeros behind the last
 * column, which bulk copies can fetch. */
#ifndef GPUDIST_PERRON_PACK_CUH
#define GPUDIST_PERRON_PACK_CUH

#include "common/launch.cuh"
#include "common/words.cuh"

namespace gd {

/* Elements become float64 before they are multiplied, by instructions for integers, of which a
 * device does many more at a time than conversions. A float's exponent and fraction, moved to where
 * a double has the same bits, are the float times 2**-896, subnormal numbers and zeros included; so
 * that is what an element becomes, and x comes times 2**896. Powers of two change no digit. The
 * sign is left out: no element is negative (the scan sees to that), and -0 is 0. */
__device__ __forceinline__ double widened(float x)
{
    const uint64_t bits = __float_as_uint(x) & 0x7fffffffu;
    return __longlong_as_double((long long)(bits << 29));
}
__device__ __forceinline__ double widened(double x) { return x; }
template <typename T>
constexpr double kUnwidened = sizeof(T) == 4 ? 0x1p896 : 1;

/* Whether an element is not certainly positive and finite, as one comparison: of its bits less 1,
 * as an unsigned number, of which the scan keeps the largest. Zero becomes the largest number,
 * negative numbers, infinity and NaN come next. Of a double the upper half is enough: the numbers
 * below 2**-1042 for which it is zero are only looked at once more. */
__device__ __forceinline__ unsigned doubt(float x) { return __float_as_uint(x) - 1; }
__device__ __forceinline__ unsigned doubt(double x) { return (unsigned)__double2hiint(x) - 1; }
template <typename T>
constexpr unsigned kDoubtful = sizeof(T) == 4 ? 0x7f7fffffu : 0x7fefffffu;

/* Whether rows can be fetched as they are. */
template <typename T>
bool bulk_rows(const gd_matrix &a)
{
    return a.col_stride == 1 && a.cols % kPerWord<T> == 0 &&
           rows_of_words(static_cast<const T *>(a.data), a.row_stride);
}

constexpr int kPackTile = 32, kPackRows = 8; /* 32 x 32 elements, 32 x 8 threads */

/* `turned`: elements of a column are closer together than those of a row, so lanes read along
 * columns; they write along rows in either case. */
template <typename T>
__global__ void __launch_bounds__(kPackTile *kPackRows)
    pack_tiles(const T *from, ptrdiff_t n, ptrdiff_t row_stride, ptrdiff_t col_stride, T *to,
               ptrdiff_t to_stride, unsigned tiles_across, bool turned)
{
    __shared__ T tile[kPackTile][kPackTile + 1];
    const ptrdiff_t first_row = (ptrdiff_t)(blockIdx.x / tiles_across) * kPackTile;
    const ptrdiff_t first_col = (ptrdiff_t)(blockIdx.x % tiles_across) * kPackTile;
    for (int i = threadIdx.y; i < kPackTile; i += kPackRows) {
        const int r = turned ? (int)threadIdx.x : i, c = turned ? i : (int)threadIdx.x;
        const ptrdiff_t row = first_row + r, col = first_col + c;
        tile[r][c] = row < n && col < n ? from[row * row_stride + col * col_stride] : (T)0;
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kPackTile; i += kPackRows) {
        const ptrdiff_t row = first_row + i, col = first_col + threadIdx.x;
        if (row < n && col < to_stride) {
            to[row * to_stride + col] = tile[i][threadIdx.x];
        }
    }
}

template <typename T>
cudaError_t pack_rows(const gd_launch &launch, const gd_matrix &a, T *to, ptrdiff_t to_stride)
{
    const ptrdiff_t across = ceil_div(to_stride, kPackTile), down = ceil_div(a.rows, kPackTile);
    const ptrdiff_t along = a.col_stride < 0 ? -a.col_stride : a.col_stride;
    const ptrdiff_t apart = a.row_stride < 0 ? -a.row_stride : a.row_stride;
    return enqueue(launch, pack_tiles<T>, across * down, dim3(kPackTile, kPackRows), 0,
                   static_cast<const T *>(a.data), a.rows, a.row_stride, a.col_stride, to,
                   to_stride, (unsigned)across, apart < along);
}

}  // namespace gd
#endif
