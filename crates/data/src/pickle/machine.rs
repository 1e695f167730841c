//! The machine that a pickle is a program for, without what makes it dangerous: it knows numbers, texts,
//! tuples, lists, dictionaries and the handful of names that tensors are written with. Values live in one
//! list and know each other by number, so that neither a deep nesting nor a cycle is a danger to who reads or
//! drops them.

use super::{AGAIN, broken};
use crate::error::shown;
use crate::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// The most values that a file may make, a hundred times those of the largest known checkpoints.
const MOST_VALUES: usize = 1 << 22;

/// The most extents of a shape, as in PyTorch.
pub(super) const MOST_AXES: usize = 64;

/// A value. What holds others is a number in one of the lists of the [`Program`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A number of more than eight bytes: only the mark of the older form has one.
    Long(Range<usize>),
    Text(Range<usize>),
    Bytes(Range<usize>),
    Tuple(usize),
    List(usize),
    Dict(usize),
    Name(Known),
    Storage(usize),
    Tensor(usize),
    /// Something that a checkpoint may mention and that holds no numbers: a dtype, a device.
    Inert,
}

/// A name that may stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Size,
    Device,
    StorageOf(StorageKind),
}

/// What a storage holds.
pub(super) type StorageKind = crate::checkpoint::DType;

/// A storage as a file speaks of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StorageClaim {
    pub kind: StorageKind,
    pub key: Range<usize>,
    /// How many elements it should have.
    pub elements: usize,
}

/// A tensor as a file speaks of it, in elements of its storage; nothing of it was compared with one yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorClaim {
    pub storage: usize,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// What a pickle made.
#[derive(Debug, Default)]
pub(super) struct Program<'a> {
    pub bytes: &'a [u8],
    /// Tuples, lists and dictionaries; of a dictionary, keys and values in turn.
    pub lists: Vec<Vec<Value>>,
    pub storages: Vec<StorageClaim>,
    pub tensors: Vec<TensorClaim>,
    pub result: Option<Value>,
    /// Where the next byte after the pickle stands.
    pub end: usize,
}

impl<'a> Program<'a> {
    /// The text of a value that is one.
    pub fn text(&self, value: &Value) -> Option<&'a str> {
        match value {
            Value::Text(range) => std::str::from_utf8(&self.bytes[range.clone()]).ok(),
            _ => None,
        }
    }

    /// The pairs of a dictionary.
    pub fn pairs(&self, dict: usize) -> impl Iterator<Item = (&Value, &Value)> {
        self.lists[dict].as_chunks::<2>().0.iter().map(|[key, value]| (key, value))
    }
}

/// Runs the pickle that begins at `at`.
pub(super) fn run<'a>(path: &Path, bytes: &'a [u8], at: usize) -> Result<Program<'a>> {
    let mut machine = Machine {
        path,
        at,
        program: Program { bytes, ..Program::default() },
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        values: 0,
    };
    while machine.program.result.is_none() {
        machine.step()?;
    }
    machine.program.end = machine.at;
    Ok(machine.program)
}

struct Machine<'a, 'p> {
    path: &'p Path,
    at: usize,
    program: Program<'a>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    values: usize,
}

