//! What a build says of the platforms that it was made without.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use peacrab::config::{self, Environment};

#[test]
fn names_the_feature_of_a_platform_that_is_not_built_in() {
    let platforms = [
        ("discord", cfg!(feature = "discord")),
        ("slack", cfg!(feature = "slack")),
        ("telegram", cfg!(feature = "telegram")),
    ];
    let none: [(&str, &str); 0] = [];
    for (platform, _) in platforms.into_iter().filter(|(_, is_built)| !is_built) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.toml");
        fs::write(&file, format!("[channels.home]\ntype = \"{platform}\"\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let faults = config::load(home.path(), None, &Environment::from_iter(none)).unwrap_err();
        let words = format!("built without {platform}; build it with the Cargo feature {platform}");
        assert!(faults.to_string().contains(&words), "{faults}");
    }
}
