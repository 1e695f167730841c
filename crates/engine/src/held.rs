//! The numbers of an entry of a store, and which version of them lies where: in host memory, on a card, or
//! both; or, of numbers that were lent, in neither yet. Whoever changes them raises the version where it did
//! so; whoever reads them elsewhere brings the newest there first.

use crate::cuda::{Cuda, State};
use crate::{Numbers, Result};
use regard_device::cuda::{Address, Memory, Region};
use regard_device::{Buffer, Element};
use regard_ops::Lent;
use std::sync::Arc;

pub(crate) struct Held {
    /// How often the numbers have changed, wherever.
    version: u64,
    /// Bytes of the numbers, wherever they lie.
    bytes: usize,
    host: Buffer,
    /// Where the host's version lies instead, as long as nobody asked for it in host memory: `host` has no
    /// room for it then. Of f32 entries alone.
    lent: Option<Arc<dyn Lent>>,
    /// The version that lies in host memory, or was lent.
    host_version: u64,
    /// Cards that have had them, each with a place for them that stays.
    cards: Vec<OnCard>,
}

/// The numbers on a card.
struct OnCard {
    cuda: Cuda,
    memory: Memory,
    version: u64,
    /// A copy in bf16 and the version that it was made from.
    bf16: Option<(Memory, Option<u64>)>,
}

impl Held {
    pub fn on_host(host: Buffer) -> Held {
        Held { version: 0, bytes: host.len(), host, lent: None, host_version: 0, cards: Vec::new() }
    }

    /// So many bytes of f32 that lie elsewhere.
    pub fn lent(bytes: usize, lent: Arc<dyn Lent>) -> Result<Held> {
        let host = Buffer::zeroed(0)?;
        Ok(Held { version: 0, bytes, host, lent: Some(lent), host_version: 0, cards: Vec::new() })
    }

    /// Replaces the numbers by others, which lie elsewhere.
    pub fn lend(&mut self, lent: Arc<dyn Lent>) -> Result<()> {
        self.host = Buffer::zeroed(0)?;
        self.lent = Some(lent);
        self.changed_on_host();
        Ok(())
    }

    /// The numbers where they were lent from, if nobody has asked for them in memory.
    pub fn as_lent(&self) -> Option<&Arc<dyn Lent>> {
        self.lent.as_ref().filter(|_| self.host_version == self.version)
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Bytes in host memory.
    pub fn bytes(&self) -> usize {
        self.host.len()
    }

    // ---- in host memory ----

    /// The newest numbers: lent if they lie in host memory, else a copy.
    pub fn read<T: Element>(&self, count: usize) -> Result<Numbers<'_, T>> {
        if let Some(lent) = self.as_lent() {
            let numbers = self.brought(&**lent)?;
            return Ok(Numbers::copied(numbers.as_slice::<T>()[..count].to_vec()));
        }
        if self.host_version == self.version {
            return Ok(Numbers::lent(&self.host.as_slice::<T>()[..count]));
        }
        let mut numbers = vec![T::default(); count];
        self.fetch(&mut numbers)?;
        Ok(Numbers::copied(numbers))
    }

    /// The newest numbers as they lie in host memory, to which they are brought first.
    pub fn host(&mut self) -> Result<&Buffer> {
        if let Some(lent) = self.as_lent() {
            self.host = self.brought(&**lent)?;
            self.lent = None;
        }
        if self.host_version != self.version {
            self.make_room()?;
            let mut host = std::mem::replace(&mut self.host, Buffer::zeroed(1)?);
            let fetched = self.fetch(host.as_mut_slice::<u8>());
            self.host = host;
            fetched?;
            self.host_version = self.version;
        }
        Ok(&self.host)
    }

    /// Numbers that were lent, in memory of their own.
    fn brought(&self, lent: &dyn Lent) -> Result<Buffer> {
        let mut buffer = Buffer::zeroed(self.bytes)?;
        let numbers = buffer.as_mut_slice::<f32>();
        lent.read(0..numbers.len(), numbers);
        lent.passed(0..numbers.len());
        Ok(buffer)
    }

    /// Host memory for the numbers, which is not there while they are lent: what was lent is forgotten.
    fn make_room(&mut self) -> Result<()> {
        if self.lent.is_some() {
            self.host = Buffer::zeroed(self.bytes)?;
            self.lent = None;
        }
        Ok(())
    }

