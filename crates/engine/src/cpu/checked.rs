//! The debug mode of the CPU engine: what a kernel does to memory is checked while it runs. Every call is
//! rehearsed twice in rooms of its own, filled with two different patterns, before it runs as planned:
//! * results and scratch have guards before and behind them, which must stay as they are, and so must the
//!   operands;
//! * what two rehearsals give must be the same to the last bit: otherwise a byte of a result was never
//!   stored, or the kernel read a result or scratch before it wrote there;
//! * what the planned run gives, with results over operands, must be the same again: otherwise an operand was
//!   read after it was stored over;
//! * no two tasks of one run may store the same byte of a result or of shared scratch, nor one load what
//!   another stores ([`regard_device::store_log`] says what it sees and what not).
//!
//! What it cannot see: tasks that race only in plain writes to slices which an `unsafe` kernel made by
//! itself, wild writes that miss rooms and operands, and the scratch of threads, which tasks take turns in.

use crate::{Error, Result};
use regard_device::store_log::{Conflict, StoreLog};
use regard_device::{Buffer, Level, Pool};
use regard_graph::{Alias, Node};
use regard_ops::{CpuCall, Kernels, Lent, Packed, Slot};
use std::sync::Arc;

/// Bytes of a guard: a whole line, so that what lies behind it is aligned.
const GUARD: usize = 64;
/// What guards are filled with.
const GUARDED: u8 = 0xa5;
/// What results and scratch are filled with: NaN and −1, then numbers that hardly count.
const PATTERNS: [u8; 2] = [0xff, 0x01];

/// One call of a kernel, as planned.
pub(super) struct Planned<'a> {
    pub node: &'a Node,
    pub kernels: &'a dyn Kernels,
    pub inputs: &'a [Slot],
    pub outputs: &'a [Slot],
    pub packed: &'a [Option<Packed<'a>>],
    pub lent: &'a [Option<&'a dyn Lent>],
    pub scratch: (*mut u8, usize),
    /// The scratch of all threads, and how much of it each has.
    pub threads: (*mut u8, usize),
    pub pool: &'a Pool,
    pub level: Level,
}

impl Planned<'_> {
    /// Runs the kernel.
    ///
    /// # Safety
    /// What [`CpuCall::new`] asks for.
    pub unsafe fn run(&self) -> Result<()> {
        let Planned { inputs, outputs, packed, lent, scratch, threads, pool, level, .. } = *self;
        // SAFETY: passed on to the caller.
        let call = unsafe { CpuCall::new(inputs, outputs, packed, lent, scratch, threads, pool, level) };
        let result = self.kernels.cpu(&call);
        result.map_err(|fault| Error::Fault { node: self.node.name.clone(), fault })
    }

    /// Rehearses the kernel twice, then runs it, and compares; each thread asked for `thread_scratch` bytes.
    ///
    /// # Safety
    /// As for [`Planned::run`].
    pub unsafe fn run_checked(&self, log: &Arc<StoreLog>, thread_scratch: usize) -> Result<()> {
        // SAFETY: passed on to the caller: every operand has the bytes of its shape, and nothing writes there
        // now.
        let before: Vec<&[u8]> = self.inputs.iter().map(|slot| unsafe { bytes_of(slot) }).collect();
        let before: Vec<Vec<u8>> = before.into_iter().map(<[u8]>::to_vec).collect();
        // SAFETY: passed on to the caller.
        let [first, second] = unsafe {
            [
                self.rehearse(log, PATTERNS[0], thread_scratch)?,
                self.rehearse(log, PATTERNS[1], thread_scratch)?,
            ]
        };
        for (output, [a, b]) in first.iter().zip(&second).map(|(a, b)| [a, b]).enumerate() {
            let (Some(a), Some(b)) = (a, b) else { continue };
            if let Some(byte) = a.differs(b.bytes()) {
                let what = match [a.bytes()[byte], b.bytes()[byte]] == PATTERNS {
                    true => format!("byte {byte} of result {output} was never stored"),
                    false => format!(
                        "byte {byte} of result {output} depends on what lay in its results or scratch before"
                    ),
                };
                return Err(self.broken(what));
            }
        }
        let scratch = (!self.scratch.0.is_null()).then_some((self.scratch.0.cast_const(), self.scratch.1));
        let noting = log.watch(self.outputs.iter().map(stretch).chain([scratch.unwrap_or(NOWHERE)]));
        // SAFETY: passed on to the caller.
        unsafe { self.run() }?;
        drop(noting);
        self.no_conflict(log)?;
        for (output, slot) in self.outputs.iter().enumerate() {
            // SAFETY: passed on to the caller: a result has the bytes of its shape, and the kernel is done.
            let got = unsafe { bytes_of(slot) };
            if let Some(byte) = first[output].as_ref().and_then(|room| room.differs(got)) {
                return Err(self.broken(format!(
                    "byte {byte} of result {output} is another one where the result lies over an operand"
                )));
            }
        }
        for (input, (slot, before)) in self.inputs.iter().zip(&before).enumerate() {
            // SAFETY: as above.
            let changed =
                unsafe { bytes_of(slot) }.iter().zip(before).position(|(now, before)| now != before);
            if let Some(byte) = changed.filter(|_| !slot.overwritten) {
                return Err(self.broken(format!("byte {byte} of operand {input} was changed")));
            }
        }
        Ok(())
    }

    /// Runs the kernel in rooms of its own, filled with a pattern, and gives the rooms of the results. State
    /// that it replaces is a copy.
    ///
    /// # Safety
    /// As for [`Planned::run`].
    unsafe fn rehearse(
        &self,
        log: &Arc<StoreLog>,
        pattern: u8,
        thread_scratch: usize,
    ) -> Result<Vec<Option<Room>>> {
        let (mut inputs, mut outputs) = (self.inputs.to_vec(), self.outputs.to_vec());
        let mut rooms: Vec<Option<Room>> = Vec::new();
        for (output, slot) in outputs.iter_mut().enumerate() {
            if slot.at.is_null() {
                rooms.push(None);
                continue;
            }
            let mut room = Room::new(slot.dims.count() * slot.dtype.bytes(), pattern)?;
            let updated = self.node.declared.aliases.iter().find_map(|alias| match *alias {
                Alias::Update { output: o, input } if o == output => Some(input),
                _ => None,
            });
            if let Some(input) = updated {
                // SAFETY: passed on to the caller.
                room.bytes_mut().copy_from_slice(unsafe { bytes_of(&self.inputs[input]) });
            }
            slot.at = room.start();
            if let Some(input) = updated {
                inputs[input].at = slot.at;
            }
            rooms.push(Some(room));
        }
        let mut scratch = Room::new(self.scratch.1, pattern)?;
        let own = thread_scratch.next_multiple_of(GUARD);
        let mut threads = Room::new(own * self.pool.threads(), pattern)?;
        let noting =
            log.watch(outputs.iter().map(stretch).chain([(scratch.start().cast_const(), scratch.bytes)]));
        let rehearsed = Planned {
            inputs: &inputs,
            outputs: &outputs,
            scratch: (scratch.start(), scratch.bytes),
            threads: (threads.start(), own),
            ..*self
        };
        // SAFETY: rooms are as large as what was planned, aligned, apart from each other and from every
        // operand, but that an updated state and its result are one; the operands are the caller's promise.
        unsafe { rehearsed.run() }?;
        drop(noting);
        self.no_conflict(log)?;
        for (output, room) in rooms.iter().enumerate() {
            if room.as_ref().is_some_and(|room| !room.is_guarded()) {
                return Err(self.broken(format!("it wrote before or behind result {output}")));
            }
        }
        if !scratch.is_guarded() || !threads.is_guarded() {
            return Err(self.broken("it wrote before or behind its scratch".into()));
        }
        Ok(rooms)
    }

    fn no_conflict(&self, log: &StoreLog) -> Result<()> {
        let Some(Conflict { stretch, byte, first, second, loaded }) = log.conflict() else { return Ok(()) };
        let place =
            if stretch < self.outputs.len() { format!("result {stretch}") } else { "its scratch".into() };
        let first = first.map_or("others".into(), |first| format!("task {first}"));
        let did = if loaded { "one loads and one stores" } else { "both store" };
        Err(self
            .broken(format!("task {second} and {first} of one run meet at byte {byte} of {place}: {did} it")))
    }

    fn broken(&self, what: String) -> Error {
        Error::Check { check: "stores".into(), what: format!("`{}`: {what}", self.node.name) }
    }
}

