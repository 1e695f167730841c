// The instructions of tensor cores that attention uses, and the copies that feed them: one function each, named by what it
// does. Fragments are those of `mma.m16n8k16`: thread `lane` has rows lane / 4 and lane / 4 + 8, columns
// 2 * (lane % 4) and the next one, of each tile of eight columns.

#include "pairs.cuh"

// Four tiles of 8 x 8 numbers of two bytes; lanes 8 i to 8 i + 7 give the addresses of the rows of tile i.
DEVICE void load_tiles(u32 (&to)[4], const void* row) {
    u32 at = u32(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
}
// The same, each tile turned.
DEVICE void load_tiles_turned(u32 (&to)[4], const void* row) {
    u32 at = u32(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
}

// sums += a · b: 16 x 16 by 16 x 8 of bf16, sums in f32.
DEVICE void multiply_tile(f32 (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes to shared memory beside what runs; zeros where `there` is false, and then nothing is read.
DEVICE void copy_16(void* to, const void* from, bool there) {
    u32 at = u32(__cvta_generic_to_shared(to));
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}
// The same for one number.
DEVICE void copy_4(f32* to, const f32* from, bool there) {
    u32 at = u32(__cvta_generic_to_shared(to));
    int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}
DEVICE void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `left` of this thread's groups are under way.
template <int left> DEVICE void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory"); }

// 2^x as the hardware has it, within two units of the last place; 0 for -infinity.
DEVICE f32 power_of_two(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
