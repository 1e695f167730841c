//! Products of matrices by cuBLASLt. Algorithms come from the library's heuristic or from a table, and are
//! never timed: the same algorithm on the same sizes gives the same bits.
//!
//! The library thinks in columns: a matrix that lies row by row is for it the transposed one. So D = A B is
//! asked of it as Dᵀ = Bᵀ Aᵀ: its first operand is our B, its rows are our columns, and its bias, one for
//! each row, is one for each of our columns.

use super::error::CudaError;
use super::product::{Algorithm, Compute, Epilogue, Layout, Number, Product};
use super::{Address, Card, Region, Stream, libraries};
use cudarc::cublaslt::sys::{
    self as lt, cublasLtMatmulDescAttributes_t as Setting,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayoutAttribute_t as Shape,
};
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// Stands for the address of a bias or of `aux` before there is one: only its alignment is looked at, and 0
/// would mean that there is none.
const SOMEWHERE: u64 = 256;

/// The library, opened on a card.
#[derive(Clone, Debug)]
pub struct Products {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    card: Card,
    handle: lt::cublasLtHandle_t,
}

// SAFETY: the library documents its handle as usable from several threads at once.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// An algorithm that the heuristic offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The workspace that it needs, in bytes.
    pub workspace: usize,
    /// How many times it fills the card.
    pub waves: f32,
}

/// Where the operands of a product are. Those that it does not have are left at `Address(0)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operands {
    /// The left operand.
    pub a: Address,
    /// The right operand.
    pub b: Address,
    /// What `beta` is for; with `beta` 0 it is not read.
    pub c: Address,
    /// The result.
    pub d: Address,
    /// The bias, or the sums in its place.
    pub bias: Address,
    /// What stood before GELU.
    pub aux: Address,
    /// Working memory, at least what the choice asks for.
    pub workspace: Region,
}

impl Products {
    /// Opens the library on a card.
    pub fn new(card: &Card) -> Result<Products, CudaError> {
        libraries::cublaslt()?;
        card.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is loaded and a context is current; one handle is written, freed in `drop`.
        check(unsafe { lt::cublasLtCreate(&mut handle) }, "opening cuBLASLt")?;
        Ok(Products { inner: Arc::new(Inner { card: card.clone(), handle }) })
    }

