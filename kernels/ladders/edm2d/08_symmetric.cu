/* 08_symmetric.cu: distances between points of the plane, each pair computed once and stored twice.
 *
 * Idea: the distances of a set of points to itself are a symmetric matrix. So only tiles on and
 * below the diagonal are computed, and each is written to its own place and, transposed, to its
 * mirror image. A plain transposed store would undo step 2, neighbouring threads writing rows
 * apart; so the tile turns in shared memory, and both stores are 16-byte words side by side.
 *
 * What changed: half the arithmetic of step 7, and as much writing.
 *
 * What to expect: no gain over step 7. Writing 3.68 GB takes an H200 0.78 ms however the elements
 * came about, and the arithmetic was hidden behind it already. What symmetry could save is the
 * writing itself: that is pdist, which stores one half. Between two different sets of points
 * nothing is symmetric; then every tile is computed and none is mirrored.
 *
 * The turn without bank conflicts: a thread has 4 x 4 elements and transposes them in registers
 * for nothing. Its words of 4 elements go to shared rows of 16 words, where word w of row r stands
 * at w ^ (r / 4): the 8 threads that store at a time have different r / 4, and the 8 that load have
 * different w, so either way they meet 8 different places.
 *
 * Reached: 0.87 to 0.90 ms; in pieces of 256 bytes writing is a little dearer than in step 7's.
 * Without the streaming hint of the stores it takes 1.41 ms. Where rows do not start on 16-byte
 * boundaries, four stores of single elements take the place of each word, and each of them fills a
 * quarter of its lines: 3.8 ms with n = 30335. Step 7 shows a way around that.
 *
 * Launch: a block of 256 threads for each tile of 64 x 64.
 * Source: gpudist, after the question that the study edm2d leaves open. */
#include "common/launch.cuh"
#include "common/words.cuh"

namespace {

constexpr const char *kId = "edm2d/8_symmetric";
constexpr int kThreads = 256, kTile = 64, kCell = 4, kAcross = kTile / kCell;
static_assert(kThreads == kAcross * kAcross, "a cell of the tile for each thread");

__device__ __forceinline__ float distance(float2 p, float2 q)
{
    const float x = p.x - q.x, y = p.y - q.y;
    return sqrtf(fmaf(x, x, y * y));
}

/* The tile's place: with `mirrored`, tile 0 is (0, 0), then come (1, 0), (1, 1), (2, 0), ... */
__device__ __forceinline__ void place(bool mirrored, unsigned across, ptrdiff_t &row,
                                      ptrdiff_t &col)
{
    const ptrdiff_t number = blockIdx.x;
    if (!mirrored) {
        row = number / across, col = number % across;
        return;
    }
    /* The inverse of row (row + 1) / 2, up to the rounding of the root. */
    row = (ptrdiff_t)((sqrt(8.0 * number + 1) - 1) / 2);
    row -= row * (row + 1) / 2 > number;
    row += (row + 1) * (row + 2) / 2 <= number;
    col = number - row * (row + 1) / 2;
}

/* Stores a word of the row that starts at `to`, as far as the row goes. */
__device__ __forceinline__ void store(float *to, ptrdiff_t col, ptrdiff_t cols, bool words,
                                      const float *cell)
{
    if (words && col + kCell <= cols) {
        gd::stream_word(to + col, cell);
        return;
    }
#pragma unroll
    for (int j = 0; j < kCell; ++j) {
        if (col + j < cols) {
            __stcs(to + col + j, cell[j]);
        }
    }
}

__global__ void __launch_bounds__(kThreads)
    symmetric(const float2 *a, ptrdiff_t m, const float2 *b, ptrdiff_t n, float *out,
              ptrdiff_t out_stride, unsigned across, bool mirrored, bool words)
{
    __shared__ float4 turned[kTile][kAcross];
    ptrdiff_t tile_row, tile_col;
    place(mirrored, across, tile_row, tile_col);
    const int x = threadIdx.x % kAcross, y = threadIdx.x / kAcross;
    const ptrdiff_t row = tile_row * kTile + y * kCell, col = tile_col * kTile + x * kCell;

    float2 below[kCell], beside[kCell];
#pragma unroll
    for (int i = 0; i < kCell; ++i) {
        below[i] = __ldg(a + min(row + i, m - 1)), beside[i] = __ldg(b + min(col + i, n - 1));
    }
    float cell[kCell][kCell];
#pragma unroll
    for (int i = 0; i < kCell; ++i) {
#pragma unroll
        for (int j = 0; j < kCell; ++j) {
            cell[i][j] = distance(below[i], beside[j]);
        }
        if (row + i < m) {
            store(out + (row + i) * out_stride, col, n, words, cell[i]);
        }
    }
    if (!mirrored || tile_row == tile_col) {
        return; /* the whole block agrees on this */
    }

#pragma unroll
    for (int j = 0; j < kCell; ++j) {
        turned[x * kCell + j][y ^ x] = make_float4(cell[0][j], cell[1][j], cell[2][j], cell[3][j]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kCell; ++i) {
        const int line = i * kAcross + y; /* neighbouring threads have words of one line */
        const ptrdiff_t to = tile_col * kTile + line;
        float word[kCell];
        gd::unpack<float>(turned[line][x ^ line / kCell], word);
        if (to < n) {
            store(out + to * out_stride, tile_row * kTile + x * kCell, n, words, word);
        }
    }
}

}  // namespace

extern "C" gd_status gd_cuda_edm2d_symmetric(gd_cdist *call, gd_error *err)
{
    const bool mirrored = call->a.data == call->b.data && call->a.rows == call->b.rows;
    const ptrdiff_t down = gd::ceil_div(call->out.rows, kTile);
    const ptrdiff_t across = gd::ceil_div(call->out.cols, kTile);
    const bool words = gd::rows_of_words((const float *)call->out.data, call->out.row_stride);
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    GD_CUDA_TRY(
        err, kId,
        gd::enqueue(call->launch, symmetric, mirrored ? down * (down + 1) / 2 : down * across,
                    dim3(kThreads), 0, (const float2 *)call->a.data, call->a.rows,
                    (const float2 *)call->b.data, call->b.rows, (float *)call->out.data,
                    call->out.row_stride, (unsigned)across, mirrored, words));
    return GD_OK;
}
