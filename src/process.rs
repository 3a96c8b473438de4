//! Asks the kernel about this process: returns free memory to it, counts the bytes that were written, and names accounts and
//! the program's file. Not here: limits of other processes (`sandbox`).

#![expect(unsafe_code, reason = "malloc_trim and getrusage have no safe interface")]

use std::path::PathBuf;

/// Returns the path of this program. If its file was replaced since the start, as `peacrab update` does, the path is that of
/// the new one.
pub fn program_file() -> PathBuf {
    let Ok(file) = std::env::current_exe() else { return "peacrab".into() };
    // The kernel's mark of a file that has its name no more (proc_pid_exe(5)).
    let unmarked = file.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
    let replaced = unmarked.filter(|_| !file.exists()).map(PathBuf::from);
    replaced.unwrap_or(file)
}

/// Returns the name of an account of this machine. An account without one, such as that of a service, is named by its
/// number.
pub fn account_name(id: u32) -> String {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let id = id.to_string();
    let named = accounts.lines().find_map(|line| {
        // NAME:PASSWORD:NUMBER (passwd(5)).
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    named.unwrap_or(id)
}

/// Returns free memory of the heap to the kernel. glibc keeps what a peak of turns has used; other allocators
/// return it by themselves, so this does nothing there.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` may be called at any time and from any thread (malloc_trim(3), MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The writer whose bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskWriter {
    /// All threads of this process.
    Process,
    /// The calling thread.
    Thread,
    /// Child processes that ended and were waited for, with their own children.
    Programs,
}

/// The unit of the kernel's count, in bytes (getrusage(2)).
const BLOCK: u64 = 512;

/// Returns the bytes that were written to disks since the start, as the kernel counts them. Memory file systems do
/// not count.
pub fn written_by(writer: DiskWriter) -> u64 {
    let who = match writer {
        DiskWriter::Process => libc::RUSAGE_SELF,
        DiskWriter::Programs => libc::RUSAGE_CHILDREN,
        #[cfg(target_os = "linux")]
        DiskWriter::Thread => libc::RUSAGE_THREAD,
        #[cfg(not(target_os = "linux"))]
        DiskWriter::Thread => return 0,
    };
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives here. It cannot fail with these arguments.
    unsafe { libc::getrusage(who, &raw mut usage) };
    u64::try_from(usage.ru_oublock).unwrap_or_default() * BLOCK
}
