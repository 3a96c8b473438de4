//! The file system of a command's own, as far as it depends on the kernel's release.

use peacrab::sandbox::root::{PID_MAX, is_at_least};

#[test]
fn releases_are_compared_by_their_numbers() {
    for (release, is_it) in
        [("6.18.44-fc", true), ("6.14.0", true), ("6.8.0-31", false), ("10.0", true), ("", false)]
    {
        assert_eq!(is_at_least(release, PID_MAX), is_it, "{release}");
    }
}
