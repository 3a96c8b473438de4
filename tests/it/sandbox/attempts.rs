//! Attempts that need more than a shell. Each has a form in Python, one in C, and one in this test
//! program, which calls itself inside the sandbox: where the others are missing, that one is left.
//! An attempt prints `HELD` if it was refused, and what it got hold of if not.

use std::fs;
use std::io;

use super::{Scene, have};

/// Set for the copy of this program that is to make an attempt.
const ATTEMPT: &str = "PEACRAB_ATTEMPT";

/// A call to the kernel that must not work, written for each of the three.
pub(super) struct Attempt {
    pub(super) name: &'static str,
    /// For `libc.syscall` in Python and `syscall` in C: the numbers are the same for x86-64 and others
    /// where they stand by name, so by name.
    pub(super) c: &'static str,
    pub(super) rust: fn() -> io::Result<()>,
}

/// What each returns for -1.
fn call(result: impl Into<i64>) -> io::Result<()> {
    if result.into() == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

macro_rules! attempts {
    ($($name:ident: $c:literal, $rust:expr;)*) => {
        /// What must be refused to everybody inside, whatever the kernel.
        #[expect(unsafe_code, reason = "the attempts are raw calls to the kernel")]
        pub(super) const ATTEMPTS: &[Attempt] = &[$(Attempt {
            name: stringify!($name),
            c: $c,
            // SAFETY: the arguments are numbers, or null where the kernel looks for memory.
            rust: || call(unsafe { $rust }),
        }),*];
    };
}

attempts! {
    ptrace_myself: "ptrace(PTRACE_TRACEME, 0, 0, 0)", libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
    ptrace_the_first_process: "ptrace(PTRACE_ATTACH, 1, 0, 0)", libc::ptrace(libc::PTRACE_ATTACH, 1, 0, 0);
    read_memory_of_others: "syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0)", libc::syscall(libc::SYS_process_vm_readv, 1, 0, 0, 0, 0, 0);
    new_user_namespace: "unshare(CLONE_NEWUSER)", libc::unshare(libc::CLONE_NEWUSER);
    new_mount_namespace: "unshare(CLONE_NEWNS)", libc::unshare(libc::CLONE_NEWNS);
    new_network_namespace: "unshare(CLONE_NEWNET)", libc::unshare(libc::CLONE_NEWNET);
    namespace_by_clone: "syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)", libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0);
    namespace_by_clone3: "syscall(SYS_clone3, 0, 0)", libc::syscall(libc::SYS_clone3, 0, 0);
    enter_a_namespace: "setns(0, CLONE_NEWNS)", libc::setns(0, libc::CLONE_NEWNS);
    mount: "mount(\"none\", \"/tmp\", \"tmpfs\", 0, 0)", libc::mount(c"none".as_ptr(), c"/tmp".as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null());
    bind_mount: "mount(\"/\", \"/tmp\", 0, MS_BIND | MS_REC, 0)", libc::mount(c"/".as_ptr(), c"/tmp".as_ptr(), std::ptr::null(), libc::MS_BIND | libc::MS_REC, std::ptr::null());
    unmount: "umount2(\"/tmp\", MNT_DETACH)", libc::umount2(c"/tmp".as_ptr(), libc::MNT_DETACH);
    new_root: "chroot(\"/tmp\")", libc::chroot(c"/tmp".as_ptr());
    copy_a_mount: "syscall(SYS_open_tree, -100, \"/\", 1)", libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1);
    file_by_handle: "syscall(SYS_open_by_handle_at, -100, 0, 0)", libc::syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, 0, 0);
    keyring: "syscall(SYS_keyctl, 0, -3, 1, 0, 0)", libc::syscall(libc::SYS_keyctl, 0, -3, 1, 0, 0);
    add_a_key: "syscall(SYS_add_key, \"user\", \"x\", \"y\", 1, -3)", libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"x".as_ptr(), c"y".as_ptr(), 1, -3);
    bpf: "syscall(SYS_bpf, 0, 0, 0)", libc::syscall(libc::SYS_bpf, 0, 0, 0);
    userfaultfd: "syscall(SYS_userfaultfd, 1)", libc::syscall(libc::SYS_userfaultfd, 1);
    perf: "syscall(SYS_perf_event_open, 0, 0, -1, -1, 0)", libc::syscall(libc::SYS_perf_event_open, 0, 0, -1, -1, 0);
    io_uring: "syscall(SYS_io_uring_setup, 1, 0)", libc::syscall(libc::SYS_io_uring_setup, 1, 0);
    load_a_module: "syscall(SYS_finit_module, 0, \"\", 0)", libc::syscall(libc::SYS_finit_module, 0, c"".as_ptr(), 0);
    another_kernel: "syscall(SYS_kexec_load, 0, 0, 0, 0)", libc::syscall(libc::SYS_kexec_load, 0, 0, 0, 0);
    reboot: "syscall(SYS_reboot, 0xfee1dead, 672274793, 0x89abcdef, 0)", libc::syscall(libc::SYS_reboot, 0xfee1_dead_u32, 672_274_793, 0x89ab_cdef_u32, 0);
    host_name: "sethostname(\"evil\", 4)", libc::sethostname(c"evil".as_ptr(), 4);
    virtual_machine_socket: "socket(40, SOCK_STREAM, 0)", libc::socket(40, libc::SOCK_STREAM, 0);
    packet_socket: "socket(17, SOCK_RAW, 0)", libc::socket(17, libc::SOCK_RAW, 0);
    crypto_socket: "socket(38, SOCK_SEQPACKET, 0)", libc::socket(38, libc::SOCK_SEQPACKET, 0);
    become_root_of_others: "setresuid(12345, 12345, 12345)", libc::setresuid(12345, 12345, 12345);
    give_a_file_away: "chown(\"notes/plan.md\", 12345, 12345)", libc::chown(c"notes/plan.md".as_ptr(), 12345, 12345);
    make_a_device: "mknod(\"disk\", S_IFBLK | 0600, 0x0801)", libc::mknod(c"disk".as_ptr(), libc::S_IFBLK | 0o600, 0x0801);
    raise_a_limit: "setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY})", libc::setrlimit(libc::RLIMIT_FSIZE, &libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY });
    type_into_a_terminal: "ioctl(0, TIOCSTI, \"x\")", libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr());
    command_a_console: "ioctl(0, TIOCLINUX, \"\\x02\")", libc::ioctl(0, libc::TIOCLINUX, c"\x02".as_ptr());
    memory_without_a_name: "syscall(SYS_memfd_create, \"x\", 0)", libc::syscall(libc::SYS_memfd_create, c"x".as_ptr(), 0);
    shared_memory: "syscall(SYS_shmget, 0, 4096, 01600)", libc::syscall(libc::SYS_shmget, 0, 4096, 0o1600);
    semaphores: "syscall(SYS_semget, 0, 1, 01600)", libc::syscall(libc::SYS_semget, 0, 1, 0o1600);
    attach_shared_memory: "syscall(SYS_shmat, 0, 0, 0)", libc::syscall(libc::SYS_shmat, 0, 0, 0);
    remove_shared_memory: "syscall(SYS_shmctl, 0, 0, 0)", libc::syscall(libc::SYS_shmctl, 0, 0, 0);
    post_a_semaphore: "syscall(SYS_semop, 0, 0, 0)", libc::syscall(libc::SYS_semop, 0, 0, 0);
    message_queue: "syscall(SYS_mq_open, \"/x\", 0, 0, 0)", libc::syscall(libc::SYS_mq_open, c"x".as_ptr(), 0, 0, 0);
    flags_of_a_file: "syscall(469, -100, \"notes\", 0, 0, 0)", libc::syscall(469, libc::AT_FDCWD, c"notes".as_ptr(), 0, 0, 0);
    share_a_core: "syscall(SYS_prctl, 62, 1, 0, 0, 0)", libc::prctl(62, 1, 0, 0, 0);
    memory_into_a_pipe: "syscall(SYS_vmsplice, 1, 0, 0, 0)", libc::syscall(libc::SYS_vmsplice, 1, 0, 0, 0);
    move_pages_of_others: "syscall(SYS_move_pages, 1, 0, 0, 0, 0, 0)", libc::syscall(libc::SYS_move_pages, 1, 0, 0, 0, 0, 0);
    lease: "syscall(SYS_fcntl, 1, 1024, 0)", libc::fcntl(1, 1024, libc::F_RDLCK);
    larger_pipe: "syscall(SYS_fcntl, 1, 1031, 1048576)", libc::fcntl(1, 1031, 1_048_576);
    set_room_aside: "syscall(SYS_fallocate, 1, 0, 0, 4096)", libc::syscall(libc::SYS_fallocate, 1, 0, 0, 4096);
    set_the_clock: "settimeofday(&(struct timeval){1, 0}, 0)", libc::settimeofday(&libc::timeval { tv_sec: 1, tv_usec: 0 }, std::ptr::null());
}

