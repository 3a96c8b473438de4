//! The roles of people, from the least to the greatest.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::words::words;

/// The permissions of a person. Each role includes those before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Guest,
    User,
    Admin,
    Owner,
}

words!(Role { Guest = "guest", User = "user", Admin = "admin", Owner = "owner" });

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
