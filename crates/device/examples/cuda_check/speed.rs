//! How fast the card is: launches, copies, kernels, products, compiling. Nothing is checked here.

use crate::{Report, Room};
use regard_device::cuda::kernels::map::{Input, Map};
use regard_device::cuda::kernels::rows::Rows;
use regard_device::cuda::{
    Address, Compiler, Compute, CubinCache, CudaError, Memory, Number, Operands, Pinned, Product, Products,
    Ring, kernels,
};
use std::time::Instant;

pub fn measure(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    launches(room, report)?;
    copies(room, report)?;
    traffic(room, report)?;
    products(room, report)?;
    compiling(room, report)
}

fn launches(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    const LAUNCHES: usize = 1000;
    let memory = room.poisoned(4096)?;
    let map = Map { body: "x0 + 1.0f".into(), inputs: vec![Number::F32], output: Number::F32 };
    let input = Input { at: memory.start(), strides: vec![1] };
    let launch = map.launch(&[256], &[input], [0.0; 4], memory.start());
    let function = room.function(&launch)?;
    // SAFETY: the memory lives until the times are read.
    let once = |_| unsafe { function.launch(&room.stream, launch.grid, &launch.arguments) };
    let many = || (0..LAUNCHES).try_for_each(once);
    many()?;
    room.stream.synchronize()?;
    let began = Instant::now();
    many()?;
    let host = began.elapsed().as_secs_f64() * 1e6 / LAUNCHES as f64;
    room.stream.synchronize()?;
    let eager = room.time(many)? * 1e3 / LAUNCHES as f64;
    let capture = room.stream.capture(|_| many())?;
    let began = Instant::now();
    let graph = capture.instantiate()?;
    let ready = began.elapsed().as_secs_f64() * 1e3;
    // SAFETY: the memory and the module live until the times are read.
    let replayed = room.time(|| unsafe { graph.launch(&room.stream) })? * 1e3 / LAUNCHES as f64;
    report.fact("one small launch, eager: host, card", format!("{host:.2} us, {eager:.2} us"));
    report.fact(
        "one small launch, of a graph of 1000",
        format!("{replayed:.2} us (made ready in {ready:.1} ms)"),
    );
    let one = room.stream.capture(|_| room.launch(&launch))?.instantiate()?;
    // SAFETY: as above.
    let single = room.time(|| unsafe { one.launch(&room.stream) })? * 1e3;
    report.fact("a graph of one small launch", format!("{single:.2} us"));
    Ok(())
}

fn copies(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    const BYTES: usize = 256 << 20;
    let mut memory = Memory::new(&room.card, BYTES)?;
    let mut pinned = Pinned::new(&room.card, BYTES)?;
    let rate = |milliseconds: f64| format!("{:.1} GB/s", BYTES as f64 / milliseconds / 1e6);
    // SAFETY: both ends live until the times are read, and nobody else touches them.
    let up = room.time(|| unsafe { room.stream.upload(memory.region(), pinned.as_ptr()) })?;
    // SAFETY: as above.
    let down = room.time(|| unsafe { room.stream.download(pinned.as_mut_ptr(), memory.region()) })?;
    report.fact("pinned memory up, down", format!("{}, {}", rate(up), rate(down)));
    let host = vec![1u8; BYTES];
    let began = Instant::now();
    memory.write(&room.stream, 0, &host)?;
    let plain = began.elapsed().as_secs_f64() * 1e3;
    let mut ring = Ring::new(&room.card, 4, 4 << 20)?;
    let began = Instant::now();
    // SAFETY: the memory lives until the wait.
    unsafe { ring.upload(&room.stream, memory.region(), &host) }?;
    room.stream.synchronize()?;
    let ringed = began.elapsed().as_secs_f64() * 1e3;
    report.fact("plain memory up, at once and by the ring", format!("{}, {}", rate(plain), rate(ringed)));
    Ok(())
}

