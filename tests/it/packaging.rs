//! The files in packaging/ and the Dockerfile, as far as they can be tried without the programs that they are for.

mod debian;

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn dockerfile() -> String {
    fs::read_to_string(root().join("Dockerfile")).unwrap()
}

/// The sources that the image's build copies from here, without the last one that it copies them to.
fn copied() -> Vec<String> {
    let dockerfile = dockerfile();
    let copies = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
    let own = copies.filter(|line| !line.starts_with("--from"));
    own.flat_map(|line| {
        let mut words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        words.pop();
        words
    })
    .collect()
}

/// Returns true if the image's build has this path of the project.
fn is_in_the_image(path: &Path) -> bool {
    let ignore = fs::read_to_string(root().join(".dockerignore")).unwrap();
    let mut sent = ignore.lines().filter_map(|line| line.strip_prefix('!'));
    let is_sent = sent.any(|kept| path.starts_with(kept));
    let is_copied = copied().iter().any(|copied| match copied.split_once("/*") {
        Some((folder, ending)) => {
            path.parent() == Some(Path::new(folder)) && path.to_string_lossy().ends_with(ending)
        }
        None => path.starts_with(copied),
    });
    is_sent && is_copied
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the image's own steps")]
fn an_image_builds_the_dependencies_with_the_manifest_alone() {
    let folder = TempDir::new().unwrap();
    for name in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(root().join(name), folder.path().join(name)).unwrap();
    }
    let dockerfile = dockerfile();
    let steps = dockerfile.lines().skip_while(|line| !line.starts_with("RUN sed"));
    let steps: Vec<_> = steps.take_while(|line| !line.contains("cargo build")).collect();
    let script = steps.join("\n").replacen("RUN ", "", 1);
    let script = script.trim_end().trim_end_matches('\\');
    let run = std::process::Command::new("sh").arg("-ec").arg(script).current_dir(&folder).status();
    assert!(run.unwrap().success(), "{script}");
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let run = cargo.current_dir(&folder).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let found: Value = serde_json::from_slice(&run.stdout).unwrap();
    let targets = found["packages"][0]["targets"].as_array().unwrap();
    let kinds: Vec<_> = targets.iter().map(|target| &target["kind"][0]).collect();
    assert_eq!(kinds, [&json!("lib"), &json!("bin")]);
}

#[test]
fn an_image_has_every_file_that_the_program_contains() {
    let mut folders = vec![root().join("src")];
    let mut outside = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for piece in text.split("include_").skip(1) {
                    let Some(named) = piece.split('"').nth(1) else { continue };
                    let here = path.parent().unwrap();
                    outside.push(match named.strip_prefix("$CARGO_MANIFEST_DIR/") {
                        Some(named) => root().join(named),
                        None if named.starts_with("../") => {
                            here.join(named).canonicalize().unwrap()
                        }
                        None => continue,
                    });
                }
            }
        }
    }
    let outside: Vec<PathBuf> =
        outside.iter().map(|path| path.strip_prefix(root()).unwrap().to_owned()).collect();
    assert!(outside.len() >= 3, "{outside:?}");
    for path in &outside {
        assert!(is_in_the_image(path), "the image's build has no {}", path.display());
    }
    for path in ["src/main.rs", "Cargo.lock", "packaging/docker-entrypoint"] {
        assert!(is_in_the_image(Path::new(path)), "{path}");
    }
    assert!(!is_in_the_image(Path::new("config.toml")), "somebody's config is in the image");
}

#[test]
fn the_log_of_a_container_has_a_bound() {
    let compose = fs::read_to_string(root().join("packaging/compose.yaml")).unwrap();
    let lines: Vec<_> = compose.lines().map(str::trim).collect();
    for line in ["driver: local", "max-size: 10m", "max-file: \"3\""] {
        assert!(lines.contains(&line), "{line}");
    }
    let page = fs::read_to_string(root().join("docs/disk.md")).unwrap();
    assert!(page.contains("30 MB with `packaging/compose.yaml`"));
}

