/* 05_register_tile.cu: distances between descriptors, a tile of them in each thread's registers.
 *
 * Idea: in step 4 two numbers come from shared memory for every pair-dimension. A thread that
 * computes rows x cols elements needs rows + cols numbers for rows x cols pair-dimensions: at
 * 4 x 4 that is half a number each, at 8 x 8 a quarter. Both operands stand transposed in shared
 * memory, so that a thread's four neighbours are one 16-byte load. The results leave as 16-byte
 * words too, and so do operands come whose rows are whole words (d a multiple of 4).
 *
 * What changed: 256 threads compute a tile of 16 rows x 16 cols elements, each its own small tile.
 *
 * What to expect: at d = 16 the arithmetic is 2.0 us of an H200 and writing 8.4 MB 1.8 us, so the
 * launch (3 us) and filling the card with 512 blocks count as much. The study reports 34.7 us, and
 * 17.4 at d = 1; its code takes 10 us on an H200. Larger tiles a thread save loads, but leave a
 * small matrix with too few blocks for 132 multiprocessors.
 *
 * Reached: 9.3 to 10.8 us from run to run, and 7.6 to 9.1 at d = 1, with 4 x 4, launch included.
 * Launch: a block of 256 threads for each tile.
 * Source: the study pairwise (Titan V, m = 2048, n = 1024, d = 16), step 5. */
#include "common/launch.cuh"
#include "common/words.cuh"

namespace {

constexpr int kThreads = 256, kSide = 16, kSlab = 16; /* threads a side; dimensions at a time */
constexpr int kWord = gd::kPerWord<float>;

struct Operand {
    const float *data;
    ptrdiff_t rows, d;
    bool words; /* rows are whole words */
};

/* Brings kSlab dimensions of kRows rows, transposed. Dimensions beyond the last are 0 in both
 * operands and add nothing; the last row stands in for rows beyond the end. */
template <int kRows>
__device__ __forceinline__ void bring(const Operand &x, ptrdiff_t first_row, ptrdiff_t first_dim,
                                      float (&to)[kSlab][kRows])
{
    constexpr int kWords = kSlab / kWord; /* of a row */
    for (int i = threadIdx.x; i < kRows * kWords; i += kThreads) {
        /* Neighbouring threads take neighbouring rows: their stores then meet no bank twice. A
         * row's four words are read one after the other, from the same line. */
        const int row = i % kRows, k = i / kRows * kWord;
        const float *const from = x.data + min(first_row + row, x.rows - 1) * x.d + first_dim + k;
        const int left = (int)min(x.d - first_dim - k, (ptrdiff_t)kWord);
        float word[kWord] = {};
        if (x.words && left == kWord) {
            gd::load_word_const(from, word);
        }
        else {
#pragma unroll
            for (int j = 0; j < kWord; ++j) {
                word[j] = j < left ? __ldg(from + j) : 0.0f;
            }
        }
#pragma unroll
        for (int j = 0; j < kWord; ++j) {
            to[k + j][row] = word[j];
        }
    }
}

/* A thread has kCount elements of a tile's side: runs of a word each, kSide words apart, so that
 * neighbouring threads load and store neighbouring words. */
__device__ __forceinline__ int place(int thread, int i)
{
    return (i / kWord * kSide + thread) * kWord + i % kWord;
}

template <int kCount, int kRows>
__device__ __forceinline__ void take(const float (&from)[kRows], int thread, float (&to)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; i += kWord) {
        gd::load_word(&from[place(thread, i)], &to[i]);
    }
}

template <int kRows, int kCols>
__global__ void __launch_bounds__(kThreads)
    register_tile(const __grid_constant__ Operand a, const __grid_constant__ Operand b, float *out,
                  ptrdiff_t out_stride, unsigned across, bool root, bool words)
{
    __shared__ alignas(16) float a_slab[kSlab][kSide * kRows], b_slab[kSlab][kSide * kCols];
    const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
    const ptrdiff_t first_row = blockIdx.x / across * (ptrdiff_t)(kSide * kRows);
    const ptrdiff_t first_col = blockIdx.x % across * (ptrdiff_t)(kSide * kCols);
    float sum[kRows][kCols] = {};
    for (ptrdiff_t first = 0; first < a.d; first += kSlab) {
        bring(a, first_row, first, a_slab);
        bring(b, first_col, first, b_slab);
        __syncthreads();
        const int depth = (int)min(a.d - first, (ptrdiff_t)kSlab);
#pragma unroll 4
        for (int k = 0; k < depth; ++k) {
            float own_a[kRows], own_b[kCols];
            take(a_slab[k], y, own_a);
            take(b_slab[k], x, own_b);
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
                    const float t = own_a[i] - own_b[j];
                    sum[i][j] = fmaf(t, t, sum[i][j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const ptrdiff_t row = first_row + place(y, i);
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            sum[i][j] = root ? sqrtf(sum[i][j]) : sum[i][j];
        }
#pragma unroll
        for (int j = 0; j < kCols; j += kWord) {
            const ptrdiff_t col = first_col + place(x, j);
            float *const to = out + row * out_stride + col;
            if (row < a.rows && words && col + kWord <= b.rows) {
                gd::store_word(to, &sum[i][j]);
                continue;
            }
#pragma unroll
            for (int k = 0; k < kWord; ++k) {
                if (row < a.rows && col + k < b.rows) {
                    to[k] = sum[i][j + k];
                }
            }
        }
    }
}

Operand operand_of(const gd_matrix &x)
{
    const float *const data = (const float *)x.data;
    return {data, x.rows, x.cols, gd::rows_of_words(data, x.row_stride)};
}

template <int kRows, int kCols>
cudaError_t launch(const gd_cdist &call)
{
    const ptrdiff_t across = gd::ceil_div(call.out.cols, kSide * kCols);
    float *const out = (float *)call.out.data;
    return gd::enqueue(call.launch, register_tile<kRows, kCols>,
                       across * gd::ceil_div(call.out.rows, kSide * kRows), dim3(kThreads), 0,
                       operand_of(call.a), operand_of(call.b), out, call.out.row_stride,
                       (unsigned)across, call.metric == GD_EUCLIDEAN,
                       gd::rows_of_words(out, call.out.row_stride));
}

}  // namespace

extern "C" gd_status gd_cuda_pairwise_register_tile(gd_cdist *call, gd_error *err)
{
    const int rows = call->launch.options.value[0], cols = call->launch.options.value[1];
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    GD_CUDA_TRY(err, "pairwise/5_register_tile",
                rows == 4 ? (cols == 4 ? launch<4, 4>(*call) : launch<4, 8>(*call))
                          : (cols == 4 ? launch<8, 4>(*call) : launch<8, 8>(*call)));
    return GD_OK;
}
