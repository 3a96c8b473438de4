//! The heap of the process. Nothing here knows what the memory is used for.

#![allow(unsafe_code, reason = "glibc's allocator has no safe interface")]

/// Returns free memory of the heap to the kernel. glibc keeps what a peak of turns has used; other allocators
/// return it by themselves, so this does nothing there.
pub fn return_free() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` may be called at any time and from any thread (malloc_trim(3), MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}