/// The file of Linux's calls that a container may make.
#[test]
fn a_container_may_make_the_calls_of_the_sandbox_and_no_others_of_a_kind() {
    let profile = fs::read_to_string(root().join("packaging/seccomp.json")).unwrap();
    let profile: Value = serde_json::from_str(&profile).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let rules = profile["syscalls"].as_array().unwrap();
    assert!(rules.iter().all(|rule| rule["action"] == "SCMP_ACT_ALLOW"));
    let names =
        |rule: &Value| -> Vec<String> { serde_json::from_value(rule["names"].clone()).unwrap() };
    let always: Vec<_> =
        rules.iter().filter(|rule| rule["args"].is_null()).flat_map(names).collect();
    for needed in [
        "clone",
        "unshare",
        "fsopen",
        "fsmount",
        "open_tree",
        "move_mount",
        "mount_setattr",
        "pivot_root",
        "umount2",
        "seccomp",
        "landlock_create_ruleset",
        "landlock_restrict_self",
    ] {
        assert!(always.iter().any(|name| name == needed), "{needed}");
    }
    for refused in [
        "bpf",
        "keyctl",
        "ptrace",
        "init_module",
        "io_uring_setup",
        "userfaultfd",
        "setns",
        "socket",
    ] {
        assert!(!always.iter().any(|name| name == refused), "{refused}");
    }
    // AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, as in the unit.
    let sockets = rules.iter().filter(|rule| !rule["args"].is_null());
    let families: Vec<_> = sockets.map(|rule| &rule["args"][0]["value"]).collect();
    assert_eq!(families, [&json!(1), &json!(2), &json!(10), &json!(16)]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "cargo describes the package")]
