/* shared.cuh: addresses in shared memory, as instructions that are not C++ want them, and words
 * that only some threads load. */
#ifndef GPUDIST_ARCH_SHARED_CUH
#define GPUDIST_ARCH_SHARED_CUH

namespace gd {

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Loads a word of 16 bytes where `wanted` says so; elsewhere the registers stay as they are. */
__device__ __forceinline__ void load_word_if(unsigned (&to)[4], unsigned address, bool wanted)
{
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.u32 wanted, %5, 0;\n"
        "@wanted ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
        "}"
        : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
        : "r"(address), "r"((unsigned)wanted)
        : "memory");
}

}  // namespace gd
#endif