    /// Copies from the card that has the newest version.
    #[allow(unsafe_code)] // reads an address on the card
    fn fetch<T: Element>(&self, numbers: &mut [T]) -> Result<()> {
        let card = self.cards.iter().find(|card| card.version == self.version);
        let card = card.unwrap_or_else(|| unreachable!("the newest version lies somewhere"));
        let mut state = card.cuda.lock();
        state.wait()?;
        let from = Region { start: card.memory.start(), bytes: size_of_val(numbers) };
        // SAFETY: the memory has as many bytes as the host's and lives as long as `self`.
        unsafe { state.download(numbers, from) }
    }

    /// Host memory, about to be overwritten: what it holds afterwards is the newest version.
    pub fn write(&mut self) -> Result<&mut Buffer> {
        self.make_room()?;
        self.changed_on_host();
        Ok(&mut self.host)
    }

    /// Says that kernels of the host change the numbers where they lie.
    pub fn changed_on_host(&mut self) {
        self.version += 1;
        self.host_version = self.version;
    }

    /// Where kernels of the host find the newest numbers, and may change them.
    pub fn host_pointer(&mut self) -> Result<*mut u8> {
        self.host()?;
        Ok(self.host.as_mut_ptr())
    }

    // ---- on a card ----

    /// Bytes that a card would have to give for the numbers, and for a copy in bf16 where it is wanted.
    pub fn missing_on_card(&self, cuda: &Cuda, bf16: bool) -> usize {
        let bytes = self.bytes;
        match self.cards.iter().find(|card| card.cuda.id() == cuda.id()) {
            None => bytes + if bf16 { bytes / 2 } else { 0 },
            Some(card) if bf16 && card.bf16.is_none() => bytes / 2,
            Some(_) => 0,
        }
    }

    /// Where the numbers are on a card, from now on.
    pub fn place_on_card(&mut self, cuda: &Cuda) -> Result<Address> {
        if !self.cards.iter().any(|card| card.cuda.id() == cuda.id()) {
            let memory = Memory::new(cuda.card(), self.bytes)?;
            self.cards.push(OnCard { cuda: cuda.clone(), memory, version: u64::MAX, bf16: None });
        }
        Ok(self.on_card(cuda).memory.start())
    }

    /// Where a copy in bf16 is on a card that has the numbers, from now on.
    pub fn place_bf16(&mut self, cuda: &Cuda) -> Result<Address> {
        let bytes = self.bytes / 2;
        let card = self.on_card(cuda);
        if card.bf16.is_none() {
            card.bf16 = Some((Memory::new(card.cuda.card(), bytes)?, None));
        }
        Ok(card.bf16.as_ref().map_or(Address(0), |(memory, _)| memory.start()))
    }

    /// Brings the newest version to the card, after what is on its stream.
    #[allow(unsafe_code)] // writes to an address on the card
    pub fn bring_to_card(&mut self, cuda: &Cuda, state: &mut State) -> Result<()> {
        let (version, bytes) = (self.version, self.bytes);
        if self.on_card(cuda).version == version {
            return Ok(());
        }
        // They may have changed last on yet another card, whose lock is another one.
        self.host()?;
        let to = Region { start: self.on_card(cuda).memory.start(), bytes };
        // SAFETY: the memory has as many bytes as the host's and lives as long as `self`.
        unsafe { state.upload(to, self.host.as_slice::<u8>()) }?;
        self.on_card(cuda).version = version;
        Ok(())
    }

    /// Whether the copy in bf16 is older than the numbers; from now on it counts as made from them.
    pub fn take_stale_bf16(&mut self, cuda: &Cuda) -> bool {
        let version = self.version;
        match &mut self.on_card(cuda).bf16 {
            Some((_, made_from)) if *made_from != Some(version) => {
                *made_from = Some(version);
                true
            }
            _ => false,
        }
    }

    /// Says that kernels of the card change the numbers where they lie.
    pub fn changed_on_card(&mut self, cuda: &Cuda) {
        self.version += 1;
        self.on_card(cuda).version = self.version;
    }

    fn on_card(&mut self, cuda: &Cuda) -> &mut OnCard {
        let card = self.cards.iter_mut().find(|card| card.cuda.id() == cuda.id());
        card.unwrap_or_else(|| unreachable!("a program of a card has placed it there"))
    }
}
