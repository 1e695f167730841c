//! Compiled kernels on a card, and their launch.

use super::error::{CudaError, check};
use super::{Arguments, Card, Stream};
use cudarc::driver::sys::{self as cu, CUfunction_attribute as Attribute};
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// The shape of a launch: blocks, threads in each, and bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks along x, y, z.
    pub blocks: [u32; 3],
    /// Threads of a block along x, y, z.
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared: u32,
}

impl Grid {
    /// A grid along x.
    pub fn line(blocks: u32, threads: u32) -> Grid {
        Grid { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }
}

/// A cubin that is loaded on a card. Unloaded on drop.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    card: Card,
    handle: cu::CUmodule,
    name: String,
}

// SAFETY: a module never changes once it is loaded, and the driver allows it to be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Module {
    /// Loads a cubin; the name is for errors.
    pub fn load(card: &Card, name: &str, cubin: &[u8]) -> Result<Module, CudaError> {
        // The driver reads the image from memory as it is; words make it aligned as in a file.
        let mut image = vec![0u64; cubin.len().div_ceil(8)];
        for (word, bytes) in image.iter_mut().zip(cubin.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        card.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; the image is a cubin that lives through the call, and one handle is
        // written.
        let answer = unsafe { cu::cuModuleLoadData(&mut handle, image.as_ptr().cast()) };
        check(answer, "loading kernels")?;
        Ok(Module { inner: Arc::new(Inner { card: card.clone(), handle, name: name.into() }) })
    }

    /// A kernel by its name.
    pub fn function(&self, name: &str) -> Result<Function, CudaError> {
        let Inner { card, handle, name: module } = &*self.inner;
        let missing = || CudaError::NoKernel { module: module.clone(), kernel: name.into() };
        let text = CString::new(name).map_err(|_| missing())?;
        card.bind()?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name is a C string, one handle is written.
        let answer = unsafe { cu::cuModuleGetFunction(&mut function, *handle, text.as_ptr()) };
        match check(answer, "looking up a kernel") {
            Err(CudaError::Refused { code: 500, .. }) => return Err(missing()),
            answer => answer?,
        }
        let mut layout = Vec::new();
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is of a loaded module; two numbers are written until the index is past the
        // last.
        while unsafe { cu::cuFuncGetParamInfo(function, layout.len(), &mut offset, &mut size) } as u32 == 0 {
            layout.push((offset, size));
        }
        Ok(Function { module: self.clone(), handle: function, name: name.into(), layout })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Kernels of the module may still run. After a lost card the calls fail, and there is nothing left to
        // free.
        if self.card.synchronize().is_ok() {
            // SAFETY: loaded once in `load`, unloaded once here; its functions hold it alive and its kernels
            // have ended.
            unsafe { cu::cuModuleUnload(self.handle) };
        }
    }
}

/// A kernel on a card. It keeps its module loaded.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    handle: cu::CUfunction,
    name: String,
    layout: Vec<(usize, usize)>,
}

// SAFETY: a function is a part of its module, which it keeps alive and which may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above; the one call that changes it takes `&mut self`.
unsafe impl Sync for Function {}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Registers of a thread.
    pub fn registers(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Bytes of local memory of a thread: what did not fit into registers.
    pub fn local_bytes(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    /// Lets launches ask for so much dynamic shared memory, which past 48 KB must be said. What was allowed
    /// before stays so.
    pub fn allow_shared(&mut self, bytes: u32) -> Result<(), CudaError> {
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if bytes <= self.attribute(attribute)? {
            return Ok(());
        }
        self.module.inner.card.bind()?;
        // SAFETY: the function is of a loaded module.
        let answer = unsafe { cu::cuFuncSetAttribute(self.handle, attribute, bytes as i32) };
        check(answer, "asking for shared memory")
    }

    /// Puts a launch on the stream. Panics when the arguments are not laid out as the kernel's are: their
    /// number, places and sizes are compared, their types are not known.
    ///
    /// # Safety
    /// With this grid and these arguments the kernel touches only memory that is valid until the stream has
    /// passed it.
    pub unsafe fn launch(&self, stream: &Stream, grid: Grid, arguments: &Arguments) -> Result<(), CudaError> {
        assert_eq!(arguments.layout(), self.layout, "the arguments of `{}` (offset, bytes)", self.name);
        stream.card().bind()?;
        let mut bytes = arguments.bytes().len();
        // The driver's way to take all arguments as one block: a list of keys and pointers, ended by a zero.
        const BUFFER: usize = 1;
        const SIZE: usize = 2;
        let mut extra: [*mut c_void; 5] = [
            BUFFER as *mut c_void,
            arguments.bytes().as_ptr().cast_mut().cast(),
            SIZE as *mut c_void,
            (&raw mut bytes).cast(),
            std::ptr::null_mut(),
        ];
        let Grid { blocks: [bx, by, bz], threads: [tx, ty, tz], shared } = grid;
        // SAFETY: the driver copies the arguments, which have the kernel's layout, before the call returns;
        // what the kernel touches is the caller's promise.
        let answer = unsafe {
            cu::cuLaunchKernel(
                self.handle,
                bx,
                by,
                bz,
                tx,
                ty,
                tz,
                shared,
                stream.handle(),
                std::ptr::null_mut(),
                extra.as_mut_ptr(),
            )
        };
        check(answer, "launching a kernel")
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32, CudaError> {
        self.module.inner.card.bind()?;
        let mut value = 0;
        // SAFETY: the function is of a loaded module; one number is written.
        let answer = unsafe { cu::cuFuncGetAttribute(&mut value, attribute, self.handle) };
        check(answer, "asking what a kernel needs")?;
        Ok(value as u32)
    }
}
