//! What outlives a run: parameters, moments, caches, running statistics, by name, shared by several programs.
//! Every entry carries a version; packed copies of a weight are caches that know the version they were made
//! from, so an optimizer, an import or a patch can never leave a stale copy behind.

use crate::feed::check_numbers;
use crate::{Error, Result};
use half::bf16;
use regard_device::random::unit_f32;
use regard_device::{Buffer, Element, Level, Matrix, Pool, Stream, pack_b, packed_b_bytes};
use regard_graph::{DType, Dims, Fact, Init, Shape, Stored};
use regard_ops::{Array, PackLayout, Weights};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// One entry of the store.
struct Entry {
    name: String,
    fact: Fact,
    buffer: Buffer,
    version: u64,
}

/// A packed copy of an entry.
struct PackedCopy {
    entry: usize,
    layout: PackLayout,
    rows: usize,
    columns: usize,
    buffer: Buffer,
    made_from: Option<u64>,
}

/// Parameters and states by name.
pub struct Store {
    id: u64,
    seed: u64,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    packs: Vec<PackedCopy>,
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
            packs: Vec::new(),
            weights: Weights::Full,
        }
    }

    /// Chooses how programs made from now on hold the weights of their products: whatever the model, their graphs are
    /// rewritten as [`with_weights`](regard_ops::with_weights) says. The entries stay f32.
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
        Ok(self.entries[self.find(name)?].version)
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.buffer.len()).sum()
    }

    /// Bytes of all packed copies.
    pub fn packed_bytes(&self) -> usize {
        self.packs.iter().map(|pack| pack.buffer.len()).sum()
    }

    /// The numbers of an f32 entry.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        let entry = &self.entries[self.find(name)?];
        expect_dtype(name, entry.fact.dtype, DType::F32)?;
        Ok(&entry.buffer.as_slice::<f32>()[..entry.fact.shape.bound().count()])
    }

    /// The numbers of an entry of any dtype.
    pub fn array(&self, name: &str) -> Result<Array> {
        let entry = &self.entries[self.find(name)?];
        Ok(read_numbers(&entry.buffer, 0, entry.fact.shape.bound(), entry.fact.dtype))
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
        entry.buffer.as_mut_slice::<f32>()[..count].copy_from_slice(numbers);
        entry.version += 1;
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
        write_numbers(&mut entry.buffer, entry.fact.dtype, array.data().iter().copied());
        entry.version += 1;
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| regard_graph::Error::unknown("parameter or state", name, self.names()).into())
    }

    /// Makes an f32 entry before any program asks for it, as a checkpoint on its way into a store does. One that is
    /// there already stays as it is, if its shape is the same.
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
        let shape = shape.into();
        if shape.iter().any(|dim| dim.fixed().is_none()) {
            return Err(Error::OpenEntry { name: name.into(), got: shape.to_string() });
        }
        self.entry(name, &Fact::f32(shape), &init).map(|_| ())
    }

    /// Finds or makes the entry that a graph declares.
    pub(crate) fn declare_stored(&mut self, stored: &Stored) -> Result<usize> {
        self.entry(&stored.name, &stored.fact, &stored.init)
    }

    fn entry(&mut self, name: &str, fact: &Fact, init: &Init) -> Result<usize> {
        if let Some(&index) = self.by_name.get(name) {
            let entry = &self.entries[index];
            if entry.fact != *fact {
                return Err(Error::StoreFact {
                    name: name.into(),
                    got: entry.fact.to_string(),
                    expected: fact.to_string(),
                });
            }
            return Ok(index);
        }
        let mut buffer = Buffer::zeroed(fact.bytes().max(1))?;
        if *init != Init::Zeros {
            write_numbers(&mut buffer, fact.dtype, initial(name, fact, init, self.seed));
        }
        let index = self.entries.len();
        self.entries.push(Entry { name: name.into(), fact: fact.clone(), buffer, version: 0 });
        self.by_name.insert(name.into(), index);
        Ok(index)
    }

    /// Finds or makes room for a packed copy; it is filled before its first use.
    pub(crate) fn declare_pack(&mut self, entry: usize, layout: PackLayout) -> Result<usize> {
        if let Some(known) = self.packs.iter().position(|pack| pack.entry == entry && pack.layout == layout) {
            return Ok(known);
        }
        let dims = self.entries[entry].fact.shape.bound();
        let (rows, columns) = (dims.rows(), dims.last_size());
        let (k, n) = if layout.transposed { (columns, rows) } else { (rows, columns) };
        let buffer = Buffer::zeroed(packed_b_bytes(k, n, layout.storage).max(1))?;
        self.packs.push(PackedCopy { entry, layout, rows, columns, buffer, made_from: None });
        Ok(self.packs.len() - 1)
    }

    /// Brings a packed copy up to date with its entry.
    pub(crate) fn refresh_pack(&mut self, pack: usize, pool: &Pool, level: Level) {
        let pack = &mut self.packs[pack];
        let entry = &self.entries[pack.entry];
        if pack.made_from == Some(entry.version) {
            return;
        }
        let (rows, columns) = (pack.rows, pack.columns);
        let numbers = &entry.buffer.as_slice::<f32>()[..rows * columns];
        let out = pack.buffer.as_mut_slice::<u8>();
        // The product contracts the matrix's rows, or its columns when transposed.
        if pack.layout.transposed {
            pack_b(
                pool,
                level,
                Matrix::transposed(numbers, columns),
                columns,
                rows,
                pack.layout.storage,
                out,
            );
        } else {
            pack_b(pool, level, Matrix::rows(numbers, columns), rows, columns, pack.layout.storage, out);
        }
        pack.made_from = Some(entry.version);
    }

    pub(crate) fn pack_bytes(&self, pack: usize) -> &[u8] {
        self.packs[pack].buffer.as_slice::<u8>()
    }

    pub(crate) fn entry_pointer(&mut self, entry: usize) -> *mut u8 {
        self.entries[entry].buffer.as_mut_ptr()
    }

    pub(crate) fn changed(&mut self, entry: usize) {
        self.entries[entry].version += 1;
    }
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

/// Reads numbers of a dtype that begin at a byte offset, as an array.
pub(crate) fn read_numbers(buffer: &Buffer, offset: usize, dims: Dims, dtype: DType) -> Array {
    let start = offset / dtype.bytes();
    let range = start..start + dims.count();
    let data: Vec<f64> = match dtype {
        DType::F32 => buffer.as_slice::<f32>()[range].iter().map(|&x| x as f64).collect(),
        DType::BF16 => buffer.as_slice::<bf16>()[range].iter().map(|x| x.to_f64()).collect(),
        DType::I32 => buffer.as_slice::<i32>()[range].iter().map(|&x| x as f64).collect(),
        DType::Bool => buffer.as_slice::<u8>()[range].iter().map(|&x| x as f64).collect(),
    };
    Array::new(&dims, data).unwrap_or_else(|| unreachable!("as many numbers as the shape says"))
}
