//! Every kernel against the host in f64, with random inputs and poisoned outputs; bits that must not depend
//! on anything are compared as bits.

use crate::reference::{self, Values};
use crate::{Report, Room};
use regard_device::cuda::kernels::columns::Columns;
use regard_device::cuda::kernels::map::{Input, Map};
use regard_device::cuda::kernels::rows::Rows;
use regard_device::cuda::kernels::{Launch, draw};
use regard_device::cuda::{Address, CudaError, Memory, Number};
use regard_device::random;

/// Bytes behind every output, which must stay as they are.
const GUARD: usize = 256;
const NUMBERS: [Number; 2] = [Number::F32, Number::Bf16];

pub fn check(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    maps(room, report)?;
    broadcasts(room, report)?;
    softmaxes(room, report)?;
    norms(room, report)?;
    columns(room, report)?;
    draws(room, report)
}

/// What a kernel may be wrong by: f32 arithmetic, or the last bit of bf16.
fn bound(output: Number) -> f64 {
    match output {
        Number::F32 => 1e-6,
        Number::Bf16 => 1.0 / 256.0,
    }
}

/// The bytes that launches leave in an output, and whether they left what is behind it alone.
fn run(
    room: &Room,
    bytes: usize,
    launches: impl FnOnce(Address) -> Vec<Launch>,
) -> Result<(Vec<u8>, bool), CudaError> {
    let output = room.poisoned(bytes + GUARD)?;
    for launch in launches(output.start()) {
        room.launch(&launch)?;
    }
    let mut all = output.to_vec::<u8>(&room.stream)?;
    let guard = all.split_off(bytes);
    Ok((all, guard.iter().all(|&byte| byte == 0xff)))
}

fn upload(room: &Room, values: &Values) -> Result<Memory, CudaError> {
    Memory::of(&room.stream, &values.bytes())
}

fn maps(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 6] = [
        ("relu(x0)", |x| x.max(0.0)),
        ("gelu_erf(x0)", reference::gelu_erf),
        ("gelu_tanh(x0)", reference::gelu_tanh),
        ("silu(x0)", reference::silu),
        ("sigmoid(x0)", |x| 1.0 / (1.0 + (-x).exp())),
        ("x0 * s.v[0] + s.v[1]", |x| x * 3.0 - 0.5),
    ];
    for (body, function) in functions {
        for (input, output) in
            [(Number::F32, Number::F32), (Number::Bf16, Number::Bf16), (Number::Bf16, Number::F32)]
        {
            let mut most = 0f64;
            let mut kept = true;
            for count in [1, 7, 8, 2047, 100_003] {
                let mut x = Values::normal(body, input, count);
                // Wide, so that tails are seen.
                x.exact.iter_mut().for_each(|x| *x = reference::rounded(input, *x * 3.0));
                let memory = upload(room, &x)?;
                let map = Map::new(body, &[input.name()], output.name());
                let operand = Input { at: memory.start(), strides: vec![1] };
                let (got, guard) = run(room, count * output.bytes(), |y| {
                    vec![map.launch(&[count], std::slice::from_ref(&operand), [3.0, -0.5, 0.0, 0.0], y)]
                })?;
                let expected: Vec<f64> = x.exact.iter().map(|&x| function(x)).collect();
                let worst = reference::worst(&reference::read(output, &got), &expected);
                most = if worst > most || worst.is_nan() { worst } else { most };
                kept &= guard;
            }
            let name = format!("map {body} {} to {}", input.name(), output.name());
            report.check(&name, most <= bound(output) && kept, format!("{most:.1e}"));
        }
    }
    Ok(())
}

