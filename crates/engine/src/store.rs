//! What outlives a run: parameters, moments, caches, running statistics, by name, shared by several programs.
//! Every entry carries a version; copies of a weight in the form of some engine are caches that know the
//! version they were made from, so an optimizer, an import or a patch can never leave a stale copy behind.

use crate::copies::{Copies, Room};
use crate::cuda::{Cuda, State};
use crate::feed::check_numbers;
use crate::held::Held;
use crate::{Error, Numbers, Result};
use half::bf16;
use regard_device::cuda::Address;
use regard_device::random::unit_f32;
use regard_device::{Buffer, Element, Stream};
use regard_graph::{DType, Dims, Fact, Init, Shape, Stored};
use regard_ops::{Array, CopyKind, Lent, Weights};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One entry of the store.
struct Entry {
    name: String,
    fact: Fact,
    held: Held,
}

/// A copy of an entry in a form that some engine wants.
struct EngineCopy {
    entry: usize,
    kind: CopyKind,
    room: Room,
    made_from: Option<u64>,
}

/// Parameters and states by name.
pub struct Store {
    id: u64,
    seed: u64,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    copies: Vec<EngineCopy>,
    memory: Copies,
    /// The copies of each entry that has any.
    copies_of: HashMap<usize, Vec<usize>>,
    weights: Weights,
}

impl Store {
    /// An empty store; parameters that programs declare are drawn with this seed.
    pub fn new(seed: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Store {
            id,
            seed,
            entries: Vec::new(),
            by_name: HashMap::new(),
            copies: Vec::new(),
            memory: Copies::default(),
            copies_of: HashMap::new(),
            weights: Weights::Full,
        }
    }

    /// Chooses how programs made from now on hold the weights of their products: whatever the model, their
    /// graphs are rewritten as [`with_weights`](regard_ops::with_weights) says. The entries stay f32.
    pub fn hold_weights(&mut self, weights: Weights) {
        self.weights = weights;
    }

    /// How new programs hold the weights of their products.
    pub fn weights(&self) -> Weights {
        self.weights
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The names of all entries, in the order in which they were declared.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Shape and dtype of an entry.
    pub fn fact(&self, name: &str) -> Result<&Fact> {
        Ok(&self.entries[self.find(name)?].fact)
    }

    /// How often an entry has changed.
    pub fn version(&self, name: &str) -> Result<u64> {
        Ok(self.entries[self.find(name)?].held.version())
    }

    /// Bytes of all entries in host memory: those that are only lent have none.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.held.bytes()).sum()
    }

    /// Bytes of all copies in the forms of engines.
    pub fn packed_bytes(&self) -> usize {
        self.copies.iter().map(|copy| copy.room.bytes()).sum()
    }

