//! The progress of saving and loading.

use std::ops::ControlFlow;

/// How much of a document has been saved or loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotProgress {
    /// The number of nodes that were written or read so far.
    pub nodes: usize,
    /// The number of nodes of the document. `None` while a load has not read it.
    pub total: Option<usize>,
}

/// Counts nodes and reports them to a callback.
pub(super) struct Reporter<P> {
    progress: SnapshotProgress,
    report: P,
}

/// The callback has ended the work.
pub(super) struct Stopped {
    nodes: usize,
}

impl<P: FnMut(SnapshotProgress) -> ControlFlow<()>> Reporter<P> {
    /// The number of nodes between two reports.
    const STEP: usize = 1024;

    pub(super) fn new(total: Option<usize>, report: P) -> Self {
        let progress = SnapshotProgress { nodes: 0, total };
        Self { progress, report }
    }

    pub(super) fn expect(&mut self, total: usize) {
        self.progress.total = Some(total);
    }

    /// Reports the present progress.
    pub(super) fn report(&mut self) -> Result<(), Stopped> {
        let nodes = self.progress.nodes;
        match (self.report)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped { nodes }),
        }
    }

    /// Counts a node.
    pub(super) fn count(&mut self) -> Result<(), Stopped> {
        self.progress.nodes += 1;
        match self.progress.nodes % Self::STEP {
            0 => self.report(),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the progress callback ended the work after {} nodes",
            self.nodes
        )
    }
}
