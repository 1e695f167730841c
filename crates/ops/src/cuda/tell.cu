// A fault that was known before anything ran.

#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(1) tell(u64* fault, u32* stop) { fault_at(fault, stop, 0, 0); }
