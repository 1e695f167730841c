//! A product of matrices as we say it, row by row, and the name of an algorithm for it. No card is needed for
//! either.

use super::CudaError;
use std::fmt;
use std::str::FromStr;

/// What a matrix is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// 32 bits.
    F32,
    /// bfloat16.
    Bf16,
}

impl Number {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Number::F32 => 4,
            Number::Bf16 => 2,
        }
    }

    /// Its type in `prelude.cuh`.
    pub fn name(self) -> &'static str {
        match self {
            Number::F32 => "f32",
            Number::Bf16 => "bf16",
        }
    }
}

/// How numbers are multiplied; sums are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// As they are: true f32 for f32, exact products of bf16.
    Exact,
    /// f32 rounded to 10 bits of mantissa first, which tensor cores take.
    Tf32,
}

/// A matrix in memory: rows one after the other, `stride` numbers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// What it is made of.
    pub number: Number,
    /// Whether it lies there transposed: its columns are the rows of the memory.
    pub transposed: bool,
    /// Numbers from one row of the memory to the next.
    pub stride: usize,
    /// Numbers from one matrix of a batch to the next; 0 for one that they share.
    pub batch_stride: usize,
}

/// What happens to a product before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// A bias for each column is added.
    Bias,
    /// ReLU, after a bias where there is one.
    Relu {
        /// With a bias for each column.
        bias: bool,
    },
    /// GELU by its tanh formula, after a bias where there is one; `keep` writes what stood before it to
    /// `aux`.
    Gelu {
        /// With a bias for each column.
        bias: bool,
        /// With `aux` as a result.
        keep: bool,
    },
    /// The product times GELU's derivative at `aux`; with the sum of each column of the result, where asked.
    GeluBackward {
        /// With the sums of the columns in `bias`.
        sums: bool,
    },
    /// The product as it is, and in `bias` the sums of A's rows over K: the bias gradient beside a weight
    /// gradient.
    SumsOfA,
    /// The product as it is, and in `bias` the sums of B's columns over K.
    SumsOfB,
}

impl Epilogue {
    /// Whether `bias` is read or written.
    pub fn has_bias(self) -> bool {
        !matches!(
            self,
            Epilogue::None
                | Epilogue::Relu { bias: false }
                | Epilogue::Gelu { bias: false, .. }
                | Epilogue::GeluBackward { sums: false }
        )
    }

    /// Whether `aux` is read or written.
    pub fn has_aux(self) -> bool {
        matches!(self, Epilogue::Gelu { keep: true, .. } | Epilogue::GeluBackward { .. })
    }
}

/// D = epilogue(alpha A B + beta C), with A of M x K, B of K x N, C and D of M x N, or a batch of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of D.
    pub m: usize,
    /// Columns of D.
    pub n: usize,
    /// What is summed over.
    pub k: usize,
    /// The left operand.
    pub a: Layout,
    /// The right operand.
    pub b: Layout,
    /// The result, and C where there is one: never transposed.
    pub d: Layout,
    /// How many products of the same sizes.
    pub batch: usize,
    /// How numbers are multiplied.
    pub compute: Compute,
    /// What happens before D is written.
    pub epilogue: Epilogue,
    /// What the bias, or the sums in its place, are made of.
    pub bias: Number,
    /// What `aux` is made of; it lies as D does.
    pub aux: Number,
    /// The bytes to which A, B, C and D are aligned, a power of two; algorithms may rely on it.
    pub alignment: u32,
}

impl Product {
    /// One dense product of matrices of these numbers, without an epilogue: A of M x K, B of K x N.
    pub fn new(m: usize, n: usize, k: usize, operands: Number, result: Number) -> Product {
        let dense = |number, stride| Layout { number, transposed: false, stride, batch_stride: 0 };
        Product {
            m,
            n,
            k,
            a: dense(operands, k),
            b: dense(operands, n),
            d: dense(result, n),
            batch: 1,
            compute: Compute::Exact,
            epilogue: Epilogue::None,
            bias: result,
            aux: result,
            alignment: 256,
        }
    }

    /// With A lying as K x M.
    pub fn transposed_a(mut self) -> Product {
        self.a = Layout { transposed: true, stride: self.m, ..self.a };
        self
    }

    /// With B lying as N x K, as weights do.
    pub fn transposed_b(mut self) -> Product {
        self.b = Layout { transposed: true, stride: self.k, ..self.b };
        self
    }

    /// With this epilogue.
    pub fn with(mut self, epilogue: Epilogue) -> Product {
        self.epilogue = epilogue;
        self
    }

    /// With this way of multiplying.
    pub fn by(mut self, compute: Compute) -> Product {
        self.compute = compute;
        self
    }

    /// How many numbers `bias` holds.
    pub fn bias_len(&self) -> usize {
        if self.epilogue == Epilogue::SumsOfA { self.m } else { self.n }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let matrix =
            |x: &Layout| format!("{}{}", x.number.name(), if x.transposed { " transposed" } else { "" });
        write!(f, "{} x {} over {} of {} and {}", self.m, self.n, self.k, matrix(&self.a), matrix(&self.b))?;
        write!(f, " to {} ({:?}, {:?}", self.d.number.name(), self.compute, self.epilogue)?;
        if self.epilogue.has_bias() {
            write!(f, ", bias {}", self.bias.name())?;
        }
        if self.batch > 1 {
            write!(f, ", {} of them", self.batch)?;
        }
        write!(f, ")")
    }
}

/// An algorithm of cuBLASLt, as the library wrote it: valid for the same library on the same kind of card. It
/// can be written as text and read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm(pub(super) [u64; 8]);

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

impl FromStr for Algorithm {
    type Err = CudaError;

    fn from_str(text: &str) -> Result<Algorithm, CudaError> {
        let wrong = || CudaError::NotAnAlgorithm { text: text.into() };
        if text.len() != 128 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut words = [0; 8];
        for (word, digits) in words.iter_mut().zip(text.as_bytes().chunks(16)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *word = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Algorithm(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_written_and_read_again() {
        let algorithm = Algorithm([0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 4, 5, 6, 7]);
        let text = algorithm.to_string();
        assert_eq!(text.len(), 128);
        assert_eq!(text.parse::<Algorithm>().unwrap(), algorithm);
        for wrong in ["", "0", &text[1..], &text.replace('0', "g"), &"+".repeat(128), &"é".repeat(64)] {
            let error = wrong.parse::<Algorithm>().unwrap_err().to_string();
            assert!(error.contains("is no algorithm of cuBLASLt: 128 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn a_product_says_what_it_is() {
        let product = Product::new(2, 3, 4, Number::Bf16, Number::F32).transposed_b();
        assert_eq!(product.b.stride, 4);
        assert_eq!(
            product.with(Epilogue::Gelu { bias: true, keep: true }).to_string(),
            "2 x 3 over 4 of bf16 and bf16 transposed to f32 (Exact, Gelu { bias: true, keep: true }, bias f32)"
        );
        assert_eq!(
            (product.with(Epilogue::SumsOfA).bias_len(), product.with(Epilogue::Bias).bias_len()),
            (2, 3)
        );
        assert!(!product.with(Epilogue::Relu { bias: false }).epilogue.has_bias());
    }
}