/// The helper of the suite: makes the attempts if it is asked to, and is an empty test otherwise.
#[test]
#[expect(clippy::print_stdout, reason = "its output is read by the test that has started it")]
#[expect(clippy::disallowed_methods, reason = "it is told by its parent what to do")]
fn makes_attempts_when_it_is_told_to() {
    let Ok(wanted) = std::env::var(ATTEMPT) else { return };
    for attempt in ATTEMPTS.iter().filter(|attempt| wanted == "all" || wanted == attempt.name) {
        match (attempt.rust)() {
            Ok(()) => println!("{} WENT THROUGH", attempt.name),
            Err(error) => println!("{} HELD {}", attempt.name, error.raw_os_error().unwrap_or(0)),
        }
    }
}

/// Each attempt must have been made, and refused; and not because it was made wrongly.
#[track_caller]
fn all_held(out: &str, by: &str) {
    let lines: Vec<&str> =
        out.lines().filter(|line| line.contains(" HELD ") || line.contains("WENT")).collect();
    assert_eq!(lines.len(), ATTEMPTS.len(), "{by} did not make all attempts:\n{out}");
    for (attempt, line) in ATTEMPTS.iter().zip(lines) {
        let (name, errno) = line.split_once(" HELD ").unwrap_or((line, "-"));
        // The first stands behind what a test says of itself.
        assert!(name.trim().ends_with(attempt.name), "{by}:\n{out}");
        let allowed = match attempt.name {
            // Programs are to fall back to the call that is watched.
            "namespace_by_clone3"
            | "memory_without_a_name"
            | "shared_memory"
            | "semaphores"
            | "attach_shared_memory"
            | "remove_shared_memory"
            | "post_a_semaphore"
            | "message_queue"
            | "flags_of_a_file"
            | "memory_into_a_pipe" => vec![libc::ENOSYS],
            "set_room_aside" => vec![libc::EOPNOTSUPP],
            "become_root_of_others" | "give_a_file_away" => vec![libc::EPERM, libc::EINVAL],
            _ => vec![libc::EPERM],
        };
        assert!(allowed.iter().any(|one| one.to_string() == errno), "{by}: {line}");
    }
}

