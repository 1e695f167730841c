//! Memory whose addresses never move: a stretch of addresses is reserved once, which costs nothing, and real
//! memory is put under its beginning as it is needed. What was captured or planned with an address stays
//! valid when more is needed.

use super::error::{CudaError, check};
use super::{Address, Card, Region};
use cudarc::driver::sys as cu;

/// A reserved stretch of addresses with memory under its beginning. Freed on drop.
#[derive(Debug)]
pub struct Reservation {
    card: Card,
    start: Address,
    reserved: usize,
    /// The pieces of memory that were put under it, one after the other.
    pieces: Vec<usize>,
    mapped: usize,
    granularity: usize,
}

impl Reservation {
    /// Reserves addresses for so many bytes (rounded up to the card's granularity). No memory is taken yet.
    pub fn new(card: &Card, bytes: usize) -> Result<Reservation, CudaError> {
        card.bind()?;
        let mut granularity = 0;
        let kind = kind(card);
        let option = cu::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: the context is current, the properties live through the call, and one number is written.
        let answer = unsafe { cu::cuMemGetAllocationGranularity(&mut granularity, &kind, option) };
        check(answer, "asking for the granularity of memory")?;
        let reserved = bytes.max(1).next_multiple_of(granularity);
        let mut start = 0;
        // SAFETY: the context is current; one address is written. The size is a multiple of the granularity.
        let answer = unsafe { cu::cuMemAddressReserve(&mut start, reserved, 0, 0, 0) };
        check(answer, "reserving addresses")?;
        let (pieces, mapped) = (Vec::new(), 0);
        Ok(Reservation { card: card.clone(), start: Address(start), reserved, pieces, mapped, granularity })
    }

    /// Where it begins: the same for its whole life.
    pub fn start(&self) -> Address {
        self.start
    }

    /// Bytes that have addresses.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The part that has memory.
    pub fn region(&self) -> Region {
        Region { start: self.start, bytes: self.mapped }
    }

    /// Sees to it that the first `bytes` have memory. What is there keeps its address and content; the
    /// content of what is new is undefined. On an error nothing has changed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), CudaError> {
        if bytes <= self.mapped {
            return Ok(());
        }
        if bytes > self.reserved {
            return Err(CudaError::Reservation { bytes, reserved: self.reserved });
        }
        let piece = (bytes - self.mapped).next_multiple_of(self.granularity);
        self.card.bind()?;
        let kind = kind(&self.card);
        let mut handle = 0;
        // SAFETY: the context is current, the properties live through the call, and one handle is written.
        let answer = unsafe { cu::cuMemCreate(&mut handle, piece, &kind, 0) };
        check(answer, "taking memory of the card").map_err(|error| self.card.out_of_memory(error, piece))?;
        let at = self.start.after(self.mapped).0;
        // SAFETY: the addresses are reserved here and have no memory yet; both sizes are the handle's.
        let put = check(unsafe { cu::cuMemMap(at, piece, 0, handle, 0) }, "putting memory under addresses");
        // SAFETY: made above. Memory that is mapped lives until it is unmapped, and otherwise it is given
        // back now.
        unsafe { cu::cuMemRelease(handle) };
        put?;
        let flags = cu::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = cu::CUmemAccessDesc { location: kind.location, flags };
        // SAFETY: the stretch was mapped above and the description lives through the call.
        let opened =
            check(unsafe { cu::cuMemSetAccess(at, piece, &access, 1) }, "opening memory to the card");
        if let Err(error) = opened {
            // SAFETY: exactly what was mapped above, and nobody has its address yet.
            unsafe { cu::cuMemUnmap(at, piece) };
            return Err(error);
        }
        self.pieces.push(piece);
        self.mapped += piece;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // Unmapping does not wait for what runs. After a lost card the calls fail, and there is nothing left
        // to free.
        let _ = self.card.synchronize();
        let mut at = self.start;
        for &piece in &self.pieces {
            // SAFETY: exactly the stretches that were mapped, whose users have ended.
            unsafe { cu::cuMemUnmap(at.0, piece) };
            at = at.after(piece);
        }
        // SAFETY: reserved in `new` with this size, and nothing is mapped any more.
        unsafe { cu::cuMemAddressFree(self.start.0, self.reserved) };
    }
}

/// Memory of this card alone.
fn kind(card: &Card) -> cu::CUmemAllocationProp {
    cu::CUmemAllocationProp {
        type_: cu::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: cu::CUmemAllocationHandleType_enum(0),
        location: cu::CUmemLocation {
            type_: cu::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: card.device(),
        },
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: cu::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}
