//! Workers that were closed leave no descriptor and no memory behind.

mod ends;

use ends::End;
use infiniccl_plugin_api::WorkOp;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("procfs is mounted")
        .count()
}

/// Resident pages of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs is mounted");
    text.split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("the second number are resident pages")
}

fn live_and_die() {
    let ends = End::pair();
    let (mut out, mut back) = (vec![3; 20_000], vec![0; 20_000]);
    let [first, second] = &ends;
    second.post(&[second.request(WorkOp::RECV, &mut back)]);
    first.post(&[first.request(WorkOp::SEND, &mut out)]);
    let mut completed = 0;
    while completed < 2 {
        completed += first.poll() + second.poll();
    }
    assert!(out == back);
    ends.into_iter().for_each(End::close);
}

// The only test of this program, so that nobody else opens anything meanwhile.
#[test]
fn hundreds_of_lives_leave_nothing() {
    for _ in 0..20 {
        live_and_die();
    }
    let before = (descriptors(), resident());
    for _ in 0..400 {
        live_and_die();
    }
    let after = (descriptors(), resident());
    assert_eq!(after.0, before.0, "descriptors");
    assert!(after.1 < before.1 + 256, "from {} to {} pages", before.1, after.1);
}
