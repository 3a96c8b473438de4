//! The supervisor of waiting system calls (seccomp_unotify(2)), outside in the guard. Where a command has no root of
//! its own, these are changes of files that Landlock does not guard: mode, times and owner. The supervisor makes
//! them itself, beneath the folders that the command may change. It acts on descriptors that it has opened, so that
//! the checked file is the changed one, whatever the command does meanwhile. For signals, see [`signals`].

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, chmodat, fstat, openat, readlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, geteuid};

use super::raw;
use super::signals::{self, SIGNALS, SignalCall};

/// Maximum length of a path (PATH_MAX, limits.h), with the zero at its end.
const PATH_BYTES_MAX: usize = 4096;

/// Memory is read in pieces that do not cross into the next page, which may not be mapped.
const PAGE_BYTES: u64 = 4096;

/// The bits of a mode that a command may set. `calls` refuses those that give rights of the owner or the group.
const MODE_BITS: u32 = 0o1777;

/// Hands an open file over to the process at the other end: the listener of waiting calls, or a pipe.
pub(super) fn hand_over(link: impl AsFd, file: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(link, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a file from [`hand_over`].
pub(super) fn take_over(link: &UnixStream) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(link, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    })
}

/// Answers the calls of a command as long as it runs. `writable`: the folders and files that it may change; `first`: its
/// first process.
pub(super) fn supervise(link: &UnixStream, writable: &[PathBuf], first: Pid) {
    let Some(listener) = take_over(link) else { return };
    let writable: Vec<PathBuf> =
        writable.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    loop {
        let mut waiting = [PollFd::new(&listener, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Err(Errno::INTR) => continue,
            Ok(_) if waiting[0].revents().contains(PollFlags::IN) => {}
            // No process is left that could call.
            _ => return,
        }
        // Its caller may have been killed.
        let Ok(call) = raw::next_call(&listener) else { continue };
        let caller = SupervisedCall { listener: &listener, id: call.id, process: call.pid };
        let answer = |made: Result<(), Errno>| {
            let error = made.err().map_or(0, Errno::raw_os_error);
            raw::answer_call(&listener, call.id, error).ok()
        };
        let is_signal = SIGNALS.contains(&libc::c_long::from(call.data.nr));
        match is_signal.then(|| caller.signal(&call.data, first)) {
            None => answer(caller.make(&call.data, &writable)),
            Some(Ok(SignalCall::Own)) => raw::let_pass(&listener, call.id).ok(),
            // A caller that was interrupted makes its call again.
            Some(Ok(SignalCall::ToOthers(signalling))) => {
                answer(Ok(())).map(|()| signalling.send())
            }
            Some(Err(error)) => answer(Err(error)),
        };
    }
}

/// A process that waits for its call.
struct SupervisedCall<'a> {
    listener: &'a OwnedFd,
    id: u64,
    process: u32,
}

/// The file that a call names.
enum NamedFile {
    Descriptor(i32),
    Path { folder: i32, address: u64, flags: i32 },
}

enum AttributeChange {
    Mode(u32),
    Times(Timestamps),
    Owner { user: u32, group: u32 },
}

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };

/// Returns the lower half of an argument, as the kernel takes descriptors, flags and numbers.
fn lower_half(argument: u64) -> u32 {
    u32::try_from(argument & u64::from(u32::MAX)).unwrap_or_default()
}

fn number(argument: u64) -> i32 {
    lower_half(argument).cast_signed()
}

