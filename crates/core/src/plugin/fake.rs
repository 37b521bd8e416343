//! Net plugins for the tests of this module: linked in, with functions that misbehave in chosen ways.

use infiniccl_plugin_api::{
    Buffer, ChannelParams, ChannelState, Completion, HostServices, Property, PropertySink, Status,
    WorkRequest, fail, properties, store,
};

/// How long a probe with the option `sleep_ms` sleeps at most.
const LONGEST_SLEEP_MS: u64 = 5_000;

/// Puts `reason` and `library` as the options say and answers the status that the option `status` names.
pub(super) extern "C" fn probe(
    host: *const HostServices,
    options: *const Property,
    count: u64,
    report: PropertySink,
) -> Status {
    assert!(!host.is_null());
    let mut status = Status::OK;
    // SAFETY: the core lends the options for this call.
    for (key, value) in unsafe { properties(options, count) } {
        match key {
            "status" => status = Status(value.parse().unwrap()),
            "words" => drop(fail(Status::SYSTEM, value)),
            "sleep_ms" => {
                let sleep = value.parse::<u64>().unwrap().min(LONGEST_SLEEP_MS);
                std::thread::sleep(std::time::Duration::from_millis(sleep));
            }
            _ => report.row(key, value),
        }
    }
    status
}

pub(super) extern "C" fn device_count(count: *mut u32) -> Status {
    // SAFETY: the core gives a place.
    unsafe { store(count, 3) }
}

pub(super) extern "C" fn device_attributes(index: u32, attributes: PropertySink) -> Status {
    if index > 2 {
        return fail(Status::USAGE, format_args!("there is no device {index}"));
    }
    attributes.row("name", format_args!("fake{index}"));
    Status::OK
}

/// Answers with handle `index + 1`, so that handle zero never comes back.
pub(super) extern "C" fn worker_open(
    index: u32,
    _: *const HostServices,
    options: *const Property,
    count: u64,
    worker: *mut u64,
) -> Status {
    // SAFETY: the core lends the options for this call.
    let keys: Vec<&str> = unsafe { properties(options, count) }
        .map(|(key, _)| key)
        .collect();
    if keys.contains(&"refuse") {
        return fail(Status::SYSTEM, format_args!("options {}", keys.join(" ")));
    }
    // SAFETY: the core gives a place.
    unsafe { store(worker, u64::from(index) + 1) }
}

pub(super) extern "C" fn worker_close(_: u64, _: u64) -> Status {
    Status::OK
}

/// An address that is longer than is allowed for worker 2.
pub(super) extern "C" fn listen(worker: u64, address: Buffer) -> Status {
    let bytes = if worker == 2 { vec![1; 300] } else { vec![2; 200] };
    // SAFETY: the core gives a valid buffer.
    unsafe { address.write(&bytes) }
}

/// Fails for peer 9, and answers with the forbidden handle zero for peer 8.
pub(super) extern "C" fn connect(
    _: u64,
    _: *const u8,
    _: u64,
    params: *const ChannelParams,
    channel: *mut u64,
) -> Status {
    // SAFETY: the core lends the parameters and gives a place.
    unsafe {
        match (*params).remote_rank {
            9 => fail(Status::REMOTE, "peer 9\nclosed the door"),
            8 => store(channel, 0),
            rank => store(channel, u64::from(rank)),
        }
    }
}

pub(super) extern "C" fn accept(_: u64, _: *const ChannelParams, _: *mut u64) -> Status {
    Status(450)
}

pub(super) extern "C" fn channel_state(
    _: u64,
    channel: u64,
    state: *mut ChannelState,
    detail: Buffer,
) -> Status {
    // SAFETY: the core gives a place and a buffer.
    unsafe {
        store(state, ChannelState::READY);
        match channel {
            1 => detail.write("10.0.0.1 → 10.0.0.2".as_bytes()),
            _ => fail(Status::USAGE, "no such channel"),
        }
    }
}

pub(super) extern "C" fn channel_abort(_: u64, _: u64) -> Status {
    Status::OK
}

pub(super) extern "C" fn channel_close(_: u64, _: u64, _: u64) -> Status {
    Status::OK
}

pub(super) extern "C" fn mem_register(
    _: u64,
    _: *mut u8,
    _: u64,
    _: *const Property,
    _: u64,
    _: *mut u64,
) -> Status {
    Status::UNSUPPORTED
}

pub(super) extern "C" fn mem_deregister(_: u64, _: u64) -> Status {
    Status::UNSUPPORTED
}

/// Claims to have accepted more than there was.
pub(super) extern "C" fn post(_: u64, _: *const WorkRequest, count: u64, accepted: *mut u64) -> Status {
    // SAFETY: the core gives a place.
    unsafe { store(accepted, count + 5) }
}

/// Claims to have stored more than fits.
pub(super) extern "C" fn poll(_: u64, _: *mut Completion, _: u64, count: *mut u64) -> Status {
    // SAFETY: the core gives a place.
    unsafe { store(count, u64::MAX) }
}

pub(super) extern "C" fn arm(_: u64) -> Status {
    Status::OK
}

pub(super) extern "C" fn wait_fd(_: u64, _: *mut i32) -> Status {
    Status::UNSUPPORTED
}

/// A linked-in plugin made of the functions above.
macro_rules! fake {
    ($module:ident, $name:literal) => {
        pub(super) mod $module {
            use super::*;
            use infiniccl_plugin_api::{NetTable, last_error};
            infiniccl_plugin_api::declare_plugin! {
                name: $name,
                version: "4.5.6",
                probe: probe,
                net: NetTable {
                    device_count, device_attributes, worker_open, worker_close, listen, connect, accept,
                    channel_state, channel_abort, channel_close, mem_register, mem_deregister, post, poll,
                    arm, wait_fd, last_error,
                },
            }
        }
    };
}

fake!(first, "first");
fake!(second, "second");
fake!(misnamed, "Mis named");
