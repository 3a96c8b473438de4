//! Jobs: when they are due, and what becomes of them whatever clock, power and people do.

mod cautions;
mod commands;
mod faults;
mod jobs;
mod later;
mod needs;
mod others;
mod reading;
mod references;
mod timing;
mod year;
