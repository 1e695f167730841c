//! A card: opened once, shared by everything that lives on it, closed when the last of them is gone.

use super::error::{CudaError, check};
use super::libraries;
use cudarc::driver::sys::{self as cu, CUdevice_attribute as Attribute};
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::Arc;

/// The least compute capability: bf16 conversions, asynchronous copies and `mma` of bf16 begin there.
const LEAST: (u32, u32) = (8, 0);

/// What is known of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, such as (9, 0).
    pub capability: (u32, u32),
    /// The CUDA version of the driver.
    pub driver: (u32, u32),
    /// Bytes of memory.
    pub memory: usize,
    /// Bytes of the second-level cache.
    pub l2: usize,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that one block may ask for.
    pub shared_per_block: usize,
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let gib = self.memory as f64 / (1u64 << 30) as f64;
        let ((major, minor), (cuda, point)) = (self.capability, self.driver);
        write!(f, "{} ({gib:.0} GiB, sm_{major}{minor}, {} SMs, ", self.name, self.multiprocessors)?;
        write!(f, "{} MB L2, driver for CUDA {cuda}.{point})", self.l2 >> 20)
    }
}

/// A card with its context. Clones are the same card.
#[derive(Clone, Debug)]
pub struct Card {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: cu::CUdevice,
    context: cu::CUcontext,
    facts: Facts,
}

// SAFETY: a context may be made current in several threads at once, and the driver locks what it shares.
unsafe impl Send for Inner {}
// SAFETY: as above; the fields themselves never change.
unsafe impl Sync for Inner {}

impl Card {
    /// How many cards the driver sees.
    pub fn count() -> Result<usize, CudaError> {
        libraries::driver()?;
        let mut count = 0;
        // SAFETY: the driver is started; the call writes one number.
        check(unsafe { cu::cuDeviceGetCount(&mut count) }, "counting the cards")?;
        Ok(count as usize)
    }

    /// Opens a card, counted from 0.
    pub fn open(index: usize) -> Result<Card, CudaError> {
        let driver = libraries::driver()?;
        match Card::count()? {
            0 => return Err(CudaError::NoCard),
            count if index >= count => return Err(CudaError::UnknownCard { index, count }),
            _ => {}
        }
        let mut device = 0;
        // SAFETY: the driver is started; the call writes one number.
        check(unsafe { cu::cuDeviceGet(&mut device, index as i32) }, "opening the card")?;
        let facts = facts(device, driver)?;
        if facts.capability < LEAST {
            return Err(CudaError::CardTooOld { name: facts.name, capability: facts.capability });
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: a device of this driver; the call writes one handle, released in `drop`.
        check(unsafe { cu::cuDevicePrimaryCtxRetain(&mut context, device) }, "opening the card's context")?;
        let card = Card { inner: Arc::new(Inner { device, context, facts }) };
        card.bind()?;
        Ok(card)
    }

    /// What is known of it.
    pub fn facts(&self) -> &Facts {
        &self.inner.facts
    }

    /// Bytes of memory that are free, and all of them.
    pub fn free_memory(&self) -> Result<(usize, usize), CudaError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current; the call writes two numbers.
        check(unsafe { cu::cuMemGetInfo_v2(&mut free, &mut total) }, "asking for free memory")?;
        Ok((free, total))
    }

    /// Waits for everything that was put on this card.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.bind()?;
        // SAFETY: the context is current.
        check(unsafe { cu::cuCtxSynchronize() }, "waiting for the card")
    }

    /// Makes the context current in this thread, as most calls need it to be.
    pub(super) fn bind(&self) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as `self`.
        check(unsafe { cu::cuCtxSetCurrent(self.inner.context) }, "turning to the card")
    }

    pub(super) fn device(&self) -> cu::CUdevice {
        self.inner.device
    }

    /// The error of an allocation that failed: out of memory with what is free, or what the driver said.
    pub(super) fn out_of_memory(&self, error: CudaError, bytes: usize) -> CudaError {
        match error {
            CudaError::Refused { code: 2, .. } => {
                let (free, total) = self.free_memory().unwrap_or((0, self.facts().memory));
                CudaError::OutOfMemory { bytes, free, total }
            }
            other => other,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`, released once here; everything that lives in it holds a clone of
        // the card.
        unsafe { cu::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn facts(device: cu::CUdevice, driver: (u32, u32)) -> Result<Facts, CudaError> {
    let number = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: a device of the started driver; the call writes one number.
        check(unsafe { cu::cuDeviceGetAttribute(&mut value, attribute, device) }, "asking what the card is")?;
        Ok(value as u32)
    };
    let mut name = [0 as c_char; 256];
    // SAFETY: the driver writes at most 256 bytes, the last of them zero.
    check(unsafe { cu::cuDeviceGetName(name.as_mut_ptr(), 256, device) }, "asking for the card's name")?;
    // SAFETY: the array is initialised and the driver ended the name with a zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut memory = 0;
    // SAFETY: the call writes one number.
    check(unsafe { cu::cuDeviceTotalMem_v2(&mut memory, device) }, "asking for the card's memory")?;
    Ok(Facts {
        name,
        capability: (
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        driver,
        memory,
        l2: number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_per_block: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
    })
}
