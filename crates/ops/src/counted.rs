//! Numbers that count what is done to them. The functions of the specification are written once, on these: so
//! they give a value and, beside it, how many operations it took, independently of what the cost reader
//! claims.

use std::cell::Cell;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// An f64 that counts its arithmetic: an operation, a root, an exponential, an error function, a comparison
/// are one each. Signs are free, and so is what happens among constants.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'c> {
    number: f64,
    operations: &'c Cell<usize>,
}

/// The value of an expression in one number, and how many operations it took.
pub fn counted(x: f64, expression: impl for<'c> FnOnce(Counted<'c>) -> Counted<'c>) -> (f64, usize) {
    let operations = Cell::new(0);
    let result = expression(Counted { number: x, operations: &operations });
    (result.number, operations.get())
}

impl Counted<'_> {
    /// The number itself, as a constant: what is done to it counts nothing.
    pub fn number(self) -> f64 {
        self.number
    }

    /// Another number that counts in the same place.
    pub fn with_number(self, number: f64) -> Self {
        Counted { number, ..self }
    }

    /// A function of it, as one operation.
    pub fn through(self, function: impl FnOnce(f64) -> f64) -> Self {
        self.made(function(self.number))
    }

    /// −1, 0 or 1, or 0 for NaN: one comparison.
    pub fn sign(self) -> i32 {
        self.operations.update(|count| count + 1);
        i32::from(self.number > 0.0) - i32::from(self.number < 0.0)
    }

    fn made(self, number: f64) -> Self {
        self.operations.update(|count| count + 1);
        Counted { number, ..self }
    }
}

impl Neg for Counted<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        Counted { number: -self.number, ..self }
    }
}

macro_rules! counts {
    ($($operation:ident $method:ident),*) => {$(
        impl $operation for Counted<'_> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                self.made(self.number.$method(other.number))
            }
        }

        impl $operation<f64> for Counted<'_> {
            type Output = Self;
            fn $method(self, other: f64) -> Self {
                self.made(self.number.$method(other))
            }
        }

        impl<'c> $operation<Counted<'c>> for f64 {
            type Output = Counted<'c>;
            fn $method(self, other: Counted<'c>) -> Counted<'c> {
                other.made(self.$method(other.number))
            }
        }
    )*};
}

counts!(Add add, Sub sub, Mul mul, Div div);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_counts_once_wherever_its_result_is_used() {
        let (value, count) = counted(3.0, |x| {
            let square = x * x;
            -square + square / 2.0 - 1.0
        });
        assert_eq!((value, count), (-5.5, 4));
        assert_eq!(counted(4.0, |x| x.through(f64::sqrt)), (2.0, 1));
        assert_eq!(counted(-4.0, |x| x.with_number(x.sign() as f64)), (-1.0, 1));
        assert_eq!(counted(f64::NAN, |x| x.with_number(x.sign() as f64)), (0.0, 1));
        assert_eq!(counted(1.0, |x| 3.0 - x.with_number(2.0 * x.number())), (1.0, 1));
    }
}
