//! CPU memory: allocation, what a pointer is, and copies.

use crate::device::{self, Device};
use crate::error::usage;
use crate::stream::Work;
use infiniccl_plugin_api::{
    CopyDesc, DeviceHandle, Failure, MemInfo, MemKind, Status, StreamHandle, guarded, slice, store,
};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of every allocation; large ones begin at a page.
const ALIGN: usize = 256;
const PAGE: usize = 4096;

struct Allocation {
    layout: Layout,
    id: u64,
}

#[derive(Default)]
struct Allocations {
    by_address: BTreeMap<usize, Allocation>,
    last_id: u64,
}

/// Process-wide: every device of this plugin is the same memory.
static ALLOCATIONS: Mutex<Allocations> = Mutex::new(Allocations {
    by_address: BTreeMap::new(),
    last_id: 0,
});

fn allocations() -> MutexGuard<'static, Allocations> {
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn allocate(kind: MemKind, bytes: u64) -> Result<*mut u8, Failure> {
    known(kind)?;
    let refused = || {
        Failure::new(
            Status::SYSTEM,
            format!("{bytes} bytes of memory cannot be allocated"),
        )
    };
    let size = usize::try_from(bytes).map_err(|_| refused())?.max(1);
    let align = if size < PAGE { ALIGN } else { PAGE };
    let layout = Layout::from_size_align(size, align).map_err(|_| refused())?;
    // SAFETY: the size is not zero.
    let ptr = unsafe { std::alloc::alloc(layout) };
    if ptr.is_null() {
        return Err(refused());
    }
    let mut all = allocations();
    all.last_id += 1;
    let id = all.last_id;
    all.by_address.insert(ptr.addr(), Allocation { layout, id });
    Ok(ptr)
}

fn free(ptr: *mut u8) -> Result<(), Failure> {
    if ptr.is_null() {
        return Ok(());
    }
    let allocation = allocations().by_address.remove(&ptr.addr());
    let Some(Allocation { layout, .. }) = allocation else {
        return Err(usage(format!(
            "{ptr:p} was not allocated by mem_alloc, or is freed already"
        )));
    };
    // SAFETY: the registry had it, so `allocate` made it with this layout and nobody has freed it.
    unsafe { std::alloc::dealloc(ptr, layout) };
    Ok(())
}

/// What is known of a pointer: all memory is host memory; allocations of this plugin have an id.
fn classify(ptr: *const u8, device: u32) -> MemInfo {
    let mut info = MemInfo {
        kind: MemKind::HOST,
        device,
        ..MemInfo::default()
    };
    let all = allocations();
    if let Some((base, allocation)) = all.by_address.range(..=ptr.addr()).next_back()
        && ptr.addr() - base < allocation.layout.size()
    {
        info.base = *base as u64;
        info.len = allocation.layout.size() as u64;
        info.allocation_id = allocation.id;
    }
    info
}

/// Every kind is CPU memory here.
fn known(kind: MemKind) -> Result<(), Failure> {
    match kind {
        MemKind::HOST | MemKind::PINNED | MemKind::DEVICE | MemKind::MANAGED => Ok(()),
        other => {
            let text = format!("memory kind {} is unknown to the host plugin", other.0);
            Err(Failure::new(Status::UNSUPPORTED, text))
        }
    }
}

/// # Safety
/// Both ranges are valid and do not overlap.
pub(crate) unsafe fn run_copy(copy: &CopyDesc) {
    let Ok(bytes) = usize::try_from(copy.bytes) else {
        return;
    };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(copy.src, copy.dst, bytes) };
}

fn checked(copy: &CopyDesc) -> Result<Option<CopyDesc>, Failure> {
    known(copy.src_kind)?;
    known(copy.dst_kind)?;
    if copy.bytes == 0 {
        return Ok(None);
    }
    if copy.src.is_null() || copy.dst.is_null() {
        return Err(usage("a copy from or to a null pointer"));
    }
    usize::try_from(copy.bytes).map_err(|_| usage("a copy of more bytes than an address space has"))?;
    Ok(Some(*copy))
}

fn copies(device: &Device, stream: StreamHandle, copies: &[CopyDesc]) -> Result<(), Failure> {
    let copies: Result<Vec<_>, _> = copies
        .iter()
        .filter_map(|copy| checked(copy).transpose())
        .collect();
    device.give(stream, Work::copy(copies?))
}

guarded! {
    pub(crate) extern "C" fn mem_alloc(
        _device: DeviceHandle,
        kind: MemKind,
        bytes: u64,
        ptr: *mut *mut u8,
    ) -> Status {
        match allocate(kind, bytes) {
            // SAFETY: the core gives a place for the result.
            Ok(memory) => unsafe { store(ptr, memory) },
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn mem_free(_device: DeviceHandle, _kind: MemKind, ptr: *mut u8) -> Status {
        free(ptr).into()
    }

    pub(crate) extern "C" fn mem_classify(
        device: DeviceHandle,
        ptr: *const u8,
        info: *mut MemInfo,
    ) -> Status {
        match device::get(device) {
            // SAFETY: the core gives a place for the result.
            Ok(device) => unsafe { store(info, classify(ptr, device.index())) },
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn copy(
        device: DeviceHandle,
        stream: StreamHandle,
        list: *const CopyDesc,
        count: u64,
    ) -> Status {
        let run = || {
            // SAFETY: the core lends the descriptors for this call.
            let list = unsafe { slice(list, count) }.map_err(|_| usage("no copies: null pointer"))?;
            copies(device::get(device)?, stream, list)
        };
        run().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_reused_addresses_apart() {
        let first = allocate(MemKind::PINNED, 10_000).expect("memory");
        assert!(first.addr().is_multiple_of(PAGE));
        // SAFETY: inside the allocation.
        let inside = classify(unsafe { first.add(9_999) }, 3);
        assert_eq!(
            (inside.kind, inside.device, inside.base),
            (MemKind::HOST, 3, first.addr() as u64)
        );
        assert!(inside.allocation_id != 0 && inside.len >= 10_000);
        free(first).expect("freed");
        let second = allocate(MemKind::HOST, 10_000).expect("memory");
        assert_ne!(classify(second, 0).allocation_id, inside.allocation_id);
        free(second).expect("freed");
        assert_eq!(free(second).expect_err("twice").status, Status::USAGE);
        assert_eq!(classify(std::ptr::from_ref(&inside).cast(), 0).allocation_id, 0);
    }

    #[test]
    fn odd_requests_are_answered_not_obeyed() {
        assert_eq!(
            allocate(MemKind(9), 1).expect_err("kind").status,
            Status::UNSUPPORTED
        );
        assert_eq!(
            allocate(MemKind::HOST, u64::MAX).expect_err("size").status,
            Status::SYSTEM
        );
        let empty = allocate(MemKind::DEVICE, 0).expect("a pointer");
        assert!(!empty.is_null());
        free(empty).expect("freed");
        free(std::ptr::null_mut()).expect("nothing to do");
    }
}
