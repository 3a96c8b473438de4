//! What a build says of the platforms that it was made without.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use peacrab::config::{self, Environment};

#[test]
fn names_the_feature_of_a_platform_that_is_not_built_in() {
    let platforms = [
        ("telegram", cfg!(feature = "telegram")),
        ("discord", cfg!(feature = "discord")),
        ("slack", cfg!(feature = "slack")),
    ];
    for (platform, _) in platforms.into_iter().filter(|(_, is_built)| !is_built) {
        let faults = faults(platform);
        let words = format!("built without {platform}; build it with the Cargo feature {platform}");
        assert!(faults.contains(&words), "{faults}");
    }
    // What is not there is not offered.
    let offered = platforms.into_iter().filter(|(_, is_built)| *is_built);
    let offered = offered.map(|(platform, _)| format!(" {platform},")).collect::<String>();
    assert!(faults("pigeon").contains(&format!("must be one of{offered} terminal\n")));
}

/// What is said of a channel of a type.
fn faults(of: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    fs::write(&file, format!("[channels.home]\ntype = \"{of}\"\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let none: [(&str, &str); 0] = [];
    let faults = config::load(home.path(), None, &Environment::from_iter(none)).unwrap_err();
    format!("{faults}\n")
}
