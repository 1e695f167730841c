//! The count of rows without keys.

use regard_engine::check::Case;
use regard_ops::prelude::*;

#[test]
fn rows_of_minus_infinity_are_counted_and_the_readers_agree() {
    let none = f64::NEG_INFINITY;
    let case = Case::new(|g| {
        let lse = g.input("lse", DType::F32, [2, 3])?;
        Ok(vec![g.empty_rows(lse)?])
    })
    .given("lse", &[2, 3], &[0.5, none, -3.0, none, none, 0.0]);
    case.cpu(0.0).unwrap();
    case.cost().unwrap();
    let cpu = regard_engine::Cpu::new().unwrap();
    assert_eq!(case.run_on(&cpu).unwrap()[0].data(), [3.0]);
}
