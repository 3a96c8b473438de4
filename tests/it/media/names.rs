//! Names of files that came, as they lie in the workspace.

use peacrab::channels::intake::names::{NAME_BYTES_MAX, name};
use peacrab::types::message::{MediaKind, MediaRef};

fn named(given: &str, kind: MediaKind, mime: Option<&str>) -> String {
    let mime = mime.map(str::to_owned);
    let given = Some(given.to_owned()).filter(|given| !given.is_empty());
    let handle = String::new();
    name(&MediaRef { kind, name: given, mime, size: None, handle, fetched: None, quoted: false })
}

#[test]
fn names_lead_nowhere_and_look_like_nothing_else() {
    use MediaKind::{Document, Image, Voice};
    for (given, expected) in [
        ("cat.jpg", "cat.jpg"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\Möwe 1.PDF", "Möwe-1.PDF"),
        ("a\n[photo: b].txt", "a-photo-b.txt"),
        ("..", "file"),
        (".env", "file.env"),
        ("\u{202e}gpj.exe", "gpj.exe"),
        ("no ending", "no-ending"),
        ("a.verylongending", "a-verylongending"),
    ] {
        assert_eq!(named(given, Document, None), expected, "{given:?}");
    }
    assert_eq!(named("", Image, Some("image/png")), "photo.png");
    assert_eq!(named("", Voice, Some("audio/ogg; codecs=opus")), "voice.ogg");
    let long = named(&format!("{}.pdf", "x".repeat(300)), Document, None);
    assert_eq!((long.chars().count(), long.ends_with("x.pdf")), (80, true));
    assert!(named(&"🦀漢".repeat(300), Document, None).len() <= NAME_BYTES_MAX);
}