/// No memory at all.
const NOWHERE: (*const u8, usize) = (std::ptr::null(), 0);

/// Where a result lies.
fn stretch(slot: &Slot) -> (*const u8, usize) {
    if slot.at.is_null() { NOWHERE } else { (slot.at.cast_const(), slot.dims.count() * slot.dtype.bytes()) }
}

/// What lies in a slot.
///
/// # Safety
/// The slot has the bytes of its shape, and nothing writes there while they are in use.
unsafe fn bytes_of(slot: &Slot) -> &[u8] {
    if slot.at.is_null() {
        return &[];
    }
    let (start, bytes) = stretch(slot);
    // SAFETY: passed on to the caller.
    unsafe { std::slice::from_raw_parts(start, bytes) }
}

/// Memory between two guards.
struct Room {
    buffer: Buffer,
    bytes: usize,
}

impl Room {
    fn new(bytes: usize, pattern: u8) -> Result<Room> {
        let mut buffer = Buffer::zeroed(GUARD + bytes.next_multiple_of(GUARD) + GUARD)?;
        buffer.as_mut_slice::<u8>().fill(GUARDED);
        let mut room = Room { buffer, bytes };
        room.bytes_mut().fill(pattern);
        Ok(room)
    }

    fn start(&mut self) -> *mut u8 {
        self.bytes_mut().as_mut_ptr()
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.as_slice::<u8>()[GUARD..][..self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut_slice::<u8>()[GUARD..][..self.bytes]
    }

    /// The first byte that is another one than here.
    fn differs(&self, others: &[u8]) -> Option<usize> {
        self.bytes().iter().zip(others).position(|(own, other)| own != other)
    }

    fn is_guarded(&self) -> bool {
        let all = self.buffer.as_slice::<u8>();
        all[..GUARD].iter().chain(&all[GUARD + self.bytes..]).all(|&byte| byte == GUARDED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_outside_of_a_room_shows() {
        for at in [0, GUARD - 1, GUARD + 10, GUARD + 64, 2 * GUARD + 63] {
            let mut room = Room::new(10, 0xff).unwrap();
            assert!(room.is_guarded());
            assert_eq!(room.bytes(), [0xff; 10]);
            room.bytes_mut().fill(1);
            assert!(room.is_guarded());
            room.buffer.as_mut_slice::<u8>()[at] = 1;
            assert!(!room.is_guarded(), "{at}");
        }
    }
}
