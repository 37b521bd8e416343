//! A message costs no allocation once its channel is warm.

mod ends;

use ends::End;
use infiniccl_plugin_api::WorkOp;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends one message of each size each way and takes them in.
fn exchange(ends: &[End; 2], buffers: &mut [(Vec<u8>, Vec<u8>)], rounds: usize) {
    for _ in 0..rounds {
        for (out, back) in &mut *buffers {
            let [first, second] = ends;
            second.post(&[second.request(WorkOp::RECV, back)]);
            first.post(&[first.request(WorkOp::SEND, out)]);
            let mut completed = 0;
            while completed < 2 {
                completed += first.poll() + second.poll();
            }
        }
    }
}

// The only test of this program, so that nobody else allocates meanwhile.
#[test]
fn warm_channels_do_not_allocate() {
    let ends = End::pair();
    let mut buffers: Vec<(Vec<u8>, Vec<u8>)> = [0, 8, 5000, 100_000]
        .iter()
        .map(|size| (vec![7; *size], vec![0; *size]))
        .collect();
    exchange(&ends, &mut buffers, 500);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    exchange(&ends, &mut buffers, 1000);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    assert!(buffers.iter().all(|(out, back)| out == back));
    ends.into_iter().for_each(End::close);
}
