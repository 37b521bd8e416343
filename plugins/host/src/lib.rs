//! The host plugin: CPU memory as a device, and its collectives over shared memory, which serve the ranks of a node.
//!
//! | file | job |
//! |---|---|
//! | `device`, `options`, `identity` | the CPU as devices, its options, who can share memory with whom |
//! | `memory`, `stream`, `reduce` | allocation and copies; streams and events; local arithmetic |
//! | `ccl` | communicators, collectives and messages |
//! | `caps` | what is offered, row by row |

mod caps;
mod ccl;
mod device;
mod error;
mod fork;
mod identity;
mod memory;
mod options;
mod reduce;
mod stream;

use infiniccl_plugin_api::{VendorTable, declare_plugin, last_error};

declare_plugin! {
    name: "host",
    version: env!("CARGO_PKG_VERSION"),
    probe: device::probe,
    vendor: VendorTable {
        device_count: device::device_count,
        device_attributes: device::device_attributes,
        device_open: device::device_open,
        device_close: device::device_close,
        mem_alloc: memory::mem_alloc,
        mem_free: memory::mem_free,
        mem_classify: memory::mem_classify,
        stream_adopt: stream::stream_adopt,
        stream_create: stream::stream_create,
        stream_destroy: stream::stream_destroy,
        event_create: stream::event_create,
        event_record: stream::event_record,
        event_wait: stream::event_wait,
        event_query: stream::event_query,
        event_synchronize: stream::event_synchronize,
        event_destroy: stream::event_destroy,
        copy: memory::copy,
        reduce: reduce::reduce,
        scale: reduce::scale,
        stream_notify: stream::stream_notify,
        stream_hold: stream::stream_hold,
        stream_release: stream::stream_release,
        comm_unique_id: ccl::comm_unique_id,
        comm_init: ccl::comm_init,
        comm_caps: ccl::comm_caps,
        enqueue: ccl::enqueue,
        comm_async_error: ccl::comm_async_error,
        comm_abort: ccl::comm_abort,
        comm_destroy: ccl::comm_destroy,
        last_error,
    },
}
