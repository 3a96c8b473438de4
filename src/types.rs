//! Messages, addresses, conversations and events as data. Not here: anything that reads a clock, a disk or a
//! socket.

pub(crate) mod words;
pub mod hex;
pub mod version;
pub mod role;
pub mod untrusted;
pub mod address;
pub mod row_id;
pub mod message;
pub mod origin;
pub mod person;
pub mod source;
pub mod frozen;
pub mod summary;
pub mod session;
pub mod call_files;
pub mod persona;
pub mod token_estimate;
pub mod event;
pub mod commands;
pub mod job_verb;
pub mod safe_mode;
pub mod histogram;
