//! A program at actual sizes: everything that goes on the stream, in order, with kernels, algorithms and
//! addresses resolved; after its first run captured as one graph.

use super::State;
use crate::Result;
use regard_device::cuda::{Arguments, Event, Function, Graph, Grid, Operands, Planned, Region};
use regard_graph::Sizes;
use regard_ops::{CudaList, CudaWork, FaultSentence, share_launches};

pub(super) struct Prepared {
    pub sizes: Sizes,
    /// Whether what each step of the plan puts on the stream is kept apart, so that it can be measured.
    pub by_step: bool,
    /// For each step what it puts on the stream; everything as one step where they are not kept apart.
    steps: Vec<Vec<Ready>>,
    /// Host memory to be copied to inputs: offset there, and where to.
    pub uploads: Vec<(usize, Region)>,
    /// What to say of faults at these sizes, by their words.
    pub sentences: Vec<(usize, FaultSentence)>,
    graph: Option<Graph>,
    runs: usize,
}

/// One thing to put on the stream.
enum Ready {
    Kernel { function: Function, grid: Grid, arguments: Arguments },
    Product { planned: Box<Planned>, alpha: f32, beta: f32, operands: Operands },
    Copy { to: Region, from: Region },
    Fill { region: Region, byte: u8 },
}

impl Prepared {
    pub fn new(
        state: &mut State,
        sizes: Sizes,
        lists: Vec<CudaList>,
        uploads: Vec<(usize, Region)>,
        by_step: bool,
    ) -> Result<Prepared> {
        state.compile(lists.iter().flat_map(CudaList::launches))?;
        let lists = lists.into_iter().map(|list| list.work);
        let lists = match by_step {
            true => lists.collect(),
            // Neighbouring steps of an optimizer share a launch.
            false => vec![share_launches(lists.flatten())],
        };
        let mut steps = Vec::with_capacity(lists.len());
        for list in lists {
            steps.push(list.iter().map(|work| ready(state, work)).collect::<Result<_>>()?);
        }
        Ok(Prepared { sizes, by_step, steps, uploads, sentences: Vec::new(), graph: None, runs: 0 })
    }

    /// Puts everything on the stream: piece by piece at first, from the second run on as one graph.
    ///
    /// # Safety
    /// All addresses are valid memory of the sizes that the ops were told, until the stream has passed.
    pub unsafe fn run(&mut self, state: &mut State) -> Result<()> {
        self.runs += 1;
        if self.graph.is_none() && self.runs >= 2 {
            let steps = &mut self.steps;
            let captured = state.stream.capture(|stream| {
                for ready in steps.iter_mut().flatten() {
                    // SAFETY: the caller's promise; what is captured runs below.
                    unsafe { ready.put_on(stream) }?;
                }
                Ok::<(), crate::Error>(())
            })?;
            self.graph = Some(captured.instantiate()?);
        }
        match &self.graph {
            // SAFETY: the caller's promise; the functions of what was captured are held in `steps`.
            Some(graph) => Ok(unsafe { graph.launch(&state.stream) }?),
            None => {
                for ready in self.steps.iter_mut().flatten() {
                    // SAFETY: the caller's promise.
                    unsafe { ready.put_on(&state.stream) }?;
                }
                Ok(())
            }
        }
    }

    /// Puts it on the stream step by step and adds the nanoseconds of each; all is done on return.
    ///
    /// # Safety
    /// As for [`Prepared::run`].
    pub unsafe fn run_measured(&mut self, state: &mut State, spent: &mut [u64]) -> Result<()> {
        let mark = || Event::timed(state.stream.card());
        let mut marks = vec![mark()?];
        state.stream.record(&marks[0])?;
        for step in &mut self.steps {
            for ready in step {
                // SAFETY: the caller's promise.
                unsafe { ready.put_on(&state.stream) }?;
            }
            let after = mark()?;
            state.stream.record(&after)?;
            marks.push(after);
        }
        state.stream.synchronize()?;
        for (spent, pair) in spent.iter_mut().zip(marks.windows(2)) {
            *spent += (f64::from(pair[1].milliseconds_since(&pair[0])?) * 1e6) as u64;
        }
        Ok(())
    }
}

fn ready(state: &mut State, work: &CudaWork) -> Result<Ready> {
    Ok(match work {
        CudaWork::Launch(launch) => Ready::Kernel {
            function: state.function(launch)?,
            grid: launch.grid,
            arguments: launch.arguments.clone(),
        },
        CudaWork::Product(product) => {
            let workspace = state.workspace();
            Ready::Product {
                planned: Box::new(state.algorithms.plan(product, workspace.bytes)?),
                alpha: product.alpha,
                beta: product.beta,
                operands: Operands { workspace, ..product.operands },
            }
        }
        &CudaWork::Copy { to, from } => Ready::Copy { to, from },
        &CudaWork::Fill { region, byte } => Ready::Fill { region, byte },
    })
}

impl Ready {
    /// # Safety
    /// The memory that it touches is valid until the stream has passed.
    unsafe fn put_on(&mut self, stream: &regard_device::cuda::Stream) -> Result<()> {
        // SAFETY: the caller's promise, for every kind.
        unsafe {
            match self {
                Ready::Kernel { function, grid, arguments } => function.launch(stream, *grid, arguments)?,
                Ready::Product { planned, alpha, beta, operands } => {
                    planned.run(stream, *alpha, *beta, operands)?
                }
                Ready::Copy { to, from } => stream.copy(*to, *from)?,
                Ready::Fill { region, byte } => stream.fill(*region, *byte)?,
            }
        }
        Ok(())
    }
}