    /// The algorithms that the heuristic offers with at most so much workspace, the best first, at most
    /// `most` of them. None at all is an error that names the product.
    pub fn choices(
        &self,
        product: &Product,
        workspace: usize,
        most: usize,
    ) -> Result<Vec<Choice>, CudaError> {
        self.inner.card.bind()?;
        let described = Described::new(product)?;
        let preference = Settings::new(workspace, product.alignment)?;
        // SAFETY: plain numbers, for which zeros are a value.
        let mut found: Vec<lt::cublasLtMatmulHeuristicResult_t> =
            vec![unsafe { std::mem::zeroed() }; most.max(1)];
        let mut count = 0;
        // SAFETY: every handle is alive, the list has room for as many as are asked for.
        let answer = unsafe {
            lt::cublasLtMatmulAlgoGetHeuristic(
                self.inner.handle,
                described.operation,
                described.b,
                described.a,
                described.d,
                described.d,
                preference.0,
                found.len() as i32,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        const NOT_SUPPORTED: u32 = 15;
        if answer as u32 != NOT_SUPPORTED {
            check(answer, "choosing an algorithm").map_err(|error| error.about(product))?;
        }
        found.truncate(count as usize);
        let choices: Vec<Choice> = found.iter().filter(|one| one.state as u32 == 0).map(choice).collect();
        if choices.is_empty() {
            return Err(CudaError::NoAlgorithm { product: product.to_string() });
        }
        Ok(choices)
    }

    /// Makes a product ready to run with an algorithm from a table or from [`choices`](Products::choices).
    pub fn plan(&self, product: &Product, algorithm: Algorithm) -> Result<Planned, CudaError> {
        self.inner.card.bind()?;
        let described = Described::new(product)?;
        let raw = lt::cublasLtMatmulAlgo_t { data: algorithm.0 };
        // SAFETY: plain numbers, for which zeros are a value.
        let mut result: lt::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        // SAFETY: every handle is alive; the library checks the words of the algorithm and writes what it
        // needs.
        let answer = unsafe {
            lt::cublasLtMatmulAlgoCheck(
                self.inner.handle,
                described.operation,
                described.b,
                described.a,
                described.d,
                described.d,
                &raw,
                &mut result,
            )
        };
        check(answer, "checking an algorithm")?;
        Ok(Planned {
            products: self.clone(),
            product: *product,
            described,
            algorithm: raw,
            workspace: result.workspaceSize,
        })
    }

    /// Makes a product ready with the heuristic's first choice.
    pub fn plan_first(&self, product: &Product, workspace: usize) -> Result<Planned, CudaError> {
        self.plan(product, self.choices(product, workspace, 1)?[0].algorithm)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: made in `new` and freed only here.
            unsafe { lt::cublasLtDestroy(self.handle) };
        }
    }
}

fn choice(found: &lt::cublasLtMatmulHeuristicResult_t) -> Choice {
    Choice { algorithm: Algorithm(found.algo.data), workspace: found.workspaceSize, waves: found.wavesCount }
}

/// A product that is ready to run. Freed on drop.
#[derive(Debug)]
pub struct Planned {
    products: Products,
    product: Product,
    described: Described,
    algorithm: lt::cublasLtMatmulAlgo_t,
    workspace: usize,
}

// SAFETY: it owns its descriptions alone; running it takes `&mut self`.
unsafe impl Send for Planned {}

impl Planned {
    /// What it computes.
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// With which algorithm.
    pub fn algorithm(&self) -> Algorithm {
        Algorithm(self.algorithm.data)
    }

