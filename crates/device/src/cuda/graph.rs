//! Work that is captured once and replayed by one call.

use super::error::{CudaError, check};
use super::{Card, Stream};
use cudarc::driver::sys as cu;
use std::marker::PhantomData;

/// Work that was put on a stream while it was captured. Freed on drop.
#[derive(Debug)]
pub struct Capture {
    card: Card,
    handle: cu::CUgraph,
}

// SAFETY: a captured graph is owned alone and may be used from any thread, one at a time.
unsafe impl Send for Capture {}

impl Stream {
    /// Captures what `record` puts on this stream instead of running it. When `record` fails nothing is
    /// captured and the stream is as before. Only this thread's calls are watched for what may not happen
    /// meanwhile.
    pub fn capture<E: From<CudaError>>(
        &self,
        record: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Capture, E> {
        self.card().bind()?;
        let mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and this thread alone uses it.
        check(unsafe { cu::cuStreamBeginCapture_v2(self.handle(), mode) }, "beginning a capture")?;
        let recorded = record(self);
        let mut handle = std::ptr::null_mut();
        // SAFETY: the capture was begun above on this stream; one handle is written, freed in `drop`.
        let ended = check(unsafe { cu::cuStreamEndCapture(self.handle(), &mut handle) }, "ending a capture");
        let capture = (!handle.is_null()).then(|| Capture { card: self.card().clone(), handle });
        recorded?;
        ended?;
        Ok(capture.expect("a capture that ended well has a graph"))
    }
}

impl Capture {
    /// How many nodes there are: launches, copies and fills.
    pub fn nodes(&self) -> Result<usize, CudaError> {
        self.card.bind()?;
        let mut nodes = 0;
        // SAFETY: the graph is alive; without a list only their number is written.
        let answer = unsafe { cu::cuGraphGetNodes(self.handle, std::ptr::null_mut(), &mut nodes) };
        check(answer, "counting the nodes of a graph")?;
        Ok(nodes)
    }

    /// Makes it ready to run.
    pub fn instantiate(&self) -> Result<Graph, CudaError> {
        self.card.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the graph is alive; one handle is written, freed in `drop`.
        let answer = unsafe { cu::cuGraphInstantiateWithFlags(&mut handle, self.handle, 0) };
        check(answer, "making a graph ready")?;
        Ok(Graph { card: self.card.clone(), handle, not_shared: PhantomData })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: made by a capture and freed only here.
            unsafe { cu::cuGraphDestroy(self.handle) };
        }
    }
}

/// Captured work that is ready to run. Freed on drop. It may move to another thread, but two never share it.
#[derive(Debug)]
pub struct Graph {
    card: Card,
    handle: cu::CUgraphExec,
    not_shared: PhantomData<std::cell::Cell<()>>,
}

// SAFETY: owned alone; that two threads do not use it at once is kept by the missing `Sync`.
unsafe impl Send for Graph {}

impl Graph {
    /// Puts the work on the stream by one call.
    ///
    /// # Safety
    /// What was captured may run: the kernels' modules are loaded, and the memory that they and the copies
    /// touch is valid until the stream has passed.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        self.card.bind()?;
        // SAFETY: both handles are alive; the work is the caller's promise.
        check(unsafe { cu::cuGraphLaunch(self.handle, stream.handle()) }, "replaying a graph")
    }

    /// Takes over the sizes and addresses of another capture of the same work, which is cheaper than making
    /// it ready. `false` when the two differ in more than that: then the other must be instantiated and this
    /// one is of no use.
    pub fn update(&mut self, capture: &Capture) -> Result<bool, CudaError> {
        self.card.bind()?;
        let mut result = cu::CUgraphExecUpdateResultInfo {
            result: cu::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
            errorNode: std::ptr::null_mut(),
            errorFromNode: std::ptr::null_mut(),
        };
        // SAFETY: both are alive; the driver writes the reason of a refusal.
        let answer = unsafe { cu::cuGraphExecUpdate_v2(self.handle, capture.handle, &mut result) };
        match check(answer, "updating a graph") {
            Err(CudaError::Refused { code: 910, .. }) => Ok(false),
            answer => answer.map(|()| true),
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: made by `instantiate` and freed only here; the driver keeps it until its replays have
            // run.
            unsafe { cu::cuGraphExecDestroy(self.handle) };
        }
    }
}
