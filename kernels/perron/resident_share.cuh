/* resident_share.cuh: how the blocks that stay share out the matrix.
 *
 * A block has neighbouring rows, worked on in groups, so that a value of x that was fetched serves
 * a group's rows: 32, or 16 in float64. A tile is 32 KB, half of a group's rows: pieces of 2 KB, or
 * 4 KB in float64. Longer pieces suit memory better (those of 1 KB took 1.4 times as long, copies
 * alone gain a percent from 2 to 4 KB), but a group of fewer rows needs its next 1024 values of x
 * sooner: with 16 rows float32 took 1.3 times as long, float64 gained 3 %. */
#ifndef GPUDIST_PERRON_RESIDENT_SHARE_CUH
#define GPUDIST_PERRON_RESIDENT_SHARE_CUH

#include "common/launch.cuh"
#include "common/words.cuh"

namespace gd::resident {

constexpr int kTileBytes = 32 * 1024, kGroupTiles = 2; /* below each other */
template <typename T>
constexpr int kTileWords = sizeof(T) == 4 ? 128 : 256;
template <typename T>
constexpr int kRowBytes = kTileWords<T> * 16;
template <typename T>
constexpr int kTileRows = kTileBytes / kRowBytes<T>;
template <typename T>
constexpr int kGroupRows = kGroupTiles * kTileRows<T>;
constexpr int kSpanCols = 1024; /* so much of x is in shared memory at a time */
constexpr int kBuffers = 6;

/* The rows of a block in the order of the work: groups, in them spans of columns, in them chunks of
 * a tile's width, in them tiles. Odd rounds go backwards through all but the tiles of a chunk, and
 * begin with what the L2 cache still holds; not where A stays in shared memory. */
template <typename T>
struct Share {
    static constexpr int kChunkCols = kTileWords<T> * kPerWord<T>;
    static constexpr int kChunksPerSpan = kSpanCols / kChunkCols;

    ptrdiff_t first_row;
    int rows, words;   /* words in a row */
    int chunks, spans; /* in a row */
    int steps;         /* spans of all groups */
    bool stays;        /* all tiles fit the ring */

    __device__ Share(ptrdiff_t n, int words_)
    {
        const ptrdiff_t block = blockIdx.x, blocks = gridDim.x;
        first_row = n * block / blocks;
        rows = (int)(n * (block + 1) / blocks - first_row);
        words = words_;
        chunks = (words + kTileWords<T> - 1) / kTileWords<T>;
        spans = (chunks + kChunksPerSpan - 1) / kChunksPerSpan;
        const int groups = (rows + kGroupRows<T> - 1) / kGroupRows<T>;
        steps = groups * spans;
        stays = groups == 1 && (rows + kTileRows<T> - 1) / kTileRows<T> * chunks <= kBuffers;
    }
    __device__ bool backwards(int64_t round) const { return !stays && (round & 1); }
};

/* One span of one group. */
template <typename T>
struct Step {
    int group, row, rows, tiles; /* the group's, in the share */
    int first_chunk, chunks;
    bool back, begins, ends; /* the group, in this round's direction */

    __device__ Step(const Share<T> &share, int number, bool backwards)
    {
        const int at = backwards ? share.steps - 1 - number : number;
        const int span = at % share.spans;
        group = at / share.spans;
        row = group * kGroupRows<T>;
        rows = min(kGroupRows<T>, share.rows - row);
        tiles = (rows + kTileRows<T> - 1) / kTileRows<T>;
        first_chunk = span * Share<T>::kChunksPerSpan;
        chunks = min(Share<T>::kChunksPerSpan, share.chunks - first_chunk);
        back = backwards;
        begins = span == (backwards ? share.spans - 1 : 0);
        ends = span == (backwards ? 0 : share.spans - 1);
    }
    /* The number of the chunk that comes as the c-th. */
    __device__ int chunk(int c) const { return first_chunk + (back ? chunks - 1 - c : c); }
};

}  // namespace gd::resident
#endif
