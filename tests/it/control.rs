//! The control socket, where a home's path is longer than a socket's can be.

use std::fs;
use std::io::ErrorKind;

use peacrab::control::{self, SOCKET};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_home_with_a_long_path_has_a_socket_too() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("a-long-name-".repeat(10)).join("another-".repeat(10));
    let refused = control::connect(&home).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    fs::create_dir_all(&home).unwrap();
    // As after a crash.
    fs::write(home.join(SOCKET), "").unwrap();
    let listener = control::bind(&home).unwrap();
    let (client, served) = tokio::join!(control::connect(&home), listener.accept());
    let (mut client, mut served) = (client.unwrap(), served.unwrap().0);
    client.write_all(b"hello").await.unwrap();
    drop(client);
    let mut heard = String::new();
    served.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
    let names: Vec<_> = fs::read_dir(&home).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, [SOCKET]);
}
