//! Requirements of a skill on the machine, and their check. Nothing is ever installed.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The machine around the workspace.
#[derive(Clone, Debug, Default)]
pub struct SkillEnvironment {
    /// The home folder of the account. Without it, skills there are not found.
    pub home: Option<PathBuf>,
    /// The folders that are searched for programs.
    pub path: Vec<PathBuf>,
    /// The names of variables that are set.
    pub env: BTreeSet<String>,
}

/// The systems, programs, variables and settings that a skill asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillNeeds {
    os: Vec<String>,
    bins: Vec<String>,
    any_bins: Vec<String>,
    env: Vec<String>,
    config: Vec<String>,
}

impl SkillNeeds {
    /// Reads them from a skill's metadata.
    pub(super) fn of(metadata: &Value) -> Self {
        let list = |path: &str| texts(metadata.pointer(path));
        Self {
            os: list("/os"),
            bins: list("/requires/bins"),
            any_bins: list("/requires/anyBins"),
            env: list("/requires/env"),
            config: list("/requires/config"),
        }
    }

    /// A sentence why the skill cannot be used on this machine; none if it can.
    pub fn missing(&self, around: &SkillEnvironment) -> Option<String> {
        let has = |bin: &String| around.path.iter().any(|folder| is_program(folder, bin));
        let mut missing = Vec::new();
        if !self.os.is_empty() && !self.os.iter().any(|os| is_this(os)) {
            missing.push(format!("it is for {} only", self.os.join(", ")));
        }
        let bins: Vec<_> = self.bins.iter().filter(|bin| !has(bin)).map(String::as_str).collect();
        if !bins.is_empty() {
            missing.push(format!("it needs the program {}", bins.join(", ")));
        }
        if !self.any_bins.is_empty() && !self.any_bins.iter().any(has) {
            missing.push(format!("it needs one of the programs {}", self.any_bins.join(", ")));
        }
        let env = self.env.iter().filter(|name| !around.env.contains(*name));
        let env: Vec<_> = env.map(String::as_str).collect();
        if !env.is_empty() {
            missing.push(format!("it needs the variable {}", env.join(", ")));
        }
        if !self.config.is_empty() {
            missing
                .push(format!("it needs settings of another program: {}", self.config.join(", ")));
        }
        (!missing.is_empty()).then(|| missing.join("; "))
    }
}

/// One text, or a list of them.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Others write the names that Node has for systems.
fn is_this(os: &str) -> bool {
    let this = match std::env::consts::OS {
        "macos" => ["darwin", "macos"],
        "windows" => ["win32", "windows"],
        other => [other, other],
    };
    this.iter().any(|this| os.eq_ignore_ascii_case(this))
}

fn is_program(folder: &Path, name: &str) -> bool {
    let found = folder.join(name).metadata();
    !name.contains('/')
        && found.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
