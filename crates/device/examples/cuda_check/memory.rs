//! Memory: a reservation whose addresses stay, copies through the ring, refusals, and a card that is lost.

use crate::{Report, Room};
use regard_device::cuda::{
    Address, Arguments, Card, Compiler, CudaError, Grid, Memory, Module, Reservation, Ring, Source, Stream,
};
use std::process::{Command, ExitCode};

/// The argument that makes this program lose its card on purpose.
pub const FAULT: &str = "--fault";

pub fn check(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let (before, total) = room.card.free_memory()?;
    reservation(room, report, total)?;
    let (after, _) = room.card.free_memory()?;
    let kept = before.saturating_sub(after);
    report.check(
        "a dropped reservation gives its memory back",
        kept < 64 << 20,
        format!("{} MB kept", kept >> 20),
    );
    ring(room, report)?;

    let error = Memory::new(&room.card, total * 2).unwrap_err();
    let expected = matches!(error, CudaError::OutOfMemory { bytes, .. } if bytes == total * 2);
    report.check("too large a block is refused", expected, error.to_string());
    let error = Card::open(99).unwrap_err();
    report.check(
        "a card that is not there",
        matches!(error, CudaError::UnknownCard { .. }),
        error.to_string(),
    );
    let error = Module::load(&room.card, "nonsense", b"\x7fELF nothing").unwrap_err();
    report.check("a cubin that is none", matches!(error, CudaError::Refused { .. }), error.to_string());

    let fault = std::env::current_exe().and_then(|program| Command::new(program).arg(FAULT).output());
    let (lost, text) = match fault {
        Ok(output) => (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_string()),
        Err(error) => (false, error.to_string()),
    };
    report.check("a kernel's fault is an error value", lost, text);
    Ok(())
}

fn reservation(room: &Room, report: &mut Report, total: usize) -> Result<(), CudaError> {
    let mut reservation = Reservation::new(&room.card, total * 2)?;
    let start = reservation.start();
    let free = room.card.free_memory()?.0;
    report.fact("reserved addresses", format!("{} GiB at {:x}", reservation.reserved() >> 30, start.0));
    let pattern: Vec<u32> = (0..1 << 18).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
    let mut ring = Ring::new(&room.card, 2, 1 << 20)?;
    let mut written = Vec::new();
    for bytes in [1 << 22, 100 << 20, (100 << 20) + 1, 1 << 30, 3 << 30] {
        reservation.grow(bytes)?;
        let region = reservation.region();
        // The pattern at the end of what is there now; those written before must stay. It is shorter than the
        // least that is mapped at a time, so that no two overlap.
        let at = region.bytes - (1 << 20);
        // SAFETY: inside of the reservation, which lives to the end of this function.
        unsafe { ring.upload(&room.stream, region.part(at, 1 << 20), &pattern) }?;
        written.push(at);
        let mut same = reservation.start() == start;
        for &at in &written {
            let mut back = vec![0u32; 1 << 18];
            // SAFETY: as above.
            unsafe { ring.download(&room.stream, &mut back, region.part(at, 1 << 20)) }?;
            same &= back == pattern;
        }
        report.check("growing keeps address and content", same, format!("{} MiB mapped", region.bytes >> 20));
    }
    let mapped = reservation.region();
    let error = reservation.grow(total + (total >> 1)).unwrap_err();
    let kept = matches!(error, CudaError::OutOfMemory { .. }) && reservation.region() == mapped;
    report.check("growing past the card changes nothing", kept, error.to_string());
    let error = reservation.grow(total * 3).unwrap_err();
    report.check(
        "growing past the reservation",
        matches!(error, CudaError::Reservation { .. }),
        error.to_string(),
    );
    let taken = free - room.card.free_memory()?.0;
    report.fact("memory taken for what is mapped", format!("{} of {} MiB", taken >> 20, mapped.bytes >> 20));
    Ok(())
}

fn ring(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let mut ring = Ring::new(&room.card, 3, 1 << 20)?;
    for count in [0usize, 1, 262_144, 262_145, 9_999_991] {
        let mut values: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ 5).collect();
        let expected = values.clone();
        let memory = room.poisoned(count * 4)?;
        // SAFETY: the block lives until the result is read.
        unsafe { ring.upload(&room.stream, memory.region(), &values) }?;
        // What was handed over is the card's: the host may write its own again.
        values.fill(0);
        // SAFETY: as above.
        unsafe { ring.download(&room.stream, &mut values, memory.region()) }?;
        let plain = memory.to_vec::<u32>(&room.stream)?;
        report.check(
            "up and down through the ring",
            values == expected && plain == expected,
            format!("{count} words"),
        );
    }
    Ok(())
}

/// Writes to an address that is not there, and says what comes of it.
pub fn fault() -> ExitCode {
    let outcome = || -> Result<(), CudaError> {
        let card = Card::open(0)?;
        let compiler = Compiler::new(None, None)?;
        let source = Source::new("fault.cu", "extern \"C\" __global__ void fault(int* at) { *at = 1; }");
        let compiled = compiler.compile(&source, compiler.architecture(card.facts().capability)?)?;
        let module = Module::load(&card, "fault.cu", &compiled.cubin)?;
        let stream = Stream::new(&card)?;
        let arguments = Arguments::new().with(Address(16));
        // SAFETY: none: the fault is wanted, and this process does nothing else with the card.
        unsafe { module.function("fault")?.launch(&stream, Grid::line(1, 1), &arguments) }?;
        stream.synchronize()
    };
    match outcome() {
        Err(error) if error.is_final() => {
            println!("{error}");
            ExitCode::SUCCESS
        }
        other => {
            println!("{other:?}");
            ExitCode::FAILURE
        }
    }
}
