//! Trust: the authors of the content that a model is shown, and the calls that it may lead to. Not here:
//! the questions to people, and their answers (`agent`).

pub mod acts;
pub mod taint;
pub mod clean;
pub mod known_urls;
pub mod links;
pub mod telling;
pub mod own_words;
pub mod table;
pub mod permission;
pub mod instruction_watch;
pub mod instruction_versions;
pub mod mcp_pins;
pub mod marked_files;
pub mod path_watch;