    /// The newest numbers of an f32 entry, wherever they lie.
    pub fn f32(&self, name: &str) -> Result<Numbers<'_, f32>> {
        let entry = &self.entries[self.find(name)?];
        expect_dtype(name, entry.fact.dtype, DType::F32)?;
        entry.held.read(entry.fact.shape.bound().count())
    }

    /// The numbers of an entry of any dtype.
    pub fn array(&self, name: &str) -> Result<Array> {
        let entry = &self.entries[self.find(name)?];
        let (dims, held) = (entry.fact.shape.bound(), &entry.held);
        let count = dims.count();
        Ok(match entry.fact.dtype {
            DType::F32 => to_array(dims, &held.read::<f32>(count)?, f64::from),
            DType::BF16 => to_array(dims, &held.read::<bf16>(count)?, bf16::to_f64),
            DType::I32 => to_array(dims, &held.read::<i32>(count)?, f64::from),
            DType::Bool => to_array(dims, &held.read::<u8>(count)?, f64::from),
        })
    }

    /// Replaces the numbers of an f32 entry; packed copies follow before their next use.
    pub fn set_f32(&mut self, name: &str, numbers: &[f32]) -> Result<()> {
        let index = self.find(name)?;
        let entry = &mut self.entries[index];
        expect_dtype(name, entry.fact.dtype, DType::F32)?;
        let count = entry.fact.shape.bound().count();
        if numbers.len() != count {
            return Err(Error::Fed {
                name: name.into(),
                got: format!("{} numbers", numbers.len()),
                expected: format!("{count} for {}", entry.fact),
            });
        }
        entry.held.write()?.as_mut_slice::<f32>()[..count].copy_from_slice(numbers);
        Ok(())
    }

    /// Replaces the numbers of an entry of any dtype.
    pub fn set_array(&mut self, name: &str, array: &Array) -> Result<()> {
        let index = self.find(name)?;
        let entry = &mut self.entries[index];
        if array.dims() != entry.fact.shape.bound() {
            let (got, expected) = (array.dims().to_string(), entry.fact.to_string());
            return Err(Error::Fed { name: name.into(), got, expected });
        }
        check_numbers(name, entry.fact.dtype, array)?;
        write_numbers(entry.held.write()?, entry.fact.dtype, array.data().iter().copied());
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| regard_graph::Error::unknown("parameter or state", name, self.names()).into())
    }

    /// Makes an f32 entry before any program asks for it, as a checkpoint on its way into a store does. One
    /// that is there already stays as it is, if its shape is the same.
    ///
    /// ```
    /// # use regard_engine::Store;
    /// # use regard_graph::Init;
    /// let mut store = Store::new(0);
    /// store.declare("norm.weight", [3], Init::Ones)?;
    /// assert_eq!(store.f32("norm.weight")?, [1.0; 3]);
    /// # Ok::<(), regard_engine::Error>(())
    /// ```
    pub fn declare(&mut self, name: &str, shape: impl Into<Shape>, init: Init) -> Result<()> {
        self.declare_fact(name, &Fact::f32(shape.into()), init)
    }

    /// Makes an f32 entry of numbers that lie elsewhere and are only read, or replaces those of an entry that
    /// is there in the same shape. They are not held twice: copies in the forms of engines are made straight
    /// from them, tables are read by rows, and only what asks for the entry itself (a norm's weight, an
    /// optimizer) brings it to memory.
    pub fn lend(&mut self, name: &str, shape: impl Into<Shape>, numbers: Arc<dyn Lent>) -> Result<()> {
        let fact = Fact::f32(shape.into());
        if fact.shape.iter().any(|dim| dim.fixed().is_none()) {
            return Err(Error::OpenEntry { name: name.into(), got: fact.shape.to_string() });
        }
        match self.known(name, &fact)? {
            Some(index) => self.entries[index].held.lend(numbers),
            None => {
                let held = Held::lent(fact.bytes().max(1), numbers)?;
                self.add(name, fact, held);
                Ok(())
            }
        }
    }

    /// The same store with only those entries, their copies among them; memory of other copies stays taken.
    /// Programs that were made with it go with the others.
    pub fn only(self, keep: impl Fn(&str) -> bool) -> Store {
        let mut store = Store { weights: self.weights, memory: self.memory, ..Store::new(self.seed) };
        let mut moved = HashMap::new();
        for (index, entry) in self.entries.into_iter().enumerate() {
            if keep(&entry.name) {
                moved.insert(index, store.entries.len());
                store.by_name.insert(entry.name.clone(), store.entries.len());
                store.entries.push(entry);
            }
        }
        for copy in self.copies {
            if let Some(&entry) = moved.get(&copy.entry) {
                store.copies_of.entry(entry).or_default().push(store.copies.len());
                store.copies.push(EngineCopy { entry, ..copy });
            }
        }
        store
    }

    /// As [`declare`](Store::declare), of any dtype.
    pub fn declare_fact(&mut self, name: &str, fact: &Fact, init: Init) -> Result<()> {
        if fact.shape.iter().any(|dim| dim.fixed().is_none()) {
            return Err(Error::OpenEntry { name: name.into(), got: fact.shape.to_string() });
        }
        self.entry(name, fact, &init).map(|_| ())
    }

    /// Finds or makes the entry that a graph declares.
    pub(crate) fn declare_stored(&mut self, stored: &Stored) -> Result<usize> {
        self.entry(&stored.name, &stored.fact, &stored.init)
    }

    fn entry(&mut self, name: &str, fact: &Fact, init: &Init) -> Result<usize> {
        if let Some(index) = self.known(name, fact)? {
            return Ok(index);
        }
        let mut buffer = Buffer::zeroed(fact.bytes().max(1))?;
        if *init != Init::Zeros {
            write_numbers(&mut buffer, fact.dtype, initial(name, fact, init, self.seed));
        }
        Ok(self.add(name, fact.clone(), Held::on_host(buffer)))
    }

    /// The entry of this name, if it is there, and then in this shape.
    fn known(&self, name: &str, fact: &Fact) -> Result<Option<usize>> {
        let Some(&index) = self.by_name.get(name) else { return Ok(None) };
        let got = &self.entries[index].fact;
        if got != fact {
            let (got, expected) = (got.to_string(), fact.to_string());
            return Err(Error::StoreFact { name: name.into(), got, expected });
        }
        Ok(Some(index))
    }

    fn add(&mut self, name: &str, fact: Fact, held: Held) -> usize {
        self.entries.push(Entry { name: name.into(), fact, held });
        self.by_name.insert(name.into(), self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// The sizes of an entry.
    pub(crate) fn entry_dims(&self, entry: usize) -> Dims {
        self.entries[entry].fact.shape.bound()
    }

    /// Finds or makes room for a copy of an entry; it is filled before its first use.
    pub(crate) fn declare_copy(&mut self, entry: usize, kind: CopyKind, bytes: usize) -> Result<usize> {
        let own = self.copies_of.entry(entry).or_default();
        if let Some(&known) = own.iter().find(|&&copy| self.copies[copy].kind == kind) {
            return Ok(known);
        }
        let room = self.memory.room(bytes)?;
        own.push(self.copies.len());
        self.copies.push(EngineCopy { entry, kind, room, made_from: None });
        Ok(self.copies.len() - 1)
    }

    /// Brings a copy up to date with its entry, by the engine whose form it is.
    pub(crate) fn refresh_copy(
        &mut self,
        copy: usize,
        make: impl FnOnce(CopyKind, Dims, Numbered<'_>, &mut [u8]),
    ) -> Result<()> {
        let copy = &mut self.copies[copy];
        let entry = &mut self.entries[copy.entry];
        if copy.made_from == Some(entry.held.version()) {
            return Ok(());
        }
        let dims = entry.fact.shape.bound();
        let (kind, out) = (copy.kind, self.memory.get_mut(copy.room));
        match entry.held.as_lent() {
            Some(lent) => make(kind, dims, Numbered::Lent(&**lent), out),
            None => {
                make(kind, dims, Numbered::Held(&entry.held.host()?.as_slice::<f32>()[..dims.count()]), out);
            }
        }
        copy.made_from = Some(entry.held.version());
        Ok(())
    }

    /// The numbers of an entry where they were lent from, as long as it is not in memory.
    pub(crate) fn lent(&self, entry: usize) -> Option<&dyn Lent> {
        self.entries[entry].held.as_lent().map(|lent| &**lent)
    }

    pub(crate) fn copy_bytes(&self, copy: usize) -> &[u8] {
        self.memory.get(self.copies[copy].room)
    }

    pub(crate) fn entry_pointer(&mut self, entry: usize) -> Result<*mut u8> {
        self.entries[entry].held.host_pointer()
    }

    pub(crate) fn changed(&mut self, entry: usize) {
        self.entries[entry].held.changed_on_host();
    }

    /// Bytes that a card would have to give for an entry, and for a copy in bf16 where it is wanted.
    pub(crate) fn missing_on_card(&self, entry: usize, cuda: &Cuda, bf16: bool) -> usize {
        self.entries[entry].held.missing_on_card(cuda, bf16)
    }

    /// Where an entry is on a card, from now on.
    pub(crate) fn place_on_card(&mut self, entry: usize, cuda: &Cuda) -> Result<Address> {
        self.entries[entry].held.place_on_card(cuda)
    }

    /// Where a copy of an entry in bf16 is on a card, from now on.
    pub(crate) fn place_bf16(&mut self, entry: usize, cuda: &Cuda) -> Result<Address> {
        self.entries[entry].held.place_bf16(cuda)
    }

    /// Brings the newest numbers of an entry to a card that has a place for them.
    pub(crate) fn bring_to_card(&mut self, entry: usize, cuda: &Cuda, state: &mut State) -> Result<()> {
        self.entries[entry].held.bring_to_card(cuda, state)
    }

    /// Whether a card's copy of an entry in bf16 must be made anew, which is done now.
    pub(crate) fn take_stale_bf16(&mut self, entry: usize, cuda: &Cuda) -> bool {
        self.entries[entry].held.take_stale_bf16(cuda)
    }

    /// Says that kernels of a card change an entry where it lies.
    pub(crate) fn changed_on_card(&mut self, entry: usize, cuda: &Cuda) {
        self.entries[entry].held.changed_on_card(cuda);
    }
}

/// The numbers that a copy is made of.
pub(crate) enum Numbered<'a> {
    /// In memory.
    Held(&'a [f32]),
    /// Elsewhere.
    Lent(&'a dyn Lent),
}

fn expect_dtype(name: &str, got: DType, expected: DType) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::Read { name: name.into(), got: got.to_string(), expected: expected.to_string() })
}

/// How a stored value begins: drawn by (seed, name, index), whatever else is declared before or after.
/// One after the other, so that a large parameter is never held twice.
pub(crate) fn initial(name: &str, fact: &Fact, init: &Init, seed: u64) -> impl Iterator<Item = f64> + use<> {
    let count = fact.shape.bound().count();
    let stream = Stream::new(seed, 0, name);
    let init = init.clone();
    (0..count).map(move |i| {
        f64::from(match init {
            Init::Zeros => 0.0,
            Init::Ones => 1.0,
            Init::Constant(number) => number,
            Init::Normal(std) => std * stream.normal(0, 0, i as u32) as f32,
            Init::Uniform(most) => most * (2.0 * unit_f32(stream.bits(0, 0, i as u32)) - 1.0),
        })
    })
}

/// Writes numbers in a dtype. They come as f64, for f32 holds no integer above 2^24 for sure.
pub(crate) fn write_numbers(buffer: &mut Buffer, dtype: DType, numbers: impl Iterator<Item = f64>) {
    fn fill<T: Element>(buffer: &mut Buffer, numbers: impl Iterator<Item = f64>, to: impl Fn(f64) -> T) {
        buffer.as_mut_slice::<T>().iter_mut().zip(numbers).for_each(|(slot, x)| *slot = to(x));
    }
    match dtype {
        DType::F32 => fill(buffer, numbers, |x| x as f32),
        DType::BF16 => fill(buffer, numbers, |x| bf16::from_f32(x as f32)),
        DType::I32 => fill(buffer, numbers, |x| x as i32),
        DType::Bool => fill(buffer, numbers, |x| u8::from(x != 0.0)),
    }
}

/// Numbers as an array.
pub(crate) fn to_array<T: Copy>(dims: Dims, numbers: &[T], number: impl Fn(T) -> f64) -> Array {
    let data = numbers.iter().map(|&x| number(x)).collect();
    Array::new(&dims, data).unwrap_or_else(|| unreachable!("as many numbers as the shape says"))
}