fn traffic(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    const BYTES: usize = 2 << 30;
    let (x, y, z) = (room.poisoned(BYTES)?, room.poisoned(BYTES)?, room.poisoned(BYTES)?);
    let rate = |bytes: usize, milliseconds: f64| format!("{:.2} TB/s", bytes as f64 / milliseconds / 1e9);
    // SAFETY: all blocks live until the times are read.
    let copy = room.time(|| unsafe { room.stream.copy(y.region(), x.region()) })?;
    report.fact("copy on the card, read and written", rate(2 * BYTES, copy));
    fill(room, &x, Number::Bf16)?;
    fill(room, &y, Number::Bf16)?;
    let input = |at: Address, strides: &[usize]| Input { at, strides: strides.to_vec() };
    for (name, shape, strides) in [
        ("dense", vec![BYTES / 2 - 8], [vec![1], vec![1]]),
        ("with a vector along the rows", vec![BYTES / 2 / 1024 - 1, 1024], [vec![1024, 1], vec![0, 1]]),
    ] {
        let map = Map { body: "x0 + x1".into(), inputs: vec![Number::Bf16; 2], output: Number::Bf16 };
        let inputs = [input(x.start(), &strides[0]), input(y.start(), &strides[1])];
        let launch = map.launch(&shape, &inputs, [0.0; 4], z.start());
        let time = room.time(|| room.launch(&launch))?;
        let bytes = if name == "dense" { 3 * BYTES } else { 2 * BYTES };
        report.fact(&format!("map x0 + x1 of bf16, {name}"), rate(bytes, time));
    }
    for width in [768u32, 4096] {
        let rows =
            Rows { rows: (BYTES / 2) as u32 / width, width, input: Number::Bf16, output: Number::Bf16 };
        let softmax = rows.softmax(z.start(), x.start(), 1.0);
        let time = room.time(|| room.launch(&softmax))?;
        report.fact(&format!("softmax of {width}, bf16"), rate(2 * BYTES, time));
    }
    Ok(())
}

/// Fills memory with random numbers between -1 and 1.
fn fill(room: &Room, memory: &Memory, number: Number) -> Result<(), CudaError> {
    let count = memory.region().bytes / 4;
    let bits = room.poisoned(count * 4)?;
    room.launch(&kernels::draw(bits.start(), [3, memory.start().0, 5], [0, 0], count as u32))?;
    // Bits as i32 would need a type of their own; the pattern's mantissa with the exponent of 1 is a number
    // in [1, 2).
    let map = Map {
        body: "__uint_as_float((__float_as_uint(x0) & 0x7fffffu) | 0x3f800000u) * 2.0f - 3.0f".into(),
        inputs: vec![Number::F32],
        output: number,
    };
    let numbers = count * 4 / number.bytes();
    for part in 0..numbers.div_ceil(count) {
        let input = Input { at: bits.start(), strides: vec![1] };
        let at = memory.start().after(part * count * number.bytes());
        room.launch(&map.launch(&[count], &[input], [0.0; 4], at))?;
    }
    room.stream.synchronize()
}

fn products(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let library = Products::new(&room.card)?;
    let workspace = room.poisoned(64 << 20)?;
    for (size, operands, result, compute) in [
        (8192, Number::Bf16, Number::Bf16, Compute::Exact),
        (8192, Number::F32, Number::F32, Compute::Tf32),
        (4096, Number::F32, Number::F32, Compute::Exact),
    ] {
        let product = Product::new(size, size, size, operands, result).by(compute).transposed_b();
        let bytes = size * size * operands.bytes();
        let (a, b, d) = (room.poisoned(bytes)?, room.poisoned(bytes)?, room.poisoned(bytes)?);
        fill(room, &a, operands)?;
        fill(room, &b, operands)?;
        let operands = Operands {
            a: a.start(),
            b: b.start(),
            d: d.start(),
            workspace: workspace.region(),
            ..Operands::default()
        };
        let mut rates = Vec::new();
        for choice in library.choices(&product, 64 << 20, 5)? {
            let mut planned = library.plan(&product, choice.algorithm)?;
            // SAFETY: memory of the product's sizes, which lives until the times are read.
            let time = room.time(|| unsafe { planned.run(&room.stream, 1.0, 0.0, &operands) })?;
            rates.push(format!("{:.0}", 2.0 * (size as f64).powi(3) / time / 1e9));
        }
        report.fact(&product.to_string(), format!("{} TFLOP/s by each choice", rates.join(", ")));
    }
    Ok(())
}

fn compiling(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let folder = std::env::temp_dir().join(format!("regard-check-{}", std::process::id()));
    let sources = kernels::every_source();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut times = Vec::new();
    for threads in [1, threads, threads] {
        // The first two start empty; the third reads what the second wrote.
        if times.len() < 2 {
            let _ = std::fs::remove_dir_all(&folder);
        }
        let compiler = Compiler::new(Some(room.card.facts().driver), Some(CubinCache::at(&folder)))?;
        let began = Instant::now();
        compiler.compile_all(&sources, room.architecture, threads)?;
        times.push(format!("{:.0} ms", began.elapsed().as_secs_f64() * 1e3));
    }
    let _ = std::fs::remove_dir_all(&folder);
    let name = format!("compiling {} sources: 1 thread, {threads}, from the cache", sources.len());
    report.fact(&name, times.join(", "));
    Ok(())
}