fn broadcasts(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let shape = [5, 3, 4, 7];
    // Dense, a vector along the last, a column, turned, one number.
    let cases: [(&str, [usize; 4], usize); 5] = [
        ("dense", [84, 28, 7, 1], 420),
        ("vector", [0, 0, 0, 1], 7),
        ("column", [0, 1, 0, 0], 3),
        ("turned", [1, 35, 5, 105], 735),
        ("number", [0, 0, 0, 0], 1),
    ];
    for (name, strides, count) in cases {
        for number in NUMBERS {
            let (x, y, z) = (
                Values::normal("dense", number, 420),
                Values::normal(name, number, count),
                Values::normal("third", number, 7),
            );
            let memory = [upload(room, &x)?, upload(room, &y)?, upload(room, &z)?];
            let inputs = [[84, 28, 7, 1], strides, [0, 0, 0, 1]];
            let operands: Vec<Input> = memory
                .iter()
                .zip(inputs)
                .map(|(memory, strides)| Input { at: memory.start(), strides: strides.to_vec() })
                .collect();
            let map = Map::new("x0 * x1 + x2", &[number.name(); 3], number.name());
            let (got, guard) =
                run(room, 420 * number.bytes(), |at| vec![map.launch(&shape, &operands, [0.0; 4], at)])?;
            let mut expected = Vec::new();
            for a in 0..5 {
                for b in 0..3 {
                    for c in 0..4 {
                        for d in 0..7 {
                            let at = |s: [usize; 4]| a * s[0] + b * s[1] + c * s[2] + d * s[3];
                            expected.push(x.exact[at(inputs[0])] * y.exact[at(strides)] + z.exact[d]);
                        }
                    }
                }
            }
            let worst = reference::worst(&reference::read(number, &got), &expected);
            let name = format!("map of a {name} operand, {}", number.name());
            report.check(&name, worst <= bound(number) && guard, format!("{worst:.1e}"));
        }
    }
    Ok(())
}

fn softmaxes(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    for (input, output) in
        [(Number::F32, Number::F32), (Number::Bf16, Number::Bf16), (Number::Bf16, Number::F32)]
    {
        for width in [1, 7, 64, 1024, 1025, 50_257] {
            let rows = 11;
            let x = Values::normal("softmax", input, rows * width);
            let memory = upload(room, &x)?;
            let all = Rows { rows: rows as u32, width: width as u32, input, output };
            let row_bytes = width * output.bytes();
            let (got, guard) = run(room, rows * row_bytes, |y| vec![all.softmax(y, memory.start(), 1.7)])?;
            let expected: Vec<f64> =
                x.exact.chunks(width).flat_map(|row| reference::softmax(row, 1.7)).collect();
            // Relative: what is small must be right, too.
            let away = reference::distance(&reference::read(output, &got), &expected);
            let last = memory.start().after((rows - 1) * width * input.bytes());
            let (alone, _) = run(room, row_bytes, |y| vec![Rows { rows: 1, ..all }.softmax(y, last, 1.7)])?;
            let same = alone[..] == got[(rows - 1) * row_bytes..];
            let limit = if output == Number::F32 { 2e-6 } else { 4e-3 };
            let name = format!("softmax of {width}, {} to {}", input.name(), output.name());
            report.check(
                &name,
                away <= limit && guard && same,
                format!("{away:.1e}, alone the same bits: {same}"),
            );
        }
    }
    Ok(())
}

