//! What is captured gives the bits of what ran eagerly, again and again, and takes over other sizes.

use crate::reference::Values;
use crate::{Report, Room};
use regard_device::cuda::kernels::columns::Columns;
use regard_device::cuda::kernels::map::{Input, Map};
use regard_device::cuda::kernels::rows::Rows;
use regard_device::cuda::{CudaError, Memory, Number, Operands, Planned, Product, Products};

const WIDTH: usize = 512;
const MOST_ROWS: usize = 300;

/// y = softmax(gelu(x) W), and the sums of its columns.
struct Chain {
    x: Memory,
    hidden: Memory,
    weight: Memory,
    product: Memory,
    y: Memory,
    sums: Memory,
    scratch: Memory,
    workspace: Memory,
}

impl Chain {
    fn new(room: &Room) -> Result<Chain, CudaError> {
        let count = MOST_ROWS * WIDTH;
        let of = |name, count| Memory::of(&room.stream, &Values::normal(name, Number::Bf16, count).bytes());
        Ok(Chain {
            x: of("graph", count)?,
            hidden: room.poisoned(count * 2)?,
            weight: of("graph weight", WIDTH * WIDTH)?,
            product: room.poisoned(count * 2)?,
            y: room.poisoned(count * 2)?,
            sums: room.poisoned(WIDTH * 4)?,
            scratch: room.poisoned(columns(MOST_ROWS).scratch())?,
            workspace: room.poisoned(32 << 20)?,
        })
    }

    fn run(&self, room: &Room, rows: usize, planned: &mut Planned) -> Result<(), CudaError> {
        let gelu = Map::new("gelu_tanh(x0)", &["bf16"], "bf16");
        let input = Input { at: self.x.start(), strides: vec![1] };
        room.launch(&gelu.launch(&[rows * WIDTH], &[input], [0.0; 4], self.hidden.start()))?;
        let operands = Operands {
            a: self.hidden.start(),
            b: self.weight.start(),
            d: self.product.start(),
            workspace: self.workspace.region(),
            ..Operands::default()
        };
        // SAFETY: memory of the largest sizes, which lives until the results are read.
        unsafe { planned.run(&room.stream, 0.1, 0.0, &operands) }?;
        let softmax =
            Rows { rows: rows as u32, width: WIDTH as u32, input: Number::Bf16, output: Number::Bf16 };
        room.launch(&softmax.softmax(self.y.start(), self.product.start(), 1.0))?;
        for launch in columns(rows).sums(self.sums.start(), self.y.start(), self.scratch.start()) {
            room.launch(&launch)?;
        }
        Ok(())
    }

    fn poison(&self, room: &Room) -> Result<(), CudaError> {
        for memory in [&self.hidden, &self.product, &self.y, &self.sums, &self.scratch, &self.workspace] {
            // SAFETY: all of a block that lives until the results are read.
            unsafe { room.stream.fill(memory.region(), 0xff) }?;
        }
        Ok(())
    }

    fn results(&self, room: &Room, rows: usize) -> Result<(Vec<u8>, Vec<u8>), CudaError> {
        let mut y = self.y.to_vec::<u8>(&room.stream)?;
        y.truncate(rows * WIDTH * 2);
        Ok((y, self.sums.to_vec(&room.stream)?))
    }
}

fn columns(rows: usize) -> Columns {
    Columns { rows: rows as u32, width: WIDTH as u32, input: Number::Bf16 }
}

pub fn check(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let chain = Chain::new(room)?;
    let products = Products::new(&room.card)?;
    let plan =
        |rows| products.plan_first(&Product::new(rows, WIDTH, WIDTH, Number::Bf16, Number::Bf16), 32 << 20);
    let sizes = [MOST_ROWS, 177];
    let mut plans = [plan(sizes[0])?, plan(sizes[1])?];
    let mut eager = Vec::new();
    for (rows, planned) in sizes.into_iter().zip(&mut plans) {
        chain.poison(room)?;
        chain.run(room, rows, planned)?;
        eager.push(chain.results(room, rows)?);
    }
    let capture = room.stream.capture(|_| chain.run(room, sizes[0], &mut plans[0]))?;
    report.fact("nodes of the chain of 5 launches", capture.nodes()?.to_string());
    let mut graph = capture.instantiate()?;
    let replay = |graph: &regard_device::cuda::Graph, rows| {
        chain.poison(room)?;
        // SAFETY: the chain's memory and the room's modules live.
        unsafe { graph.launch(&room.stream) }?;
        chain.results(room, rows)
    };
    let mut same = true;
    for _ in 0..3 {
        same &= replay(&graph, sizes[0])? == eager[0];
    }
    report.check("a replay has the bits of the eager run", same, "three times");

    let other = room.stream.capture(|_| chain.run(room, sizes[1], &mut plans[1]))?;
    let updated = graph.update(&other)?;
    report.fact("a graph of other sizes is taken over by an update", updated.to_string());
    if !updated {
        graph = other.instantiate()?;
    }
    report.check("a graph of other sizes has the eager bits", replay(&graph, sizes[1])? == eager[1], "");
    let failing = CudaError::NoCard;
    let refused = room.stream.capture(|_| Err::<(), CudaError>(failing.clone())).err();
    let usable = room.stream.synchronize().is_ok() && replay(&graph, sizes[1])? == eager[1];
    report.check("a capture that fails leaves the stream usable", refused == Some(failing) && usable, "");

    let simpler = room.stream.capture(|stream| {
        // SAFETY: the chain's memory lives.
        unsafe { stream.fill(chain.y.region(), 0) }
    })?;
    report.check("a graph of other work is not taken over", !graph.update(&simpler)?, "");
    Ok(())
}
