//! All calls to the kernel, by number: those that are not on the list must be answered as by a kernel that does not
//! have them, whatever this kernel has.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::Scene;
use super::degrade::{NO_NAMESPACES, without};

/// Set for the copy of this program that is to sweep.
const SWEEP: &str = "PEACRAB_SWEEP";

/// So far a later kernel will not come soon.
const CALLS: i64 = 1_024;

/// The numbers that may be answered, as they stand in the kernel's tables, as ranges (arch/x86/entry/syscalls/
/// syscall_64.tbl, include/uapi/asm-generic/unistd.h); not from the list that the program has.
#[cfg(target_arch = "x86_64")]
const ANSWERED: &[(i64, i64)] = &[
    (0, 28),
    (32, 63),
    (72, 100),
    (102, 102),
    (104, 133),
    (135, 135),
    (137, 138),
    (140, 152),
    (157, 158),
    (160, 160),
    (162, 162),
    (186, 204),
    (213, 213),
    (217, 219),
    (221, 226),
    (228, 235),
    (237, 239),
    (247, 247),
    (251, 255),
    (257, 271),
    (273, 277),
    (280, 284),
    (286, 297),
    (299, 299),
    (302, 302),
    (306, 307),
    (309, 309),
    (314, 318),
    (322, 322),
    (324, 332),
    (334, 334),
    (424, 424),
    (434, 434),
    (436, 436),
    (439, 439),
    (441, 441),
    (444, 446),
    (449, 449),
    (453, 456),
    (462, 462),
    (464, 465),
];
#[cfg(not(target_arch = "x86_64"))]
const ANSWERED: &[(i64, i64)] = &[
    (5, 17),
    (19, 38),
    (43, 46),
    (48, 50),
    (52, 57),
    (59, 59),
    (61, 74),
    (76, 88),
    (90, 96),
    (98, 103),
    (107, 111),
    (113, 115),
    (118, 141),
    (143, 160),
    (163, 169),
    (172, 179),
    (198, 216),
    (220, 223),
    (226, 233),
    (235, 237),
    (240, 240),
    (242, 243),
    (258, 261),
    (267, 267),
    (269, 269),
    (274, 278),
    (281, 281),
    (283, 291),
    (293, 293),
    (424, 424),
    (434, 434),
    (436, 436),
    (439, 439),
    (441, 441),
    (444, 446),
    (449, 449),
    (453, 456),
    (462, 462),
    (464, 465),
];

/// Makes all calls with arguments that lead nowhere, each in a process of its own, as some do not return. Prints those
/// that were not refused. An empty test unless it is asked.
#[test]
#[expect(clippy::print_stdout, reason = "its output is read by the test that has started it")]
#[expect(clippy::disallowed_methods, reason = "it is told by its parent what to do")]
fn sweeps_when_it_is_told_to() {
    if std::env::var(SWEEP).is_err() {
        return;
    }
    // Those of programs with short pointers have numbers of their own.
    let short = if cfg!(target_arch = "x86_64") { 0x4000_0000..0x4000_0000 + CALLS } else { 0..0 };
    let answered = (0..CALLS).chain(short).filter(|call| is_answered(*call).unwrap());
    let answered: Vec<String> = answered.map(|call| call.to_string()).collect();
    println!("\nANSWERED {}", answered.join(" "));
    println!("OLD {}", old_way());
}

/// Returns false if the call was refused.
#[expect(unsafe_code, reason = "raw calls, in a process that ends after it")]
fn is_answered(call: i64) -> io::Result<bool> {
    let (mut ours, theirs) = UnixStream::pair()?;
    // SAFETY: the child makes calls to the kernel only, and ends.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: no pointer that is given points anywhere.
            let error = unsafe {
                // For `pause`.
                libc::alarm(1);
                let done = libc::syscall(call, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64);
                if done == -1 { *libc::__errno_location() } else { 0 }
            };
            (&theirs).write_all(&error.to_ne_bytes()).ok();
            // SAFETY: nothing of the parent's is touched any more.
            unsafe { libc::_exit(0) }
        }
        _ => {}
    }
    drop(theirs);
    let mut error = [0; 4];
    // One that says nothing has been ended by its call, which was made then.
    let refused = ours.read_exact(&mut error).is_ok()
        && [libc::ENOSYS, libc::EPERM, libc::EOPNOTSUPP].contains(&i32::from_ne_bytes(error));
    // SAFETY: it takes no pointer.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
    Ok(!refused)
}

/// A call as programs of 32 bits make it, whose numbers mean other calls.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "there is no other way to such a call")]
fn old_way() -> String {
    // SAFETY: `getpid` takes nothing; where it is refused, the child is killed.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut result: i64 = 20;
            std::arch::asm!("int 0x80", inout("rax") result);
            libc::_exit(if result > 0 { 7 } else { 0 });
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        let went = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7;
        if went { "WENT THROUGH" } else { "HELD" }.to_owned()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_way() -> String {
    "HELD".to_owned()
}

/// `uretprobe` and `uprobe`: the kernel lets them pass all filters, and kills whoever calls them from elsewhere than its
/// own code (kernel/seccomp.c, since Linux 6.14).
const UNFILTERED: [i64; 2] = if cfg!(target_arch = "x86_64") { [335, 336] } else { [0, 0] };

async fn check_sweep(mut scene: Scene) {
    let program = std::env::current_exe().unwrap();
    scene.sandbox.read.push(program.parent().unwrap().to_owned());
    let command = format!(
        "{SWEEP}=1 '{}' --exact sandbox::sweep::sweeps_when_it_is_told_to --nocapture",
        program.display()
    );
    let out = scene.run(&command).await.well();
    let line = |name: &str| out.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let answered: Vec<i64> =
        line("ANSWERED ").split(' ').map(|number| number.parse().unwrap()).collect();
    let is_listed = |call: &&i64| {
        UNFILTERED.contains(call)
            || ANSWERED.iter().any(|(first, last)| (first..=last).contains(call))
    };
    let others: Vec<&i64> = answered.iter().filter(|call| !is_listed(call)).collect();
    assert_eq!(others, Vec::<&i64>::new(), "these calls were made");
    // The sweep has seen calls that are made.
    assert!(answered.len() > 150, "{answered:?}");
    assert_eq!(line("OLD "), "HELD");
}

#[tokio::test]
async fn calls_that_are_not_listed_do_not_exist() {
    check_sweep(Scene::new()).await;
}

#[test]
fn calls_that_are_not_listed_do_not_exist_without_namespaces() {
    without(NO_NAMESPACES, async || check_sweep(Scene::bare()).await);
}
