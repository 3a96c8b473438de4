//! Files of a workspace with several names (hard links). Their content may come from a folder that others write, so that
//! they count as untrusted; but an archive has each name as a file of its own, which would be trusted after a restore.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The folder in the downloads of an archive that has them.
const FOLDER: &str = "linked-files";

/// All files with several names that were found, by device and inode.
#[derive(Default)]
pub(super) struct LinkedFiles(BTreeMap<(u64, u64), LinkedFile>);

struct LinkedFile {
    /// The number of its names, wherever they are.
    names: u64,
    paths: Vec<PathBuf>,
}

/// A name of such a file in a workspace, and the place of its content in the archive.
pub(super) struct LinkedPath {
    pub(super) path: PathBuf,
    pub(super) place: PathBuf,
    /// The folder in the downloads that has it. None if it stays.
    pub(super) folder: Option<PathBuf>,
}

/// A path in a person's workspace.
struct OwnPath<'a> {
    workspace: PathBuf,
    rest: &'a Path,
}

impl LinkedFiles {
    /// Returns true if a file is in a workspace and has several names: its place is known only once all files are.
    pub(super) fn defer(&mut self, path: &Path, meta: &Metadata) -> bool {
        if meta.nlink() < 2 {
            return false;
        }
        let key = (meta.dev(), meta.ino());
        let linked = LinkedFile { names: meta.nlink(), paths: Vec::new() };
        self.0.entry(key).or_insert(linked).paths.push(path.to_owned());
        OwnPath::parse(path).is_some()
    }

    /// Returns the names in workspaces. A file whose names are all in one of them stays there, the others come to the
    /// downloads of the same person.
    pub(super) fn places(self, home: &Path) -> impl Iterator<Item = LinkedPath> {
        let of_file = move |file: LinkedFile| {
            let is_apart = file.is_apart();
            let place = |path: &PathBuf| {
                let own = OwnPath::parse(path)?;
                let folder = (!is_apart).then(|| own.free_folder(home));
                let place = folder.as_ref().map_or_else(|| path.clone(), |it| it.join(own.rest));
                Some(LinkedPath { path: path.clone(), place, folder })
            };
            file.paths.iter().filter_map(place).collect::<Vec<_>>()
        };
        self.0.into_values().flat_map(of_file)
    }
}

impl LinkedFile {
    /// Returns true if no name of it is outside of one workspace.
    fn is_apart(&self) -> bool {
        let mut workspaces =
            self.paths.iter().map(|path| OwnPath::parse(path).map(|own| own.workspace));
        let first = workspaces.next().flatten();
        let are_all = first.is_some() && workspaces.all(|it| it == first);
        are_all && self.names == self.paths.len() as u64
    }
}

impl<'a> OwnPath<'a> {
    /// None for a path that is in no workspace.
    fn parse(path: &'a Path) -> Option<Self> {
        let is_workspace = |folder: &&Path| {
            let is_named = folder.file_name().is_some_and(|name| name == "workspace");
            let above = folder.parent().unwrap_or(Path::new(""));
            is_named && (above.as_os_str().is_empty() || above.starts_with("people"))
        };
        // The outermost: a person can have a folder of that name.
        let workspace = path.ancestors().skip(1).filter(is_workspace).last()?;
        let rest = path.strip_prefix(workspace).ok()?;
        Some(Self { workspace: workspace.to_owned(), rest })
    }

    /// Returns a folder in the downloads, which is not there yet.
    fn free_folder(&self, home: &Path) -> PathBuf {
        let downloads = self.workspace.with_file_name("downloads");
        let numbered = (2..).map(|number| format!("{FOLDER}-{number}"));
        let mut names = std::iter::once(FOLDER.to_owned()).chain(numbered);
        let is_free = |name: &String| home.join(&downloads).join(name).symlink_metadata().is_err();
        downloads.join(names.find(is_free).expect("there are more numbers than folders"))
    }
}