impl<'a> Machine<'a, '_> {
    fn wrong(&self, what: &str) -> Error {
        broken(self.path, format!("the pickle {what} at byte {}", self.at))
    }

    /// A name that is not known: the file wants something done that no tensor needs.
    fn refused(&self, verb: &str, name: &str) -> Error {
        let advice = if name.starts_with("__torch__") {
            "it is a TorchScript program: save the state_dict of the model instead"
        } else {
            "only tensors, dictionaries and numbers are made of a pickle: save `model.state_dict()` alone, best as \
             safetensors, where you trust the file"
        };
        let what = format!("this file wants to {verb} `{}`; nothing was run", shown(name));
        Error::file(self.path, what, advice)
    }

    fn take(&mut self, count: usize) -> Result<Range<usize>> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.program.bytes.len());
        let Some(end) = end else { return Err(self.wrong("ends in the middle")) };
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    fn number<const N: usize>(&mut self) -> Result<u64> {
        let range = self.take(N)?;
        let bytes = &self.program.bytes[range];
        Ok(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn counted<const N: usize>(&mut self) -> Result<Range<usize>> {
        let count = self.number::<N>()?;
        let count = usize::try_from(count).map_err(|_| self.wrong("holds a text beyond its end"))?;
        self.take(count)
    }

    fn line(&mut self) -> Result<Range<usize>> {
        let rest = &self.program.bytes[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n');
        let Some(length) = length else { return Err(self.wrong("has a line without an end")) };
        let range = self.take(length)?;
        self.at += 1;
        Ok(range)
    }

    /// Counts what is kept: nothing that a file repeats may cost more than the limit.
    fn spend(&mut self, values: usize) -> Result<()> {
        self.values = self.values.saturating_add(values);
        if self.values > MOST_VALUES {
            let what = format!("makes more than {MOST_VALUES} values, which no checkpoint needs");
            return Err(broken(self.path, what));
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.spend(1)?;
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => Ok(self.stack.pop().unwrap_or(Value::None)),
            false => Err(self.wrong("takes a value that is not there")),
        }
    }

    fn top(&self) -> Result<&Value> {
        self.stack.last().ok_or_else(|| self.wrong("takes a value that is not there"))
    }

    /// What stands above the last mark.
    fn above_mark(&mut self) -> Result<Vec<Value>> {
        let Some(mark) = self.marks.pop() else { return Err(self.wrong("takes a mark that is not there")) };
        Ok(self.stack.split_off(mark))
    }

    fn list(&mut self, make: fn(usize) -> Value, items: Vec<Value>) -> Result<()> {
        self.program.lists.push(items);
        self.push(make(self.program.lists.len() - 1))
    }

    fn extend(&mut self, items: Vec<Value>, pairs: bool) -> Result<()> {
        let list = match *self.top()? {
            Value::List(list) if !pairs => list,
            Value::Dict(list) if pairs && items.len().is_multiple_of(2) => list,
            _ => return Err(self.wrong("adds to something that holds nothing")),
        };
        self.spend(items.len())?;
        self.program.lists[list].extend(items);
        Ok(())
    }

    fn tuple(&mut self, count: usize) -> Result<()> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.list(Value::Tuple, items)
    }

    fn remember(&mut self, place: u64) -> Result<()> {
        let place = u32::try_from(place).map_err(|_| self.wrong("remembers too much"))?;
        let value = self.top()?.clone();
        self.memo.insert(place, value);
        Ok(())
    }

    fn recall(&mut self, place: u64) -> Result<()> {
        let known = u32::try_from(place).ok().and_then(|place| self.memo.get(&place)).cloned();
        match known {
            Some(value) => self.push(value),
            None => Err(self.wrong("recalls what it never kept")),
        }
    }

    fn step(&mut self) -> Result<()> {
        let code = self.number::<1>()? as u8;
        match code {
            0x80 => match self.number::<1>()? {
                2..=5 => Ok(()),
                other => Err(self.wrong(&format!("has the protocol {other}; read are 2 to 5,"))),
            },
            0x95 => self.take(8).map(drop),
            b'.' => {
                self.program.result = Some(self.pop()?);
                Ok(())
            }
            b'(' => {
                self.marks.push(self.stack.len());
                if self.marks.len() > MOST_VALUES {
                    return Err(self.wrong("has too many marks"));
                }
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'1' => self.above_mark().map(drop),
            b'q' => self.number::<1>().and_then(|place| self.remember(place)),
            b'r' => self.number::<4>().and_then(|place| self.remember(place)),
            0x94 => self.remember(self.memo.len() as u64),
            b'h' => self.number::<1>().and_then(|place| self.recall(place)),
            b'j' => self.number::<4>().and_then(|place| self.recall(place)),
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.name(module, name)
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (module, name) {
                    (Value::Text(module), Value::Text(name)) => self.name(module, name),
                    _ => Err(self.wrong("names something by what is no text")),
                }
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.call(function, arguments)
            }
            b'b' => self.build(),
            b'Q' => {
                let id = self.pop()?;
                self.storage(id)
            }
            0x81 | 0x92 | b'i' | b'o' => Err(self.refused("make", "an object of a class")),
            0x82..=0x84 => Err(self.refused("use", "an extension registered in Python")),
            b'P' => Err(self.wrong("has a storage named by a line, as no PyTorch writes it,")),
            _ => self.plain(code),
        }
    }

    /// What makes plain values.
    fn plain(&mut self, code: u8) -> Result<()> {
        match code {
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'J' => self.number::<4>().and_then(|n| self.push(Value::Int(i64::from(n as u32 as i32)))),
            b'K' => self.number::<1>().and_then(|n| self.push(Value::Int(n as i64))),
            b'M' => self.number::<2>().and_then(|n| self.push(Value::Int(n as i64))),
            0x8a => self.counted::<1>().and_then(|range| self.long(range)),
            0x8b => self.counted::<4>().and_then(|range| self.long(range)),
            b'G' => self.number::<8>().and_then(|n| self.push(Value::Float(f64::from_bits(n.swap_bytes())))),
            b'X' | b'T' => self.counted::<4>().and_then(|range| self.push(Value::Text(range))),
            0x8c | b'U' => self.counted::<1>().and_then(|range| self.push(Value::Text(range))),
            0x8d => self.counted::<8>().and_then(|range| self.push(Value::Text(range))),
            b'C' => self.counted::<1>().and_then(|range| self.push(Value::Bytes(range))),
            b'B' => self.counted::<4>().and_then(|range| self.push(Value::Bytes(range))),
            0x8e => self.counted::<8>().and_then(|range| self.push(Value::Bytes(range))),
            b')' => self.list(Value::Tuple, Vec::new()),
            b']' => self.list(Value::List, Vec::new()),
            b'}' => self.list(Value::Dict, Vec::new()),
            0x8f => self.list(Value::List, Vec::new()),
            b't' => self.above_mark().and_then(|items| self.list(Value::Tuple, items)),
            b'l' => self.above_mark().and_then(|items| self.list(Value::List, items)),
            0x91 => self.above_mark().and_then(|items| self.list(Value::List, items)),
            b'd' => {
                let items = self.above_mark()?;
                self.list(Value::Dict, Vec::new())?;
                self.extend(items, true)
            }
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item], false)
            }
            b'e' | 0x90 => self.above_mark().and_then(|items| self.extend(items, false)),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend(vec![key, value], true)
            }
            b'u' => self.above_mark().and_then(|items| self.extend(items, true)),
            other => {
                Err(self.wrong(&format!("has the instruction {other:#04x}, which no checkpoint needs,")))
            }
        }
    }

    fn long(&mut self, range: Range<usize>) -> Result<()> {
        let bytes = &self.program.bytes[range.clone()];
        if bytes.len() > 8 {
            return self.push(Value::Long(range));
        }
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut whole = if negative { [0xff; 8] } else { [0; 8] };
        whole[..bytes.len()].copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(whole)))
    }

    fn name(&mut self, module: Range<usize>, name: Range<usize>) -> Result<()> {
        let text = |range| String::from_utf8_lossy(&self.program.bytes[range]).into_owned();
        let (module, name) = (text(module), text(name));
        match known(&module, &name) {
            Some(value) => self.push(value),
            None => Err(self.refused("run", &format!("{module}.{name}"))),
        }
    }

    fn call(&mut self, function: Value, arguments: Value) -> Result<()> {
        let (Value::Name(function), Value::Tuple(arguments)) = (function, arguments) else {
            return Err(self.wrong("calls what is no function"));
        };
        let arguments = self.short(arguments)?;
        match (function, arguments.as_slice()) {
            (Known::OrderedDict, []) => self.list(Value::Dict, Vec::new()),
            // Older files give all pairs at once, as a list of lists.
            (Known::OrderedDict, [Value::List(pairs)]) => {
                self.spend(self.program.lists[*pairs].len())?;
                let mut items = Vec::new();
                for pair in &self.program.lists[*pairs] {
                    match pair {
                        Value::List(pair) | Value::Tuple(pair) if self.program.lists[*pair].len() == 2 => {
                            items.extend_from_slice(&self.program.lists[*pair]);
                        }
                        _ => return Err(self.wrong("makes a dictionary of what are no pairs")),
                    }
                }
                self.list(Value::Dict, Vec::new())?;
                self.extend(items, true)
            }
            (Known::RebuildTensor, [storage, offset, shape, strides, ..]) => {
                let Value::Storage(storage) = *storage else {
                    return Err(self.wrong("makes a tensor of what is no storage"));
                };
                let offset = self.size(offset)?;
                let (shape, strides) = (self.sizes(shape)?, self.sizes(strides)?);
                if shape.len() != strides.len() {
                    return Err(self.wrong("makes a tensor with another number of strides than extents"));
                }
                self.spend(shape.len())?;
                self.program.tensors.push(TensorClaim { storage, offset, shape, strides });
                self.push(Value::Tensor(self.program.tensors.len() - 1))
            }
            (Known::RebuildParameter, [tensor @ Value::Tensor(_), ..]) => self.push(tensor.clone()),
            (Known::Size, [sizes @ (Value::Tuple(_) | Value::List(_))]) => self.push(sizes.clone()),
            (Known::Device, _) => self.push(Value::Inert),
            _ => Err(self.wrong("calls a function with other arguments than PyTorch gives it")),
        }
    }

    /// The items of a tuple that should have few.
    fn short(&self, tuple: usize) -> Result<Vec<Value>> {
        match &self.program.lists[tuple] {
            items if items.len() <= 16 => Ok(items.clone()),
            _ => Err(self.wrong("gives a function more arguments than any takes")),
        }
    }

    fn size(&self, value: &Value) -> Result<usize> {
        match value {
            Value::Int(size) => usize::try_from(*size).map_err(|_| self.wrong("has a negative size")),
            _ => Err(self.wrong("has a size that is no whole number")),
        }
    }

    fn sizes(&self, value: &Value) -> Result<Vec<usize>> {
        match *value {
            Value::Tuple(list) | Value::List(list) if self.program.lists[list].len() <= MOST_AXES => {
                self.program.lists[list].iter().map(|size| self.size(size)).collect()
            }
            _ => Err(self.wrong("has a shape that is none")),
        }
    }

    /// What is set on a value after it was made. A state_dict has its versions set so, which we do not need.
    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        match (self.top()?, state) {
            (Value::Dict(_), Value::Dict(_)) => Ok(()),
            (Value::Tensor(_), _) => Err(self.refused("set", "attributes of a tensor")),
            _ => Err(self.refused("set", "attributes of an object")),
        }
    }

    /// `("storage", kind, key, place, elements)`, in older files with a view behind it.
    fn storage(&mut self, id: Value) -> Result<()> {
        let Value::Tuple(id) = id else { return Err(self.wrong("names a storage by what is no tuple")) };
        let parts = self.short(id)?;
        let Some(([first, kind, key, _, elements], rest)) = parts.split_first_chunk::<5>() else {
            return Err(self.wrong("names a storage by too little"));
        };
        if self.program.text(first) != Some("storage") {
            return Err(self.wrong("has an external value that is no storage"));
        }
        if !matches!(rest, [] | [Value::None]) {
            let advice = "read it with the PyTorch that wrote it and save it again";
            let what = "has storages that are views of others, as PyTorch wrote them before version 0.4";
            return Err(Error::file(self.path, what, advice));
        }
        let (Value::Name(Known::StorageOf(kind)), Value::Text(key)) = (kind, key) else {
            return Err(self.wrong("has a storage of no known kind"));
        };
        let claim = StorageClaim { kind: *kind, key: key.clone(), elements: self.size(elements)? };
        self.program.storages.push(claim);
        self.push(Value::Storage(self.program.storages.len() - 1))
    }
}

