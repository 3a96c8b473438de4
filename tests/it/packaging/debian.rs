//! Debian packages of packaging/deb. `.ci/deb` installs one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use peacrab::cli::service::system_unit;
use tempfile::TempDir;

use super::{PROGRAM, script};

#[expect(clippy::disallowed_methods, reason = "it looks into the package")]
fn dpkg_deb(args: &[&str]) -> Option<String> {
    let run = std::process::Command::new("dpkg-deb").args(args).output().ok()?;
    Some(String::from_utf8(run.stdout).unwrap())
}

#[test]
#[expect(clippy::print_stdout, reason = "who reads the tests' output must see it")]
fn a_debian_package_has_the_service_the_pages_and_nothing_of_this_machine() {
    if dpkg_deb(&["--version"]).is_none() {
        println!("there is no dpkg-deb: the package is not tried");
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let program = folder.join("program");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let made = |into: &str| {
        let into = folder.join(into);
        let args = [program.to_str().unwrap(), "amd64", into.to_str().unwrap()];
        let (worked, said) = script("deb", &args, &[("SOURCE_DATE_EPOCH", "1700000000")]);
        assert!(worked, "{said}");
        PathBuf::from(said.trim())
    };
    let package = made("one");
    // The same files make the same package.
    assert!(fs::read(&package).unwrap() == fs::read(made("two")).unwrap());
    let listed = dpkg_deb(&["--contents", package.to_str().unwrap()]).unwrap();
    for file in [
        "./usr/bin/peacrab",
        "./usr/lib/systemd/system/peacrab.service",
        "./usr/share/man/man1/peacrab.1.gz",
        "./usr/share/bash-completion/completions/peacrab",
        "./usr/share/doc/peacrab/copyright",
        "./usr/share/doc/peacrab/docs/install.md",
        "./usr/share/peacrab/apparmor",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(file)), "{file}: {listed}");
    }
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let unpacked = folder.join("unpacked");
    dpkg_deb(&["--extract", package.to_str().unwrap(), unpacked.to_str().unwrap()]).unwrap();
    let unit = fs::read_to_string(unpacked.join("usr/lib/systemd/system/peacrab.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/peacrab run\n"), "{unit}");
    // The same as `peacrab service install` would write, which takes it therefore.
    assert_eq!(unit, system_unit(Path::new("/usr/bin/peacrab")).unwrap());
    // A service that cannot start leaves no package half installed.
    let postinst = dpkg_deb(&["--info", package.to_str().unwrap(), "postinst"]).unwrap();
    assert!(postinst.contains("--no-block try-restart peacrab.service ||"), "{postinst}");
    let fields = dpkg_deb(&["--field", package.to_str().unwrap()]).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(fields.contains(&format!("Version: {version}\n")), "{fields}");
    assert!(!fields.contains("Depends"), "it is static: {fields}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a path for the script under test")]
#[expect(clippy::print_stdout, reason = "who reads the tests' output must see it")]
fn a_package_for_another_machine_has_the_pages_of_a_program_that_runs_here() {
    if dpkg_deb(&["--version"]).is_none() {
        println!("there is no dpkg-deb: the package is not tried");
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let put = |name: &str, content: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    // The head of a program, and no more: no machine runs it.
    let foreign = put("foreign", "\x7fELF\x02\x01\x01\0");
    let (target, into) = (folder.join("target").display().to_string(), folder.join("packages"));
    let search = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let make = |more: &[(&str, &str)]| {
        let own: &[(&str, &str)] =
            &[("CARGO_TARGET_DIR", target.as_str()), ("PATH", search.as_str())];
        script("deb", &[foreign.as_str(), "arm64", into.to_str().unwrap()], &[own, more].concat())
    };
    let check = |more: &[(&str, &str)], who: &str| {
        let (worked, package) = make(more);
        assert!(worked, "{who}: {package}");
        let unpacked = folder.join(format!("of-{who}"));
        dpkg_deb(&["--extract", package.trim(), unpacked.to_str().unwrap()]).unwrap();
        let completions = unpacked.join("usr/share/bash-completion/completions/peacrab");
        assert_eq!(fs::read_to_string(completions).unwrap(), format!("{who} bash\n"));
        let program = fs::read(unpacked.join("usr/bin/peacrab")).unwrap();
        assert_eq!(program, fs::read(&foreign).unwrap(), "{who}");
    };
    let program = |who: &str, version: &str| {
        format!(
            "#!/bin/sh\ncase $1 in man) echo page > $2/peacrab.1 ;; --version) echo peacrab {version} ;;\n\
             *) echo {who} $2 ;; esac\n"
        )
    };
    // Nothing runs here but a build of another version.
    put("target/dist/peacrab", &program("other", "0.0.0"));
    let (worked, said) = make(&[]);
    assert!(!worked && said.contains("name one that runs by $PEACRAB"), "{said}");
    assert!(!into.exists(), "there is a package all the same");
    put("target/debug/peacrab", &program("own", env!("CARGO_PKG_VERSION")));
    check(&[], "own");
    let emulated = program("emulated", "it").replace("case", "shift\ncase");
    put("bin/qemu-aarch64-static", &emulated);
    check(&[], "emulated");
    let named = put("named", &program("named", "0.0.0"));
    check(&[("PEACRAB", named.as_str())], "named");
}
