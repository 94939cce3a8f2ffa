/* registers.cuh: what tells the compiler, or the device, who keeps what in registers. */
#ifndef GPUDIST_ARCH_REGISTERS_CUH
#define GPUDIST_ARCH_REGISTERS_CUH

#include <stddef.h>

namespace gd {

/* Hides where x comes from. What derives from it is then computed anew where it is needed, as in
 * each turn of a loop, where the compiler would compute it once, keep it, and push sums out of the
 * registers instead. */
__device__ __forceinline__ void hide_origin(unsigned &x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void hide_origin(ptrdiff_t &x) { asm volatile("" : "+l"(x)); }

/* A number that the compiler keeps in a register rather than compute it again at each use. */
__device__ __forceinline__ int kept(int x)
{
    unsigned word = (unsigned)x;
    hide_origin(word);
    return (int)word;
}

/* Makes c the lesser of itself and x, by moves under a predicate. Of a choice the compiler makes
 * two selections, which read both numbers, and reading registers is what minima of doubles wait
 * for. */
__device__ __forceinline__ void take_lesser(double &c, double x)
{
    if (x < c) {
        asm("mov.b64 %0, %1;" : "=d"(c) : "d"(x));
    }
}

/* The thread's number, asked for anew: registers are too scarce to keep it. */
__device__ __forceinline__ unsigned this_thread()
{
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* Each thread of four warps has so many registers from here on, fewer or more than it was launched
 * with. sm_90a alone. */
template <int kCount>
__device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace gd
#endif
