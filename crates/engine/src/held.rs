//! The numbers of an entry of a store, and which version of them lies where. Today the newest version is
//! always in host memory. A device that updates its own copy raises the version without touching the host's,
//! which is then brought up to date by whoever reads it; what the host writes makes the copies of devices
//! stale in the same way.

use crate::Numbers;
use regard_device::{Buffer, Element};

pub(crate) struct Held {
    /// How often the numbers have changed, wherever.
    version: u64,
    host: Buffer,
    /// The version that lies in host memory.
    host_version: u64,
}

impl Held {
    pub fn on_host(host: Buffer) -> Held {
        Held { version: 0, host, host_version: 0 }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Bytes in host memory.
    pub fn bytes(&self) -> usize {
        self.host.len()
    }

    /// The newest numbers.
    pub fn read<T: Element>(&self, count: usize) -> Numbers<'_, T> {
        Numbers::lent(&self.host().as_slice::<T>()[..count])
    }

    /// The newest numbers as they lie in host memory.
    pub fn host(&self) -> &Buffer {
        assert_eq!(self.host_version, self.version, "no device has a newer version");
        &self.host
    }

    /// Host memory, about to be written: what it holds afterwards is the newest version.
    pub fn write(&mut self) -> &mut Buffer {
        self.changed_on_host();
        &mut self.host
    }

    /// Says that kernels of the host change the numbers where they lie.
    pub fn changed_on_host(&mut self) {
        self.version += 1;
        self.host_version = self.version;
    }

    /// Where kernels of the host find the newest numbers, and may change them.
    pub fn host_pointer(&mut self) -> *mut u8 {
        assert_eq!(self.host_version, self.version, "no device has a newer version");
        self.host.as_mut_ptr()
    }
}
