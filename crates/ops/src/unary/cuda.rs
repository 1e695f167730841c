//! Functions of one number in CUDA C++, as expressions for every kernel that applies one. They end as the
//! CPU's do: the same formulas, the same kinks, with the functions that CUDA has built in.

use super::Function;

impl Function {
    /// f(x), where `x` is itself an expression of f32.
    pub(crate) fn expression(self, x: &str) -> String {
        match self {
            Function::Relu => format!("relu({x})"),
            Function::Gelu => format!("gelu_erf({x})"),
            Function::GeluTanh => format!("gelu_tanh({x})"),
            Function::Silu => format!("silu({x})"),
            Function::Tanh => format!("tanhf({x})"),
            Function::Sigmoid => format!("sigmoid({x})"),
            Function::Exp => format!("expf({x})"),
            Function::Log => format!("logf({x})"),
            Function::Sqrt => format!("sqrtf({x})"),
            Function::Square => format!("(({x}) * ({x}))"),
            Function::Abs => format!("fabsf({x})"),
            Function::Recip => format!("(1.0f / ({x}))"),
        }
    }

    /// dy · f′, from `saved`: y where [`Function::from_result`], else x.
    pub(crate) fn slope_expression(self, saved: &str, dy: &str) -> String {
        let (s, d) = (format!("({saved})"), format!("({dy})"));
        match self {
            Function::Relu => format!("({s} > 0.0f ? {d} : 0.0f)"),
            Function::Gelu => format!("{d} * gelu_erf_slope({s})"),
            Function::GeluTanh => format!("{d} * gelu_tanh_slope({s})"),
            Function::Silu => format!("{d} * silu_slope({s})"),
            Function::Tanh => format!("{d} * fmaf(-{s}, {s}, 1.0f)"),
            Function::Sigmoid => format!("{d} * fmaf(-{s}, {s}, {s})"),
            Function::Exp => format!("{d} * {s}"),
            Function::Log => format!("{d} / {s}"),
            Function::Sqrt => format!("{d} * (0.5f / {s})"),
            Function::Square => format!("{d} * (2.0f * {s})"),
            Function::Abs => format!("({s} > 0.0f ? {d} : {s} < 0.0f ? -{d} : 0.0f)"),
            Function::Recip => format!("-({d} * {s}) * {s}"),
        }
    }
}
