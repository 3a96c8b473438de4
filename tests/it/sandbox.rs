//! The sandbox in which commands run, as the program ships it: what must not get out, what must work, and
//! what is said where a kernel cannot enforce it. Attempts are made in sh, in Python, in C, and by this
//! test program itself, which is there for what the others cannot do or where they are missing.

mod account;
mod attacks;
mod attempts;
mod bare;
mod bombs;
mod cgroups;
mod accounting;
mod corpus;
pub(crate) mod degrade;
mod files;
mod network;
mod ordinary;
mod processes;
mod root;
mod scratch;
mod signals;
mod supervised;
mod sweep;
mod terminal;

pub(crate) use degrade::{NO_LANDLOCK, NO_NAMESPACES, without};

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use peacrab::sandbox::{
    self, CommandEnding, CommandInput, CommandLimits, FinishedCommand, Protections, Sandbox,
    SandboxCommand, SandboxLevel,
};
use peacrab::secret::VariableValue;
use tempfile::TempDir;

/// What nobody inside may come to know.
const SECRET: &str = "the-secret-of-the-house";

const MB: u64 = 1024 * 1024;

/// A home as the daemon has it, with a workspace, and somebody else's files beside it.
pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) sandbox: Sandbox,
    pub(crate) order: SandboxCommand,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("home/workspace");
        fs::create_dir_all(workspace.join("notes")).unwrap();
        fs::create_dir_all(root.join("home/undo")).unwrap();
        fs::create_dir_all(root.join("person/.ssh")).unwrap();
        for name in ["home/config.toml", "home/state.db", "home/undo/blob", "person/.ssh/id_rsa"] {
            fs::write(root.join(name), SECRET).unwrap();
        }
        fs::write(workspace.join("notes/plan.md"), "a plan").unwrap();
        Self { folder, sandbox: sandbox(), order: order(&workspace) }
    }

    /// For where there are no namespaces: a daemon that is root offers no shell there, unless its config asks for less.
    pub(crate) fn bare() -> Self {
        let mut scene = Self::new();
        if rustix::process::geteuid().is_root() {
            scene.sandbox.level = SandboxLevel::BestEffort;
        }
        scene
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.order.folder.clone()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.workspace().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.workspace().join(name)).unwrap()
    }

    pub(crate) async fn run(&self, command: &str) -> Done {
        self.run_with(command, "").await
    }

    pub(crate) async fn run_with(&self, command: &str, input: &str) -> Done {
        let order = SandboxCommand { command: command.to_owned(), ..self.order.clone() };
        Done::of(sandbox::run(&self.sandbox, &order, input.as_bytes()).await.unwrap())
    }

    /// Whether the home and other people's things are as they were, and nothing is beside them.
    pub(crate) fn check(&self) {
        let root = self.root();
        for name in ["home/config.toml", "home/state.db", "home/undo/blob", "person/.ssh/id_rsa"] {
            assert_eq!(fs::read_to_string(root.join(name)).unwrap(), SECRET, "{name}");
        }
        let names = |path: &Path| {
            let mut names: Vec<_> = fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&root), ["home", "person"]);
        let home = names(&root.join("home"));
        let sockets: Vec<_> = home.iter().filter(|name| *name != "control.sock").collect();
        assert_eq!(sockets, ["config.toml", "state.db", "undo", "workspace"]);
        assert_eq!(names(&root.join("person/.ssh")), ["id_rsa"]);
    }
}

/// The sandbox of the shipped program, as it is by default.
pub(crate) fn sandbox() -> Sandbox {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("TERM", "dumb")];
    let plain = |text: &str| VariableValue::Plain(text.to_owned());
    Sandbox {
        program: env!("CARGO_BIN_EXE_peacrab").into(),
        level: SandboxLevel::Required,
        network: false,
        read: Vec::new(),
        write: Vec::new(),
        env: env
            .into_iter()
            .map(|(name, text)| (name.to_owned(), plain(text)))
            .collect::<BTreeMap<_, _>>(),
        bounds: CommandLimits::new(512 * MB, 64 * MB, 200 * MB, 128),
        least: Protections::default(),
        places: Vec::new(),
    }
}

fn order(workspace: &Path) -> SandboxCommand {
    SandboxCommand {
        command: String::new(),
        cwd: workspace.to_owned(),
        folder: workspace.to_owned(),
        home: workspace.to_owned(),
        read: Vec::new(),
        write: Vec::new(),
        time_max: Duration::from_secs(60),
        input: CommandInput::Pipe,
    }
}

/// How a command went.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) out: String,
    pub(crate) ending: CommandEnding,
    pub(crate) took: Duration,
}

impl Done {
    fn of(run: FinishedCommand) -> Self {
        let out = String::from_utf8_lossy(&run.kept.whole()).into_owned();
        Self { out, ending: run.ending, took: run.took }
    }

    /// It must have gone well; gives what it wrote.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.ending, CommandEnding::Exit(0), "{}", self.out);
        self.out
    }
}

/// Whether a program is there that attempts can be made in.
fn have(program: &str) -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}
