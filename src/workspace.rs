//! The operator's folder of markdown: stub.

/// The folder, cheap to clone.
#[derive(Clone)]
pub struct Workspace {}

/// A change of one file, worked out but not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {}
