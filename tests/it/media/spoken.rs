//! Commands in what somebody has said.

use peacrab::channels::intake::spoken::command;

#[test]
fn hears_commands_however_they_are_written_down() {
    for (spoken, expected) in [
        ("Stop.", Some("/stop")),
        ("Slash stop!", Some("/stop")),
        ("/stop", Some("/stop")),
        ("Slash, new.", Some("/new")),
        ("/ status", Some("/status")),
        ("New.", None),
        ("Stop it", None),
        ("Slash prices", None),
        ("", None),
    ] {
        assert_eq!(command(spoken).as_deref(), expected, "{spoken}");
    }
}
