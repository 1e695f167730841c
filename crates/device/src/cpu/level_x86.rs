//! What an x86-64 CPU has, and what the system lets us use of it.

use super::Kind;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// The widest kind whose instructions may be used.
pub(super) fn widest() -> Kind {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if !(avx2 && is_x86_feature_detected!("bmi2")) {
        return Kind::Portable;
    }
    let foundation = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    if !(foundation && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq")) {
        return Kind::Avx2;
    }
    if !is_x86_feature_detected!("avx512bf16") {
        return Kind::Avx512;
    }
    if has_tiles() && tiles_are_permitted() { Kind::Amx } else { Kind::Avx512Bf16 }
}

/// Whether there are products of 8-bit integers of AVX-512's width.
pub(super) fn has_integer_products() -> bool {
    is_x86_feature_detected!("avx512vnni")
}

/// Whether the CPU is Intel's.
pub(super) fn is_intel() -> bool {
    let leaf = __cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

/// Tiles with products of bf16, switched on by the system.
fn has_tiles() -> bool {
    const TILE: u32 = 1 << 24;
    const BF16: u32 = 1 << 22;
    /// Tile configuration and tile data.
    const STATE: u64 = 0b11 << 17;
    let features = __cpuid_count(7, 0).edx;
    if features & TILE == 0 || features & BF16 == 0 || !is_x86_feature_detected!("xsave") {
        return false;
    }
    // SAFETY: AVX was detected before, and with it that the system uses XSAVE.
    unsafe { enabled_state() & STATE == STATE }
}

#[target_feature(enable = "xsave")]
fn enabled_state() -> u64 {
    // SAFETY: register 0 exists wherever XSAVE is in use.
    unsafe { _xgetbv(0) }
}

/// Linux keeps tiles from a process until it asks for them; the permission holds for all its threads.
#[cfg(target_os = "linux")]
fn tiles_are_permitted() -> bool {
    const ARCH_PRCTL: u64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let result: i64;
    // SAFETY: this call changes nothing but the permission; the kernel overwrites `rcx` and `r11`.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn tiles_are_permitted() -> bool {
    false
}