fn cargo_installs_one_program_with_the_usual_parts() {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let run = cargo.current_dir(root()).output().unwrap();
    let found: Value = serde_json::from_slice(&run.stdout).unwrap();
    let package = &found["packages"][0];
    let targets = package["targets"].as_array().unwrap();
    let programs = targets.iter().filter(|target| target["kind"][0] == "bin");
    let programs: Vec<_> = programs.map(|target| &target["name"]).collect();
    assert_eq!(programs, [&json!("peacrab")]);
    let page = fs::read_to_string(root().join("docs/install.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.contains("| yes |")).collect();
    let usual = package["features"]["default"].as_array().unwrap();
    for part in usual {
        let name = format!("`{}`", part.as_str().unwrap());
        assert!(rows.iter().any(|row| row.contains(&name)), "install.md does not list {name}");
    }
    let listed: usize = rows.iter().map(|row| row.matches('`').count() / 2).sum();
    assert_eq!(listed, usual.len(), "{rows:?}");
    for name in ["README.md", "docs/install.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        assert!(text.contains("cargo install --locked --path ."), "{name}");
    }
}

#[test]
fn a_container_has_the_sandbox_and_a_bound_of_its_log_however_it_is_started() {
    for name in ["README.md", "docs/docker.md", "Dockerfile"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        let started = &text[text.find("docker run -d ").expect(name)..];
        let options = &started[..started.find("-e TELEGRAM_BOT_TOKEN").expect(name)];
        for needed in [
            "-v peacrab:/home/peacrab",
            "--security-opt no-new-privileges",
            "--security-opt seccomp=packaging/seccomp.json",
            "--log-opt max-size=10m",
        ] {
            assert!(options.contains(needed), "{name} starts it without {needed}");
        }
    }
}

/// A program that says which it is, and makes pages and completions.
const PROGRAM: &str =
    "#!/bin/sh\ncase $1 in man) echo page > $2/peacrab.1;; *) echo $1 $2;; esac\n";

#[expect(clippy::disallowed_methods, reason = "the scripts under test")]
fn script(name: &str, args: &[&str], env: &[(&str, &str)]) -> (bool, String) {
    let mut command = std::process::Command::new(root().join("packaging").join(name));
    let run = command.args(args).envs(env.iter().copied()).output().unwrap();
    let said = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn a_program_is_installed_only_if_its_sum_and_its_signature_are_right() {
    let folder = TempDir::new().unwrap();
    let (release, bin) = (folder.path().join("release"), folder.path().join("bin"));
    fs::create_dir(&release).unwrap();
    let machine = std::env::consts::ARCH;
    let name = format!("peacrab-9.9.9-{machine}");
    let sum: String = Sha256::digest(PROGRAM).iter().map(|byte| format!("{byte:02x}")).collect();
    let sums = format!("{}  peacrab-9.9.9-other\n{sum}  {name}\n", "0".repeat(64));
    fs::write(release.join(&name), PROGRAM).unwrap();
    fs::write(release.join("SHA256SUMS"), &sums).unwrap();
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let public = STANDARD.encode(key.public_key());
    let url = format!("file://{}", release.display());
    let install = |env: &[(&str, &str)]| script("install.sh", &[&url, bin.to_str().unwrap()], env);

    // A signature is needed if there is a key.
    let (worked, said) = install(&[("PEACRAB_PUBLIC_KEY", &public)]);
    assert!(!worked && said.contains("cannot fetch"), "{said}");
    let other = STANDARD.encode(key.sign(b"something else"));
    fs::write(release.join("SHA256SUMS.sig"), other).unwrap();
    let (worked, said) = install(&[("PEACRAB_PUBLIC_KEY", &public)]);
    assert!(!worked && said.contains("not that of the key"), "{said}");
    assert!(!bin.join("peacrab").exists());
    fs::write(release.join("SHA256SUMS.sig"), STANDARD.encode(key.sign(sums.as_bytes()))).unwrap();
    let (worked, said) = install(&[("PEACRAB_PUBLIC_KEY", &public)]);
    assert!(worked && said.contains("peacrab init"), "{said}");
    assert_eq!(fs::read_to_string(bin.join("peacrab")).unwrap(), PROGRAM);

    // A folder in its place would swallow it.
    fs::remove_file(bin.join("peacrab")).unwrap();
    fs::create_dir(bin.join("peacrab")).unwrap();
    let (worked, said) = install(&[]);
    assert!(!worked && said.contains("is a folder"), "{said}");
    assert_eq!(fs::read_dir(bin.join("peacrab")).unwrap().count(), 0);
    fs::remove_dir(bin.join("peacrab")).unwrap();
    let (worked, said) = install(&[]);
    assert!(worked, "{said}");

    fs::write(release.join(&name), "something else").unwrap();
    let (worked, said) = install(&[]);
    assert!(!worked && said.contains("nothing was installed"), "{said}");
    assert_eq!(fs::read_to_string(bin.join("peacrab")).unwrap(), PROGRAM);
    fs::write(release.join("SHA256SUMS"), "no sums\n").unwrap();
    let (worked, said) = install(&[]);
    assert!(!worked && said.contains("no program for"), "{said}");
    let (worked, said) = script("install.sh", &[], &[]);
    assert!(!worked && said.contains("name the address"), "{said}");
}

#[test]
fn the_newest_version_of_several_is_installed() {
    let folder = TempDir::new().unwrap();
    let (release, bin) = (folder.path().join("release"), folder.path().join("bin"));
    fs::create_dir(&release).unwrap();
    let url = format!("file://{}", release.display());
    let machine = std::env::consts::ARCH;
    let check = |versions: &[&str], newest: &str| {
        let lines = versions.iter().map(|version| {
            let text = format!("#!/bin/sh\necho {version}\n");
            let name = format!("peacrab-{version}-{machine}");
            fs::write(release.join(&name), &text).unwrap();
            let sum = Sha256::digest(&text);
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{sum}  {name}\n")
        });
        fs::write(release.join("SHA256SUMS"), lines.collect::<String>()).unwrap();
        let (worked, said) = script("install.sh", &[&url, bin.to_str().unwrap()], &[]);
        assert!(worked && said.contains(&format!("peacrab-{newest}-{machine}")), "{said}");
        let installed = fs::read_to_string(bin.join("peacrab")).unwrap();
        assert_eq!(installed, format!("#!/bin/sh\necho {newest}\n"));
    };
    check(&["0.0.9", "0.1.0"], "0.1.0");
    check(&["0.10.0", "0.9.0"], "0.10.0");
    check(&["1.0.0", "1.0.0-rc1"], "1.0.0");
    check(&["1.0.0-rc10", "1.0.0-rc9"], "1.0.0-rc10");
    check(&["1.0.0-rc1"], "1.0.0-rc1");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a key and a path for the scripts under test")]
#[expect(clippy::print_stdout, reason = "who reads the tests' output must see it")]
fn a_release_is_described_signed_and_installed() {
    let folder = TempDir::new().unwrap();
    let (release, bin) = (folder.path().join("release"), folder.path().join("bin"));
    fs::create_dir(&release).unwrap();
    let key =
        std::process::Command::new("openssl").args(["genpkey", "-algorithm", "ed25519"]).output();
    let Ok(key) = key else {
        println!("there is no openssl: nothing is signed");
        return;
    };
    let key = String::from_utf8(key.stdout).unwrap();
    let pem: String = key.lines().filter(|line| !line.starts_with("--")).collect();
    // PKCS#8 ends with the seed of the key.
    let private = STANDARD.decode(pem).unwrap();
    let seed = &private[private.len() - 32..];
    let key_pair = Ed25519KeyPair::from_seed_unchecked(seed).unwrap();
    let machine = std::env::consts::ARCH;
    let name = format!("peacrab-{}-{machine}", env!("CARGO_PKG_VERSION"));
    fs::write(release.join(&name), PROGRAM).unwrap();
    // As packaging/static-binaries leaves the folder, with the program of a former version.
    fs::create_dir(release.join("cc")).unwrap();
    fs::write(release.join(format!("{name}.order")), "main\n").unwrap();
    fs::write(release.join(format!("peacrab-0.0.0-{machine}")), PROGRAM).unwrap();
    fs::write(release.join("peacrab_0.0.0_amd64.deb"), PROGRAM).unwrap();
    fs::write(release.join("install.sh"), PROGRAM).unwrap();
    let path = release.to_str().unwrap();
    let cargo = Path::new(env!("CARGO")).parent().unwrap();
    let search = format!("{}:{}", cargo.display(), std::env::var("PATH").unwrap());
    let env = [("RELEASE_KEY", key.as_str()), ("CARGO_NET_OFFLINE", "true"), ("PATH", &search)];
    let (worked, said) = script("describe-release", &[path], &env);
    assert!(worked, "{said}");

    let sums = fs::read_to_string(release.join("SHA256SUMS")).unwrap();
    let mut listed: Vec<_> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["install.sh", name.as_str(), "peacrab.cdx.json"]);

    // As `peacrab update` reads it.
    let text = fs::read(release.join("release.json")).unwrap();
    let described: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(described["version"], env!("CARGO_PKG_VERSION"));
    let own = format!("{}-linux", std::env::consts::ARCH);
    assert_eq!(described["programs"][&own]["file"], *name);
    let signature = fs::read_to_string(release.join("release.json.sig")).unwrap();
    let signature = STANDARD.decode(signature.trim()).unwrap();
    let public = UnparsedPublicKey::new(&ED25519, key_pair.public_key().as_ref());
    public.verify(&text, &signature).unwrap();
    let inside = fs::read(release.join("peacrab.cdx.json")).unwrap();
    let inside: Value = serde_json::from_slice(&inside).unwrap();
    let crates = inside["components"].as_array().unwrap();
    assert!(crates.iter().any(|it| it["name"] == "rustls" && it["hashes"][0]["alg"] == "SHA-256"));
    assert!(crates.iter().all(|it| it["name"] != "insta"), "what only tests need is not inside");

    // What it cannot finish changes nothing.
    let wrong = [("RELEASE_KEY", "no key"), ("CARGO_NET_OFFLINE", "true"), ("PATH", &search)];
    let (worked, said) = script("describe-release", &[path], &wrong);
    assert!(!worked, "{said}");
    assert_eq!(fs::read(release.join("release.json")).unwrap(), text);
    assert_eq!(fs::read_to_string(release.join("SHA256SUMS")).unwrap(), sums);
    assert!(release.join("SHA256SUMS.sig").exists());
    let is_hidden = |entry: std::io::Result<fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().starts_with('.')
    };
    assert!(!fs::read_dir(&release).unwrap().any(is_hidden));

    let public = STANDARD.encode(key_pair.public_key());
    let url = format!("file://{path}");
    let args = [url.as_str(), bin.to_str().unwrap()];
    let (worked, said) = script("install.sh", &args, &[("PEACRAB_PUBLIC_KEY", &public)]);
    assert!(worked, "{said}");
    assert_eq!(fs::read_to_string(bin.join("peacrab")).unwrap(), PROGRAM);
}