impl SupervisedCall<'_> {
    fn signal(&self, call: &libc::seccomp_data, first: Pid) -> Result<SignalCall, Errno> {
        let thread = Pid::from_raw(self.process.cast_signed()).ok_or(Errno::SRCH)?;
        let [target, signal, ..] = call.args.map(number);
        // If its number has been given to another meanwhile, nobody waits for an answer, and none is sent.
        signals::read(libc::c_long::from(call.nr), [target, signal], thread, first)
    }

    fn make(&self, call: &libc::seccomp_data, writable: &[PathBuf]) -> Result<(), Errno> {
        let (named, change) = self.parse_call(call)?;
        let file = self.open(&named)?;
        // Until here, the process number might have been given to another.
        if !raw::is_waiting(self.listener, self.id) {
            return Err(Errno::SRCH);
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = readlinkat(CWD, &own, Vec::new())?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes()));
        let found = fstat(&file)?;
        // The guard of a daemon that is root could change others' files, too.
        if !writable.iter().any(|it| path.starts_with(it)) || found.st_uid != geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        match change {
            AttributeChange::Mode(mode) => {
                chmodat(CWD, &own, Mode::from_raw_mode(mode & MODE_BITS), AtFlags::empty())
            }
            AttributeChange::Times(times) => utimensat(CWD, &own, &times, AtFlags::empty()),
            // Setting the same owner succeeds: `cp -p` and `tar` do that.
            AttributeChange::Owner { user, group } => {
                let same = |wanted: u32, is: u32| wanted == u32::MAX || wanted == is;
                match same(user, found.st_uid) && same(group, found.st_gid) {
                    true => Ok(()),
                    false => Err(Errno::PERM),
                }
            }
        }
    }

    /// Returns the file that a call names, and the requested change.
    fn parse_call(&self, call: &libc::seccomp_data) -> Result<(NamedFile, AttributeChange), Errno> {
        let args = call.args;
        let path = |folder, address, flags| NamedFile::Path { folder, address, flags };
        let owner = |at: usize| AttributeChange::Owner {
            user: lower_half(args[at]),
            group: lower_half(args[at + 1]),
        };
        Ok(match libc::c_long::from(call.nr) {
            libc::SYS_fchmod => {
                (NamedFile::Descriptor(number(args[0])), AttributeChange::Mode(lower_half(args[1])))
            }
            libc::SYS_fchmodat => {
                (path(number(args[0]), args[1], 0), AttributeChange::Mode(lower_half(args[2])))
            }
            libc::SYS_fchown => (NamedFile::Descriptor(number(args[0])), owner(1)),
            libc::SYS_fchownat => (path(number(args[0]), args[1], number(args[4])), owner(2)),
            libc::SYS_utimensat => {
                let times = self.times(args[2], 1)?;
                match args[1] {
                    0 => (NamedFile::Descriptor(number(args[0])), times),
                    address => (path(number(args[0]), address, number(args[3])), times),
                }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => {
                (path(libc::AT_FDCWD, args[0], 0), AttributeChange::Mode(lower_half(args[1])))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => (path(libc::AT_FDCWD, args[0], 0), owner(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => {
                (path(libc::AT_FDCWD, args[0], libc::AT_SYMLINK_NOFOLLOW), owner(1))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => (path(libc::AT_FDCWD, args[0], 0), self.seconds(args[1])?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => (path(libc::AT_FDCWD, args[0], 0), self.times(args[1], 1000)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => {
                let times = self.times(args[2], 1000)?;
                match args[1] {
                    0 => (NamedFile::Descriptor(number(args[0])), times),
                    address => (path(number(args[0]), address, 0), times),
                }
            }
            _ => return Err(Errno::NOSYS),
        })
    }

    /// Reads the times of access and of change, whose second part counts units of `unit` ns. Without an address, now.
    fn times(&self, address: u64, unit: i64) -> Result<AttributeChange, Errno> {
        let mut times = [NOW; 2];
        if address != 0 {
            let read = self.numbers::<4>(address)?;
            for (time, parts) in times.iter_mut().zip(read.chunks(2)) {
                let tv_nsec = parts[1].checked_mul(unit).ok_or(Errno::INVAL)?;
                *time = Timespec { tv_sec: parts[0], tv_nsec };
            }
        }
        let [last_access, last_modification] = times;
        Ok(AttributeChange::Times(Timestamps { last_access, last_modification }))
    }

    /// Reads two times in whole seconds, as for `utime`.
    #[cfg(target_arch = "x86_64")]
    fn seconds(&self, address: u64) -> Result<AttributeChange, Errno> {
        let mut times = [NOW; 2];
        if address != 0 {
            times = self.numbers::<2>(address)?.map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
        }
        let [last_access, last_modification] = times;
        Ok(AttributeChange::Times(Timestamps { last_access, last_modification }))
    }

    fn open(&self, named: &NamedFile) -> Result<OwnedFd, Errno> {
        let (folder, address, flags) = match named {
            NamedFile::Descriptor(number) => return self.descriptor(*number),
            NamedFile::Path { folder, address, flags } => (*folder, *address, *flags),
        };
        let path = self.path(address)?;
        let mut open_flags = OFlags::PATH | OFlags::CLOEXEC;
        if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
            open_flags |= OFlags::NOFOLLOW;
        }
        if path.as_os_str().is_empty() {
            return match flags & libc::AT_EMPTY_PATH {
                0 => Err(Errno::NOENT),
                _ => self.descriptor(folder),
            };
        }
        // These paths would name the guard's own files.
        let own = ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"];
        if let Some(name) = own.iter().find_map(|own| path.strip_prefix(own).ok()) {
            let number = name.to_str().and_then(|name| name.parse().ok());
            return self.descriptor(number.ok_or(Errno::PERM)?);
        }
        match path.is_absolute() {
            true => openat(CWD, &path, open_flags, Mode::empty()),
            false => openat(self.descriptor(folder)?, &path, open_flags, Mode::empty()),
        }
    }

    /// Opens the file of a caller's descriptor, without any right to read or write it.
    fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        let process = self.process;
        let path = match number {
            libc::AT_FDCWD => format!("/proc/{process}/cwd"),
            _ => format!("/proc/{process}/fd/{number}"),
        };
        let opened = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(|error| if error == Errno::NOENT { Errno::BADF } else { error })
    }

    fn path(&self, address: u64) -> Result<PathBuf, Errno> {
        let mut text = Vec::new();
        while text.len() < PATH_BYTES_MAX {
            let at = address.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let mut piece = vec![0; usize::try_from(PAGE_BYTES - at % PAGE_BYTES).unwrap_or(1)];
            self.read(at, &mut piece)?;
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() && text.len() < PATH_BYTES_MAX {
                return Ok(PathBuf::from(std::ffi::OsString::from_vec(text)));
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    fn numbers<const N: usize>(&self, address: u64) -> Result<[i64; N], Errno> {
        let mut bytes = vec![0; N * size_of::<i64>()];
        self.read(address, &mut bytes)?;
        let mut numbers = [0; N];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *number = i64::from_ne_bytes(*bytes);
        }
        Ok(numbers)
    }

    /// Reads the caller's memory.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let memory = Path::new("/proc").join(self.process.to_string()).join("mem");
        let read = fs::File::open(memory).and_then(|it| it.read_exact_at(bytes, address));
        // If the memory may not be read, nothing is changed.
        read.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => Errno::PERM,
            _ => Errno::FAULT,
        })
    }
}