/// The names that may stand in a file, each with what it is.
fn known(module: &str, name: &str) -> Option<Value> {
    use crate::checkpoint::DType;
    let storage = |kind| Some(Value::Name(Known::StorageOf(kind)));
    match (module, name) {
        ("collections", "OrderedDict") => Some(Value::Name(Known::OrderedDict)),
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Some(Value::Name(Known::RebuildTensor)),
        ("torch._utils", "_rebuild_parameter") => Some(Value::Name(Known::RebuildParameter)),
        ("torch", "Size") => Some(Value::Name(Known::Size)),
        ("torch", "device") => Some(Value::Name(Known::Device)),
        ("torch", "DoubleStorage") => storage(DType::F64),
        ("torch", "FloatStorage") => storage(DType::F32),
        ("torch", "HalfStorage") => storage(DType::F16),
        ("torch", "BFloat16Storage") => storage(DType::BF16),
        ("torch", "LongStorage") => storage(DType::I64),
        ("torch", "IntStorage") => storage(DType::I32),
        ("torch", "ShortStorage") => storage(DType::I16),
        ("torch", "CharStorage") => storage(DType::I8),
        ("torch", "ByteStorage") => storage(DType::U8),
        ("torch", "BoolStorage") => storage(DType::Bool),
        ("torch", "float64" | "float32" | "float16" | "bfloat16" | "int64" | "int32" | "bool") => {
            Some(Value::Inert)
        }
        _ => None,
    }
}

/// The pickle that ends a file must be its last word.
pub(super) fn whole<'a>(path: &Path, bytes: &'a [u8]) -> Result<Program<'a>> {
    let program = run(path, bytes, 0)?;
    match bytes.len() - program.end {
        0 => Ok(program),
        more => Err(Error::file(path, format!("has {more} bytes after its pickle"), AGAIN)),
    }
}
