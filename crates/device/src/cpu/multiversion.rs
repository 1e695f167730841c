//! `multiversion!`: one body, compiled once for every SIMD level and chosen at run time by a [`Level`].
//!
//! Bodies are plain Rust over slices and `f32::mul_add`; the compiler vectorises them but may not reorder
//! floating-point operations, so all copies give the same bits.
//!
//! [`Level`]: crate::Level

/// Compiles each function for every SIMD level; those above AVX-512 differ in products of bf16 alone. `pub fn
/// name(x: &[f32]) -> f32 { … }` becomes `pub fn name(level: Level, x: &[f32]) -> f32`. Functions called from
/// the body must be `#[inline(always)]`, or they are compiled without the level's instructions. Loops over
/// slices vectorise best with one plain innermost loop; sums need explicit lanes, as in
/// [`reduce`](crate::reduce).
///
/// ```
/// regard_device::multiversion! {
///     /// y += a x.
///     fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
///         for (y, x) in y.iter_mut().zip(x) {
///             *y = a.mul_add(*x, *y);
///         }
///     }
/// }
/// let mut y = [1.0, 2.0];
/// add_scaled(regard_device::Level::best(), &mut y, 2.0, &[10.0, 20.0]);
/// assert_eq!(y, [21.0, 42.0]);
/// ```
#[macro_export]
macro_rules! multiversion {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
    )+) => {$(
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name(level: $crate::Level, $($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($argument: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi2")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($argument: $kind),*) $(-> $result)? {
                body($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi2")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($argument: $kind),*) $(-> $result)? {
                body($($argument),*)
            }

            match level.kind() {
                // SAFETY: `Level` gives out this kind only where the CPU has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::Kind::Avx512 | $crate::Kind::Avx512Bf16 | $crate::Kind::Amx => unsafe { avx512($($argument),*) },
                // SAFETY: `Level` gives out this kind only where the CPU has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::Kind::Avx2 => unsafe { avx2($($argument),*) },
                _ => body($($argument),*),
            }
        }
    )+};
}
