/* 02_tiled.cu: distances from tiles of both operands in shared memory.
 *
 * Idea: a block of 32 x 32 elements needs each coordinate of its points 32 times. Let it fetch them
 * once, into shared memory, and read them 32 times from there.
 *
 * What changed: loads from global memory fall by the width of the tile. The kernel is in tiled.cuh,
 * since step 3 runs it too.
 *
 * What to expect: less than one hopes. Step 1 was limited by load instructions, not by memory, and
 * a load from shared memory is a load instruction, too: still two for each subtraction and
 * multiply-add, the same 0.77 ms at best for 16000 x 1000 x 200 on an H200. To them come the copies
 * and two barriers a piece. What is saved is addresses, which are constants in an unrolled loop.
 * It takes 1.12 ms, and 1.10 with tiles of 16, where more blocks are there to fill in for one that
 * waits, but 1.40 with tiles of 8, whose rows fill a quarter of a line. What helps is to read a
 * coordinate once for several results, in registers: see the ladder pairwise, step 5.
 * The study reports 20.8 ms after 29.8; its code takes 1.57 on an H200.
 *
 * Launch: a block for each square of `tile` x `tile` elements.
 * Source: the study euler (card not named; 16000 x 1000 x 200), step 2. */
#include "ladders/euler/tiled.cuh"

extern "C" gd_status gd_cuda_euler_tiled(gd_cdist *call, gd_error *err)
{
    call->launch.workspace_bytes = 0;
    if (!call->launch.sizing) {
        GD_CUDA_TRY(err, "euler/2_tiled",
                    gd::enqueue_tiled(*call, gd::points_of(call->a), gd::points_of(call->b)));
    }
    return GD_OK;
}
