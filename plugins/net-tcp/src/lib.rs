//! The TCP network plugin of InfiniCCL: authenticated, ordered channels of messages over sockets.
//!
//! It is the network plugin that works everywhere: it needs no library, no device and no thread of its own. A
//! worker listens on the addresses it is given; a channel is one TCP connection between two ranks, on which both
//! ends prove the job's secret to each other before anything else is believed. Messages travel as a 16-byte
//! header and the payload, in order, straight between the caller's memory and the socket.
//!
//! The plugin is used through its table, [`plugin_root`]; `libinfiniccl_net_tcp.so` exports the same.
//!
//! # Options
//! The configuration's rows `sndbuf` and `rcvbuf` fix the size of the kernel's buffers of each connection in bytes;
//! without them the kernel tunes them by itself. The core adds the rows of
//! [`infiniccl_plugin_api::worker_option`].
//!
//! # How a channel ends
//! | what happened | state | pending and later work |
//! |---|---|---|
//! | the peer closed it in good order | CLOSED | REMOTE |
//! | the peer vanished, or the network lost it | FAILED | REMOTE |
//! | a message and its receive differ in length | FAILED | that receive MISMATCH, the rest ABORTED; on the sender's end REMOTE |
//! | no connection within the time limit | FAILED | TIMEOUT |
//! | everybody who answers refuses the secret | FAILED | REMOTE |
//! | it was aborted here | FAILED | ABORTED |
//!
//! `channel_close` waits for the sends that were posted before it, aborts the channel when its time limit passes, and
//! says so with TIMEOUT; the handle is gone either way. Completions of its work can still be polled afterwards.
//!
//! # Waiting
//! The descriptor of `wait_fd` is an epoll set. After `arm` the caller polls once more, and sleeps only if that
//! completed nothing.

mod address;
mod caps;
mod channel;
mod close;
mod connector;
mod device;
mod error;
mod events;
mod handshake;
mod host;
mod incoming;
mod interfaces;
mod listener;
mod memory;
mod options;
mod random;
mod receive;
mod registry;
mod send;
mod setup;
mod slab;
mod socket;
mod table;
mod time;
mod wire;
mod worker;

infiniccl_plugin_api::declare_plugin! {
    name: "net-tcp",
    version: env!("CARGO_PKG_VERSION"),
    probe: table::probe,
    net: table::TABLE,
}

#[cfg(test)]
mod tests;
