//! The file system of a command's own: paths by way of links, and what depends on the kernel's release.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use peacrab::sandbox::CommandEnding;
use peacrab::sandbox::root::{PID_MAX, is_at_least};

use super::Scene;

#[test]
fn releases_are_compared_by_their_numbers() {
    for (release, is_it) in
        [("6.18.44-fc", true), ("6.14.0", true), ("6.8.0-31", false), ("10.0", true), ("", false)]
    {
        assert_eq!(is_at_least(release, PID_MAX), is_it, "{release}");
    }
}

#[tokio::test]
async fn paths_below_links_are_shown_where_the_links_lead() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().canonicalize().unwrap();
    for folder in ["data/sub", "data/deep", "other/sub"] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    fs::write(path.join("data/sub/file"), "found\n").unwrap();
    symlink("data", path.join("link")).unwrap();
    symlink(path.join("data"), path.join("absolute")).unwrap();
    symlink("../other", path.join("data/out")).unwrap();
    let of = |names: &[&str]| names.iter().map(|name| path.join(name)).collect::<Vec<_>>();
    let cases: [(&[&str], &[&str], &str); 7] = [
        (&["data", "link", "link/sub"], &[], "cat link/sub/file"),
        (&["data", "absolute", "absolute/sub/file"], &[], "cat absolute/sub/file"),
        (&["data", "link"], &["link/deep"], "echo x > link/deep/new && cat link/sub/file"),
        // The same names twice, and one to read that is also written.
        (&["data", "link", "link"], &[], "cat link/sub/file"),
        (&["data", "link"], &["link"], "echo x > link/deep/newer && cat link/sub/file"),
        // Links within a folder that is seen.
        (&["data"], &["data/out/sub"], "echo x > data/out/sub/new && cat data/sub/file"),
        (&["data", "data/out"], &[], "ls data/out && cat data/sub/file"),
    ];
    for (read, write, command) in cases {
        let mut scene = Scene::new();
        (scene.sandbox.read, scene.sandbox.write) = (of(read), of(write));
        let done = scene.run(&format!("cd {} && {command}", path.display())).await;
        assert!(done.well().ends_with("found\n"), "{read:?} {write:?}: {command}");
        let refused = scene.run(&format!("echo x > {}/data/sub/file", path.display())).await;
        let is_written = write.contains(&"link");
        assert_eq!(refused.ending == CommandEnding::Exit(0), is_written, "{read:?} {write:?}");
        fs::write(path.join("data/sub/file"), "found\n").unwrap();
    }
    for made in ["data/deep/new", "data/deep/newer", "other/sub/new"] {
        assert!(path.join(made).exists(), "{made}");
    }
}

#[tokio::test]
async fn programs_are_shown_by_each_of_their_names() {
    // Of most machines, /bin is a link, and sh is one in it.
    for names in [&["/bin/sh"] as &[&str], &["/bin", "/bin/cat", "/bin/ls"], &["/lib", "/sbin"]] {
        let mut scene = Scene::new();
        scene.sandbox.read = names.iter().map(PathBuf::from).filter(|it| it.exists()).collect();
        assert_eq!(scene.run("/bin/sh -c 'echo it runs'").await.well(), "it runs\n", "{names:?}");
    }
}