    /// The workspace that it needs, in bytes.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Puts D = epilogue(alpha A B + beta C) on the stream. Panics when the workspace is too small, or an
    /// operand is missing or not aligned as the product says (bias and `aux`: to 16 bytes).
    ///
    /// # Safety
    /// Operands and workspace are valid memory of the product's sizes until the stream has passed; nothing
    /// else uses the workspace meanwhile.
    pub unsafe fn run(
        &mut self,
        stream: &Stream,
        alpha: f32,
        beta: f32,
        operands: &Operands,
    ) -> Result<(), CudaError> {
        let Operands { a, b, c, d, bias, aux, workspace } = *operands;
        let Product { epilogue, alignment, .. } = self.product;
        let c = if beta == 0.0 { d } else { c };
        assert!(
            workspace.bytes >= self.workspace,
            "{} bytes of workspace of {}",
            workspace.bytes,
            self.workspace
        );
        assert!(!epilogue.has_bias() || bias != Address(0), "{epilogue:?} without a bias");
        assert!(!epilogue.has_aux() || aux != Address(0), "{epilogue:?} without aux");
        let aligned = [a, b, c, d].iter().all(|at| at.0 != 0 && at.0 % u64::from(alignment) == 0);
        assert!(aligned && [bias, aux].iter().all(|at| at.0 % 16 == 0), "operands at {operands:x?}");
        stream.card().bind()?;
        if epilogue.has_bias() {
            self.described.set(Setting::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.0)?;
        }
        if epilogue.has_aux() {
            self.described.set(Setting::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.0)?;
        }
        let at = |address: Address| address.0 as *mut c_void;
        // SAFETY: every handle is alive and the scales live through the call; the rest is the caller's
        // promise.
        let answer = unsafe {
            lt::cublasLtMatmul(
                self.products.inner.handle,
                self.described.operation,
                (&raw const alpha).cast(),
                at(b),
                self.described.b,
                at(a),
                self.described.a,
                (&raw const beta).cast(),
                at(c),
                self.described.d,
                at(d),
                self.described.d,
                &self.algorithm,
                at(workspace.start),
                workspace.bytes,
                stream.handle().cast(),
            )
        };
        check(answer, "multiplying").map_err(|error| error.about(&self.product))
    }
}

/// A product in the library's words. Freed on drop.
#[derive(Debug)]
struct Described {
    operation: lt::cublasLtMatmulDesc_t,
    a: lt::cublasLtMatrixLayout_t,
    b: lt::cublasLtMatrixLayout_t,
    d: lt::cublasLtMatrixLayout_t,
}

impl Described {
    fn new(product: &Product) -> Result<Described, CudaError> {
        assert!(!product.d.transposed, "a transposed result");
        let null = std::ptr::null_mut;
        // Made step by step, so that what is there is freed when a later step fails.
        let mut made = Described { operation: std::ptr::null_mut(), a: null(), b: null(), d: null() };
        let compute = match product.compute {
            Compute::Exact => lt::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Compute::Tf32 => lt::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        };
        let scale = lt::cudaDataType_t::CUDA_R_32F;
        // SAFETY: one handle is written.
        let answer = unsafe { lt::cublasLtMatmulDescCreate(&mut made.operation, compute, scale) };
        check(answer, "describing a product")?;
        // Our B is the library's first operand. Lying row by row it is transposed already, so a second turn
        // undoes it.
        made.set(Setting::CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed as i32)?;
        made.set(Setting::CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed as i32)?;
        made.set(Setting::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(product.epilogue) as u32)?;
        // Bias and `aux` are of D's numbers unless the library is told otherwise.
        if product.epilogue.has_bias() {
            if product.bias != product.d.number {
                made.set(Setting::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, number(product.bias) as u32)?;
            }
            made.set(Setting::CUBLASLT_MATMUL_DESC_BIAS_POINTER, SOMEWHERE)?;
        }
        if product.epilogue.has_aux() {
            if product.aux != product.d.number {
                made.set(Setting::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, number(product.aux) as u32)?;
            }
            made.set(Setting::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, SOMEWHERE)?;
            made.set(Setting::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.d.stride as i64)?;
            if product.batch > 1 {
                let stride = product.d.batch_stride as i64;
                made.set(Setting::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, stride)?;
            }
        }
        let Product { m, n, k, batch, .. } = *product;
        made.a = matrix(&product.a, m, k, batch)?;
        made.b = matrix(&product.b, k, n, batch)?;
        made.d = matrix(&product.d, m, n, batch)?;
        Ok(made)
    }

