//! What the program does by itself or in the background: subagents, jobs and the heartbeat. Their turns are
//! run by `turn` as any other.

pub mod subagents;
pub mod schedule;
pub mod heartbeat;
