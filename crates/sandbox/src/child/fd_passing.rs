//! Messages between the engine and its children: bytes and file descriptors over a socket.
//!
//! # Invariants
//! 1. A message is whole or an error: it begins with its length, or the socket is one of packets.
//! 2. Received descriptors are closed on exec.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The most file descriptors that a message may carry; the kernel allows 253.
pub(crate) const FDS_MAX: usize = 250;

/// The length limit of a message; longer ones are taken for noise.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The length limit of a packet.
const PACKET_BYTES_MAX: usize = 4096;

const LENGTH_BYTES: usize = 4;

/// Sends one message.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let framed = [&length.to_le_bytes()[..], bytes].concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many file descriptors"));
    }
    let mut sent = sendmsg(socket, &[IoSlice::new(&framed)], &mut control, SendFlags::NOSIGNAL)?;
    while sent < framed.len() {
        let mut none = SendAncillaryBuffer::default();
        sent += sendmsg(socket, &[IoSlice::new(&framed[sent..])], &mut none, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives one message.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut fds = Vec::new();
    let mut length = [0; LENGTH_BYTES];
    fill(socket, &mut length, &mut fds)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut bytes = vec![0; length];
    fill(socket, &mut bytes, &mut fds)?;
    Ok((bytes, fds))
}

/// Sends one message with one file descriptor as a packet, which many threads may do at once.
pub(crate) fn send_packet(socket: BorrowedFd<'_>, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let send = || sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    Ok(rustix::io::retry_on_intr(send).map(drop)?)
}

/// Receives one packet; no descriptor if there was no room for it.
pub(crate) fn receive_packet(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fd = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut received) = message {
            fd = received.next();
        }
    }
    if received.bytes == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    bytes.truncate(received.bytes);
    Ok((bytes, fd))
}

fn fill(socket: BorrowedFd<'_>, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
        let received =
            rustix::io::retry_on_intr(|| recvmsg(socket, &mut rest, &mut control, RecvFlags::CMSG_CLOEXEC))?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        if received.bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        filled += received.bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors_closed_on_exec() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"passed").unwrap();
        file.rewind().unwrap();
        let long = vec![7; 1_000_000];
        let sender = std::thread::spawn({
            let long = long.clone();
            move || {
                send(here.as_fd(), &long, &[file.as_fd(), here.as_fd()]).unwrap();
                send(here.as_fd(), b"", &[]).unwrap();
            }
        });
        let (bytes, mut fds) = receive(there.as_fd()).unwrap();
        assert!(bytes == long);
        assert_eq!(fds.len(), 2);
        for fd in &fds {
            assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
        let mut text = String::new();
        std::fs::File::from(fds.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "passed");
        drop(fds);
        assert_eq!(receive(there.as_fd()).unwrap().0, b"");
        sender.join().unwrap();
        assert_eq!(receive(there.as_fd()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_message_that_is_cut_off_is_an_error() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&[10, 0, 0, 0, 1, 2]).unwrap();
        drop(here);
        assert_eq!(receive(there.as_fd()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
