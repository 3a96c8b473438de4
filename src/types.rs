//! Messages, addresses, conversations and events as data. Nothing here reads a clock, a disk or a socket.

pub mod untrusted;
pub mod message;
pub mod origin;
pub mod source;
pub mod session;
pub mod event;