#[tokio::test]
async fn refuses_each_dangerous_call_to_this_very_program() {
    let mut scene = Scene::new();
    let program = std::env::current_exe().unwrap();
    scene.sandbox.read.push(program.parent().unwrap().to_owned());
    let command = format!(
        "{ATTEMPT}=all '{}' --exact sandbox::attempts::makes_attempts_when_it_is_told_to --nocapture --test-threads=1",
        program.display()
    );
    all_held(&scene.run(&command).await.well(), "this program");
    scene.check();
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a compiler runs outside, where it may be")]
async fn refuses_each_dangerous_call_to_a_program_in_c() {
    // Without a compiler, the same calls are made by this program: see the test before this.
    if !have("cc") {
        return;
    }
    let scene = Scene::new();
    let calls: Vec<String> = ATTEMPTS
        .iter()
        .map(|it| format!("    errno = 0; tell(\"{}\", {});\n", it.name, it.c))
        .collect();
    let text = format!(
        "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <sched.h>\n#include <signal.h>\n\
         #include <stdio.h>\n#include <stdlib.h>\n#include <sys/ioctl.h>\n#include <sys/mount.h>\n\
         #include <sys/ptrace.h>\n#include <sys/resource.h>\n#include <sys/socket.h>\n#include <sys/stat.h>\n\
         #include <sys/syscall.h>\n#include <sys/time.h>\n#include <unistd.h>\n\
         #ifndef TIOCLINUX\n#define TIOCLINUX 0x541C\n#endif\n\
         static void tell(const char *name, long got) {{\n\
             if (got == -1) printf(\"%s HELD %d\\n\", name, errno);\n\
             else printf(\"%s WENT THROUGH\\n\", name);\n    fflush(stdout);\n}}\n\
         int main(void) {{\n{}    return 0;\n}}\n",
        calls.concat()
    );
    scene.write("attempts.c", text);
    let built = std::process::Command::new("cc")
        .args(["-w", "-o", "attempts", "attempts.c"])
        .current_dir(scene.workspace())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    all_held(&scene.run("./attempts").await.well(), "the program in C");
    scene.check();
}

#[tokio::test]
async fn refuses_dangerous_calls_to_python() {
    // Without Python, the same calls are made by this program: see the first of these tests.
    if !have("python3") {
        return;
    }
    let scene = Scene::new();
    let numbers = [
        ("ptrace", libc::SYS_ptrace, libc::EPERM),
        ("unshare", libc::SYS_unshare, libc::EPERM),
        ("setns", libc::SYS_setns, libc::EPERM),
        ("mount", libc::SYS_mount, libc::EPERM),
        ("keyctl", libc::SYS_keyctl, libc::EPERM),
        ("bpf", libc::SYS_bpf, libc::EPERM),
        ("io_uring_setup", libc::SYS_io_uring_setup, libc::EPERM),
        ("userfaultfd", libc::SYS_userfaultfd, libc::EPERM),
        ("clone3", libc::SYS_clone3, libc::ENOSYS),
    ];
    let mut script = "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n".to_owned();
    for (name, number, errno) in numbers {
        script += &format!(
            "ctypes.set_errno(0)\nassert c.syscall({number}, 0, 0, 0, 0, 0) == -1, '{name}'\n\
             assert ctypes.get_errno() == {errno}, ('{name}', ctypes.get_errno())\n"
        );
    }
    script += "print('all held')\n";
    fs::write(scene.workspace().join("attempts.py"), script).unwrap();
    assert_eq!(scene.run("python3 attempts.py").await.well(), "all held\n");
    scene.check();
}