    fn set<T: Copy>(&mut self, setting: Setting, value: T) -> Result<(), CudaError> {
        let at = (&raw const value).cast();
        // SAFETY: the description is alive, and the library copies so many bytes or refuses the size.
        let answer =
            unsafe { lt::cublasLtMatmulDescSetAttribute(self.operation, setting, at, size_of::<T>()) };
        check(answer, "describing a product")
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        for layout in [self.a, self.b, self.d] {
            if !layout.is_null() {
                // SAFETY: made in `matrix` and freed only here.
                unsafe { lt::cublasLtMatrixLayoutDestroy(layout) };
            }
        }
        if !self.operation.is_null() {
            // SAFETY: made in `new` and freed only here.
            unsafe { lt::cublasLtMatmulDescDestroy(self.operation) };
        }
    }
}

/// A matrix of `rows` x `columns` in the library's words: the rows of the memory are its columns.
fn matrix(
    layout: &Layout,
    rows: usize,
    columns: usize,
    batch: usize,
) -> Result<lt::cublasLtMatrixLayout_t, CudaError> {
    let (in_memory, length) = if layout.transposed { (columns, rows) } else { (rows, columns) };
    assert!(layout.stride >= length, "rows of {length} that lie {} apart", layout.stride);
    let mut handle = std::ptr::null_mut();
    // SAFETY: one handle is written.
    let answer = unsafe {
        lt::cublasLtMatrixLayoutCreate(
            &mut handle,
            number(layout.number),
            length as u64,
            in_memory as u64,
            layout.stride as i64,
        )
    };
    check(answer, "describing a matrix")?;
    if batch > 1 {
        let set = |shape: Shape, value: *const c_void, bytes| {
            // SAFETY: the layout is alive, and the library copies so many bytes or refuses the size.
            check(
                unsafe { lt::cublasLtMatrixLayoutSetAttribute(handle, shape, value, bytes) },
                "describing a batch",
            )
        };
        let (count, stride) = (batch as i32, layout.batch_stride as i64);
        let set =
            set(Shape::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (&raw const count).cast(), 4).and_then(|()| {
                set(Shape::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, (&raw const stride).cast(), 8)
            });
        if let Err(error) = set {
            // SAFETY: made above, and nobody else has it.
            unsafe { lt::cublasLtMatrixLayoutDestroy(handle) };
            return Err(error);
        }
    }
    Ok(handle)
}

/// What the heuristic may use. Freed on drop.
struct Settings(lt::cublasLtMatmulPreference_t);

impl Settings {
    fn new(workspace: usize, alignment: u32) -> Result<Settings, CudaError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: one handle is written.
        check(unsafe { lt::cublasLtMatmulPreferenceCreate(&mut handle) }, "describing a preference")?;
        let settings = Settings(handle);
        settings.set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace as u64)?;
        for operand in [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            settings.set(operand, alignment)?;
        }
        Ok(settings)
    }

    fn set<T: Copy>(&self, preference: Preference, value: T) -> Result<(), CudaError> {
        let at = (&raw const value).cast();
        // SAFETY: the preference is alive, and the library copies so many bytes or refuses the size.
        let answer =
            unsafe { lt::cublasLtMatmulPreferenceSetAttribute(self.0, preference, at, size_of::<T>()) };
        check(answer, "describing a preference")
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // SAFETY: made in `new` and freed only here.
        unsafe { lt::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}

fn number(number: Number) -> lt::cudaDataType_t {
    match number {
        Number::F32 => lt::cudaDataType_t::CUDA_R_32F,
        Number::Bf16 => lt::cudaDataType_t::CUDA_R_16BF,
    }
}

fn epilogue(epilogue: Epilogue) -> lt::cublasLtEpilogue_t {
    use lt::cublasLtEpilogue_t::*;
    match epilogue {
        Epilogue::None => CUBLASLT_EPILOGUE_DEFAULT,
        Epilogue::Bias => CUBLASLT_EPILOGUE_BIAS,
        Epilogue::Relu { bias: false } => CUBLASLT_EPILOGUE_RELU,
        Epilogue::Relu { bias: true } => CUBLASLT_EPILOGUE_RELU_BIAS,
        Epilogue::Gelu { bias: false, keep: false } => CUBLASLT_EPILOGUE_GELU,
        Epilogue::Gelu { bias: true, keep: false } => CUBLASLT_EPILOGUE_GELU_BIAS,
        Epilogue::Gelu { bias: false, keep: true } => CUBLASLT_EPILOGUE_GELU_AUX,
        Epilogue::Gelu { bias: true, keep: true } => CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        Epilogue::GeluBackward { sums: false } => CUBLASLT_EPILOGUE_DGELU,
        Epilogue::GeluBackward { sums: true } => CUBLASLT_EPILOGUE_DGELU_BGRAD,
        // Our A is the library's second operand, and our B its first.
        Epilogue::SumsOfA => CUBLASLT_EPILOGUE_BGRADB,
        Epilogue::SumsOfB => CUBLASLT_EPILOGUE_BGRADA,
    }
}

/// The library's answer as a result.
fn check(status: lt::cublasStatus_t, doing: &'static str) -> Result<(), CudaError> {
    if status as u32 == 0 {
        return Ok(());
    }
    // SAFETY: the library is loaded; the name of any status is a static C string.
    let name = unsafe { CStr::from_ptr(lt::cublasLtGetStatusName(status)) };
    Err(CudaError::Product { doing, status: status as u32, name: name.to_string_lossy().into_owned() })
}