fn norms(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    for (input, output) in
        [(Number::F32, Number::F32), (Number::Bf16, Number::Bf16), (Number::F32, Number::Bf16)]
    {
        for width in [1, 7, 768, 1024, 1025, 4096] {
            let rows = 11;
            let mut x = Values::normal("norm", input, rows * width);
            // A mean far from zero: what cancels must not cost the result.
            x.exact.iter_mut().for_each(|x| *x = reference::rounded(input, *x + 5.0));
            let weight = Values::normal("weight", Number::F32, width);
            let bias = Values::normal("bias", Number::F32, width);
            let memory = [upload(room, &x)?, upload(room, &weight)?, upload(room, &bias)?];
            let kept = [room.poisoned(rows * 4)?, room.poisoned(rows * 4)?];
            let all = Rows { rows: rows as u32, width: width as u32, input, output };
            let kept_at = [kept[0].start(), kept[1].start()];
            let parameters = [memory[1].start(), memory[2].start()];
            let row_bytes = width * output.bytes();
            let launch = |rows: Rows, y, x| vec![rows.norm(y, kept_at, x, parameters, 1e-5)];
            let (got, guard) = run(room, rows * row_bytes, |y| launch(all, y, memory[0].start()))?;
            let moments: Vec<(f64, f64)> =
                x.exact.chunks(width).map(|row| reference::moments(row, 1e-5)).collect();
            let mut expected = Vec::new();
            for (row, (mean, scale)) in x.exact.chunks(width).zip(&moments) {
                let one = |(i, x): (usize, &f64)| (x - mean) * scale * weight.exact[i] + bias.exact[i];
                expected.extend(row.iter().enumerate().map(one));
            }
            let worst = reference::worst(&reference::read(output, &got), &expected);
            let means = kept[0].to_vec::<f32>(&room.stream)?;
            let scales = kept[1].to_vec::<f32>(&room.stream)?;
            let statistics = moments.iter().zip(means.iter().zip(&scales)).all(|((mean, scale), (m, s))| {
                (f64::from(*m) - mean).abs() <= 1e-6 * mean.abs()
                    && (f64::from(*s) - scale).abs() <= 2e-5 * scale.abs()
            });
            let last = memory[0].start().after((rows - 1) * width * input.bytes());
            let (alone, _) = run(room, row_bytes, |y| launch(Rows { rows: 1, ..all }, y, last))?;
            let same = alone[..] == got[(rows - 1) * row_bytes..];
            // Means near 5 leave 5 * 2^-24 of error in every difference, times scale and weight.
            let limit = bound(output).max(1e-5);
            let name = format!("norm of {width}, {} to {}", input.name(), output.name());
            let detail = format!("{worst:.1e}, statistics: {statistics}, alone the same bits: {same}");
            // A row of one element has the variance 0: its scale is 1 / sqrt(epsilon), which magnifies
            // nothing here.
            report.check(&name, worst <= limit && statistics && guard && same, detail);
        }
    }
    Ok(())
}

fn columns(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    for input in NUMBERS {
        for (rows, width) in [(1, 1), (127, 65), (128, 64), (129, 768), (10_000, 33)] {
            let x = Values::normal("columns", input, rows * width);
            let memory = upload(room, &x)?;
            let columns = Columns { rows: rows as u32, width: width as u32, input };
            let scratch = room.poisoned(columns.scratch())?;
            let once = || run(room, width * 4, |y| columns.sums(y, memory.start(), scratch.start()).to_vec());
            let (got, guard) = once()?;
            let again = once()?.0;
            let mut worst = 0f64;
            for (column, got) in reference::read(Number::F32, &got).into_iter().enumerate() {
                let values = || (0..rows).map(|row| x.exact[row * width + column]);
                let away = (got - values().sum::<f64>()).abs() / values().map(f64::abs).sum::<f64>();
                worst = if away > worst || away.is_nan() { away } else { worst };
            }
            let name = format!("sums of {width} columns of {rows}, {}", input.name());
            report.check(&name, worst <= 1e-6 && guard && got == again, format!("{worst:.1e}"));
        }
    }
    Ok(())
}

fn draws(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let hash = regard_device::random::name_hash;
    let mut same = true;
    for (seed, step, name, example, position, count) in [
        (1, 0, "a", 0, 0, 1),
        (7, 3, "block.0.dropout", 5, 11, 1003),
        (u64::MAX, (5 << 32) + 9, "decoder.attention", u32::MAX, 77, 4096),
    ] {
        let place = [example, position];
        let (got, guard) =
            run(room, count as usize * 4, |y| vec![draw(y, [seed, step, hash(name)], place, count)])?;
        let stream = random::Stream::new(seed, step, name);
        let expected: Vec<u8> =
            (0..count).flat_map(|channel| stream.bits(example, position, channel).to_le_bytes()).collect();
        same &= got == expected && guard;
    }
    report.check("random bits are the CPU's", same, "three streams");
    Ok(())
}
